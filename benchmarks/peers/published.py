"""Plans the models of published tables at the published batch sizes, from steps recorded at two small ones.

Run it through benchmarks/peers/published, which makes its environment and names its programs.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision

import region

RECORDED_BATCHES = (2, 3)  # the planner draws a line through them


def unet():
    """The U-Net that MONeT measured: Pytorch-UNet with biases, scaled up by adaptive pooling."""

    def double(inputs, middle, outputs):
        convolutions = []
        for a, b in ((inputs, middle), (middle, outputs)):
            convolutions += [torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.BatchNorm2d(b), torch.nn.ReLU(True)]
        return torch.nn.Sequential(*convolutions)

    class UNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = (64, 128, 256, 512, 512)
            self.first = double(3, 64, 64)
            self.downs = torch.nn.ModuleList(double(a, b, b) for a, b in zip(widths, widths[1:]))
            self.ups = torch.nn.ModuleList(
                double(2 * a, a, b) for a, b in ((512, 256), (256, 128), (128, 64), (64, 64)))
            self.last = torch.nn.Conv2d(64, 1, 1)

        def forward(self, x):
            x = self.first(x)
            skips = []
            for down in self.downs:
                skips.append(x)
                x = down(torch.nn.functional.max_pool2d(x, 2))
            for up in self.ups:
                skip = skips.pop()
                x = torch.nn.functional.adaptive_avg_pool2d(x, skip.shape[2:])
                x = up(torch.cat([skip, x], dim=1))
            return self.last(x)

    return UNet()


MODELS = {  # how to make it, and the size of its images
    "resnet50": (torchvision.models.resnet50, (224, 224)),
    "googlenet": (lambda: torchvision.models.googlenet(aux_logits=False, init_weights=False), (224, 224)),
    "unet": (unet, (416, 608)),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, (224, 224)),
    "vgg16": (torchvision.models.vgg16, (224, 224)),
}


def record(name, batch, path):
    """Profiles one step of `batch` random images and writes it to `path`."""
    torch.manual_seed(0)
    make, size = MODELS[name]
    model = make().train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    images = torch.randn(batch, 3, *size)
    profiler = region.Region(0, "flops")
    profiler.run(lambda: model(images)).sum().backward()
    profiler.save_graph(path, f"{name}, batch {batch}, image {size[0]} x {size[1]}")


def number_of_parameters(name):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in MODELS[name][0]().parameters())


def show(name, tables, folder):
    recordings = []
    for batch in RECORDED_BATCHES:
        print(f"==> {name}: recording a step of {batch} images", file=sys.stderr, flush=True)
        path = Path(folder) / f"{name}_{batch}.json"
        record(name, batch, path)
        recordings += [str(path), str(batch)]
    print(f"==> {name}: planning", file=sys.stderr, flush=True)
    subprocess.run([tables, name, str(number_of_parameters(name)), *recordings], check=True)


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/peers/published", description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tables", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="to leave the recorded steps in (none)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    region.load(options.library)
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.model:
            show(name, options.tables, options.keep or temporary)


if __name__ == "__main__":
    main()
