"""The models to train, as a list of blocks whose calls in a row are the model's forward pass."""

import dataclasses
import math

import torch
import torchvision
import transformers

NUM_DIGITS = 10
NUM_BYTES = 256
FIRST_BYTE_TOKEN = 1000


@dataclasses.dataclass
class Workload:
    """A model and one batch of random input. `module` owns parameters and buffers."""

    module: torch.nn.Module
    blocks: list
    input: torch.Tensor
    loss_of: object  # of the last block's output

    def forward(self):
        x = self.input
        for block in self.blocks:
            x = block(x)
        return x


def resnet(batch, image_size=224, layers=(3, 8, 36, 3)):
    """torchvision's ResNet of bottleneck blocks, by default ResNet-152."""
    net = torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, list(layers))
    stem = torch.nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    head = torch.nn.Sequential(net.avgpool, torch.nn.Flatten(1), net.fc)
    blocks = [stem, *net.layer1, *net.layer2, *net.layer3, *net.layer4, head]
    return Workload(net, blocks, *_images(batch, image_size))


def vit(batch, image_size=224, **sizes):
    """torchvision's vision transformer, by default ViT-B/16."""
    sizes = {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072} | sizes
    net = torchvision.models.VisionTransformer(image_size=image_size, patch_size=16, **sizes)
    # As published the head starts at zero, and with it all gradients of the first step.
    torch.nn.init.xavier_uniform_(net.heads.head.weight)

    def embed(x):
        x = net._process_input(x)
        x = torch.cat([net.class_token.expand(len(x), -1, -1), x], dim=1)
        return net.encoder.dropout(x + net.encoder.pos_embedding)

    def classify(x):
        return net.heads(net.encoder.ln(x)[:, 0])

    return Workload(net, [embed, *net.encoder.layers, classify], *_images(batch, image_size))


def bert_encoder(batch, sequence=128, **sizes):
    """The layers of Hugging Face's BertModel, by default BERT-Large, after its embeddings.

    The loss asks for each byte of a random text; the scores are a fixed projection of the states.
    """
    sizes = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    } | sizes
    net = transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False)
    text = torch.randint(NUM_BYTES, (batch, sequence))
    with torch.no_grad():
        embedded = net.embeddings(text + FIRST_BYTE_TOKEN)
    width = net.config.hidden_size
    projection = torch.randn(width, NUM_BYTES) / math.sqrt(width)

    def loss_of(states):
        scores = (states @ projection).view(-1, NUM_BYTES)
        return torch.nn.functional.cross_entropy(scores, text.view(-1))

    return Workload(net.encoder, list(net.encoder.layer), embedded, loss_of)


def _images(batch, size):
    labels = torch.randint(NUM_DIGITS, (batch,))
    return (
        torch.randn(batch, 3, size, size),
        lambda scores: torch.nn.functional.cross_entropy(scores, labels),
    )


MODELS = {"resnet152": resnet, "bert-large-encoder": bert_encoder, "vit-b16": vit}


def make_workload(name, seed=0, **sizes):
    torch.manual_seed(seed)
    workload = MODELS[name](**sizes)
    workload.module.train()
    return workload
