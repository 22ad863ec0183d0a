"""Writes this folder's oracles from torchvision, Hugging Face transformers, PyTorch Hub, PyTorch
and neuraloperator.

    pip install torch==2.11.0 torchvision==0.26.0 transformers==5.23.0 neuraloperator==2.0.0
    python generate.py

with_metadata.pt         a state dict saved without dict(), which LibTorch cannot read
In names/:
<model>.txt              one line per tensor of the published model's state dict: name dtype shape
In examples/:
tiny_<model>.state.pt    the state dict of a tiny model of the same architecture, random throughout
tiny_<model>.example.pt  its inputs, and its output in eval mode

The tests repeat the options of the tiny models. A model's oracles are written alone by its name:

    python generate.py unet
"""

import importlib
import sys
from pathlib import Path

import torch
import torchvision
import transformers

FOLDER = Path(__file__).parent


def write_names(name, model):
    lines = (
        " ".join([key, str(tensor.dtype).removeprefix("torch."), *map(str, tensor.shape)])
        for key, tensor in model.state_dict().items()
    )
    (FOLDER / "names" / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def write_published_names():
    with torch.device("meta"):
        write_names("lstm_large", LanguageModel(10000, 1500, 2))
        for name in ("resnet18", "resnet50", "resnet152", "vit_b_16", "vit_l_16",
                     "densenet121", "densenet201"):
            write_names(name, getattr(torchvision.models, name)())
        write_names("bert_base", transformers.BertModel(transformers.BertConfig()))
        large = transformers.BertConfig(
            hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
        )
        write_names("bert_large", transformers.BertModel(large))
        write_names("gpt2", transformers.GPT2Model(transformers.GPT2Config()))
        medium = transformers.GPT2Config(n_embd=1024, n_layer=24, n_head=16)
        write_names("gpt2_medium", transformers.GPT2Model(medium))


class TinyResNet(torchvision.models.ResNet):
    """torchvision's ResNet with WIDTH channels in the stem instead of its fixed 64."""

    WIDTH = 2

    def __init__(self, block, layers):
        super().__init__(block, layers)
        self.fc = torch.nn.Linear(8 * self.WIDTH * block.expansion, 10)

    @property
    def inplanes(self):
        return self._inplanes

    @inplanes.setter
    def inplanes(self, channels):
        self._inplanes = channels if hasattr(self, "_inplanes") else self.WIDTH

    def _make_layer(self, block, planes, *args, **kwargs):
        return super()._make_layer(block, planes * self.WIDTH // 64, *args, **kwargs)


def randomize(model):
    """Gives every tensor values that tell it from its neighbours, zero-initialized ones too."""
    for name, tensor in model.state_dict().items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            tensor.fill_(1)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() > 1:
            tensor.normal_(0, tensor[0].numel() ** -0.5)
        else:
            tensor.uniform_(-0.5, 1)


def write_example(name, model, inputs):
    randomize(model)
    with torch.no_grad():
        output = model.eval()(*inputs.values())
    torch.save(dict(model.state_dict()), FOLDER / "examples" / f"{name}.state.pt")
    torch.save({**inputs, "output": output}, FOLDER / "examples" / f"{name}.example.pt")


class PooledBert(torch.nn.Module):
    """BertModel's state dict and pooled output."""

    def __init__(self, config):
        super().__init__()
        self.model = transformers.BertModel(config)

    def state_dict(self):
        return self.model.state_dict()

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids, attention_mask, token_type_ids).pooler_output


def write_tiny_bert():
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[1, 7:] = 0
    inputs = {
        "input_ids": torch.randint(40, (2, 10)),
        "attention_mask": mask,
        "token_type_ids": torch.randint(2, (2, 10)),
    }
    write_example("tiny_bert", PooledBert(config), inputs)


def write_tiny_vit():
    vit = torchvision.models.VisionTransformer(
        image_size=32,
        patch_size=8,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
        num_classes=10,
    )
    write_example("tiny_vit", vit, {"images": torch.randn(2, 3, 32, 32)})


class HiddenStates(torch.nn.Module):
    """GPT2Model's state dict and last hidden states."""

    def __init__(self, config):
        super().__init__()
        self.model = transformers.GPT2Model(config)

    def state_dict(self):
        return self.model.state_dict()

    def forward(self, input_ids):
        return self.model(input_ids).last_hidden_state


def write_tiny_gpt2():
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=12, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0
    )
    write_example("tiny_gpt2", HiddenStates(config), {"input_ids": torch.randint(40, (2, 10))})


def write_tiny_densenet():
    densenet = torchvision.models.DenseNet(
        growth_rate=4,
        block_config=(1, 2, 1, 2),
        num_init_features=6,
        bn_size=2,
        num_classes=10,
    )
    write_example("tiny_densenet", densenet, {"images": torch.randn(2, 3, 64, 64)})


class LanguageModel(torch.nn.Module):
    """The word_language_model example of PyTorch without its decoder, in eval mode."""

    def __init__(self, vocab_size, hidden_size, num_layers):
        super().__init__()
        self.encoder = torch.nn.Embedding(vocab_size, hidden_size)
        self.rnn = torch.nn.LSTM(hidden_size, hidden_size, num_layers, batch_first=True)

    def forward(self, input_ids):
        return self.rnn(self.encoder(input_ids))[0]


def write_lstm():
    write_example("tiny_lstm", LanguageModel(40, 16, 2), {"input_ids": torch.randint(40, (2, 10))})


def narrow_unet(model, width, bilinear):
    """`model`, whose widths are fixed, made again from its own parts with `width` channels."""
    parts = importlib.import_module("unet.unet_parts")
    half = 2 if bilinear else 1
    model.inc = parts.DoubleConv(3, width)
    for i in range(4):
        wide = width << (i + 1)
        setattr(model, f"down{i + 1}", parts.Down(wide // 2, wide // (half if i == 3 else 1)))
        out = wide // 2 // (half if i > 0 else 1)
        setattr(model, f"up{4 - i}", parts.Up(wide, out, bilinear))
    model.outc = parts.OutConv(width, 2)
    return model


def write_unet():
    published = torch.hub.load("milesial/Pytorch-UNet", "unet_carvana", trust_repo=True)
    write_names("unet_carvana", published)
    images = {"images": torch.randn(2, 3, 35, 50)}
    for name, bilinear in (("tiny_unet", False), ("tiny_unet_bilinear", True)):
        published.bilinear = bilinear
        write_example(name, narrow_unet(published, 2, bilinear), images)


def write_fno():
    from neuralop.models import FNO

    class PlainFNO(FNO):
        """Whose state holds tensors alone, not what the library notes beside them."""

        state_dict = torch.nn.Module.state_dict

    write_names("fno", PlainFNO((64, 64), in_channels=2, out_channels=1, hidden_channels=64))
    tiny = PlainFNO((6, 6), in_channels=2, out_channels=3, hidden_channels=4, n_layers=2)
    write_example("tiny_fno", tiny, {"fields": torch.randn(2, 2, 9, 13)})


def main():
    torch.manual_seed(0)
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            globals()[f"write_{name}"]()
        return
    write_published_names()
    images = {"images": torch.randn(2, 3, 32, 32)}
    blocks = torchvision.models.resnet
    write_example("tiny_resnet_basic", TinyResNet(blocks.BasicBlock, [1, 2, 1, 1]), images)
    write_example("tiny_resnet_bottleneck", TinyResNet(blocks.Bottleneck, [1, 2, 1, 1]), images)
    write_tiny_vit()
    write_tiny_bert()
    torch.save(torch.nn.Linear(1, 1).state_dict(), FOLDER / "with_metadata.pt")
    write_tiny_gpt2()
    write_tiny_densenet()
    write_lstm()
    write_unet()
    write_fno()


if __name__ == "__main__":
    main()
