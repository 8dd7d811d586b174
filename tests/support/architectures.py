"""Small nets of the usual architectures, each with an input: the test set of module groups."""

from __future__ import annotations

from collections.abc import Callable

import torch
from programs import LeNet
from torch import Tensor, nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[Tensor, ...]]
ARCHITECTURES: dict[str, Callable[[], Made]] = {}


def architecture(make: Callable[[], Made]) -> Callable[[], Made]:
    """Enter a net into the test set, seeded."""

    def seeded() -> Made:
        torch.manual_seed(0)
        return make()

    ARCHITECTURES[make.__name__] = seeded
    return seeded


@architecture
def mlp() -> Made:
    layers = nn.Sequential(
        *(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1)) for _ in range(3)),
        nn.Linear(8, 4),
    )
    return layers, (torch.randn(5, 8),)


@architecture
def flat_mlp() -> Made:
    layers = [nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1), nn.Sigmoid()]
    return nn.Sequential(*layers), (torch.randn(5, 8),)


@architecture
def lenet() -> Made:
    return LeNet(), (torch.randn(2, 1, 28, 28),)


class BasicBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + identity)


class FunctionalBlock(BasicBlock):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__(before, after, stride)
        del self.relu

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block: type[BasicBlock]) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        if block is BasicBlock:
            self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.layer1 = nn.Sequential(block(8, 8, 1), block(8, 8, 1))
        self.layer2 = nn.Sequential(block(8, 16, 2), block(16, 16, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x))
        x = self.maxpool(self.relu(x)) if hasattr(self, "relu") else F.relu(x)
        x = self.layer2(self.layer1(x))
        x = self.avgpool(x) if hasattr(self, "avgpool") else F.adaptive_avg_pool2d(x, 1)
        return self.fc(torch.flatten(x, 1))


@architecture
def resnet() -> Made:
    return ResNet(BasicBlock), (torch.randn(2, 3, 16, 16),)


@architecture
def functional_resnet() -> Made:
    return ResNet(FunctionalBlock), (torch.randn(2, 3, 16, 16),)


class VGG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for after in (8, 8, 0, 16, 16, 0):
            if after == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(before, after, 3, 1, 1), nn.ReLU(inplace=True)]
                before = after
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Linear(64, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 32), nn.ReLU(True),
            nn.Dropout(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


@architecture
def vgg() -> Made:
    return VGG(), (torch.randn(2, 3, 16, 16),)


class DoubleConv(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(before, after, 3, 1, 1), nn.Conv2d(after, after, 3, 1, 1)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.downs = nn.ModuleList(DoubleConv(a, b) for a, b in ((3, 8), (8, 16)))
        self.middle = DoubleConv(16, 32)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(a, a // 2, 2, 2) for a in (32, 16))
        self.merges = nn.ModuleList(DoubleConv(a, a // 2) for a in (32, 16))
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge, skip in zip(self.ups, self.merges, reversed(skips), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return torch.sigmoid(self.head(x))


@architecture
def unet() -> Made:
    return UNet(), (torch.randn(2, 3, 16, 16),)


class DenseLayer(nn.Module):
    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, 8, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(8), nn.Conv2d(8, growth, 3, 1, 1, bias=False)
        self.relu1, self.relu2 = nn.ReLU(inplace=True), nn.ReLU(inplace=True)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = self.conv1(self.relu1(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, before: int, growth: int, layers: int) -> None:
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(before + i * growth, growth))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(before), nn.ReLU(inplace=True)
        self.conv, self.pool = nn.Conv2d(before, after, 1, bias=False), nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, 8, 3, 1, 1, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(8))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("denseblock1", DenseBlock(8, 4, 4))
        self.features.add_module("transition1", Transition(24, 12))
        self.features.add_module("denseblock2", DenseBlock(12, 4, 4))
        self.features.add_module("norm5", nn.BatchNorm2d(28))
        self.classifier = nn.Linear(28, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x))
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


@architecture
def densenet() -> Made:
    return DenseNet(), (torch.randn(2, 3, 16, 16),)


@architecture
def transformer_encoder() -> Made:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 3), (torch.randn(2, 5, 16),)


@architecture
def transformer_encoder_pre_norm() -> Made:
    layer = nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 3, nn.LayerNorm(16)), (torch.randn(2, 5, 16),)


@architecture
def transformer() -> Made:
    net = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
    return net, (torch.randn(2, 5, 16), torch.randn(2, 4, 16))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(memory)), split(self.value(memory))
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(F.gelu(self.wide(x)))


class DecoderLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.cross = Attention(width, 4), Attention(width, 4)
        self.feed = FeedForward(width, 2 * width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y)
        x = x + self.cross(self.norm2(x), memory)
        return x + self.feed(self.norm3(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Parameter(torch.randn(6, 16))
        self.source = nn.Linear(3, 16)
        self.layers = nn.ModuleList(DecoderLayer(16) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 11, bias=False)

    def forward(self, tokens: Tensor, source: Tensor) -> Tensor:
        memory = torch.tanh(self.source(source))
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x, memory)
        return self.head(self.norm(x))


@architecture
def cross_attention_decoder() -> Made:
    return Decoder(), (torch.randint(0, 11, (2, 6)), torch.randn(2, 4, 3))


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Linear(3, 8), nn.LSTMCell(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, steps: Tensor) -> Tensor:
        hidden = None
        outputs = []
        for step in steps:
            hidden = self.cell(F.relu(self.embed(step)), hidden)
            outputs.append(self.head(hidden[0]))
        return torch.stack(outputs)


@architecture
def lstm_cell_loop() -> Made:
    return CellLoop(), (torch.randn(6, 4, 3),)


class GatedCell(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        reset, update = self.gates(torch.cat([x, hidden], 1)).sigmoid().chunk(2, 1)
        new = torch.tanh(self.new(torch.cat([x, reset * hidden], 1)))
        return update * hidden + (1 - update) * new


class GatedLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = GatedCell(8), nn.Linear(8, 2)

    def forward(self, steps: Tensor) -> Tensor:
        hidden = steps.new_zeros(steps.shape[1], 8)
        for step in steps:
            hidden = self.cell(step, hidden)
        return self.head(hidden)


@architecture
def gated_loop() -> Made:
    return GatedLoop(), (torch.randn(6, 4, 8),)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.rnn(x)[0][:, -1]))


@architecture
def lstm() -> Made:
    return Recurrent(), (torch.randn(4, 5, 3),)


class ConvNormActivation(nn.Sequential):
    def __init__(self, before: int, after: int, size: int, stride: int, groups: int) -> None:
        super().__init__(
            nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.skip = stride == 1 and before == after
        self.conv = nn.Sequential(
            ConvNormActivation(before, 2 * before, 1, 1, 1),
            ConvNormActivation(2 * before, 2 * before, 3, stride, 2 * before),
            nn.Conv2d(2 * before, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.skip else self.conv(x)


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [InvertedResidual(*sizes) for sizes in ((8, 8, 1), (8, 16, 2), (16, 16, 1))]
        self.features = nn.Sequential(
            ConvNormActivation(3, 8, 3, 2, 1), *blocks, ConvNormActivation(16, 32, 1, 1, 1)
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


@architecture
def mobilenet() -> Made:
    return MobileNet(), (torch.randn(2, 3, 16, 16),)


class MixerBlock(nn.Module):
    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = FeedForward(places, 8), FeedForward(width, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.blocks = nn.Sequential(*(MixerBlock(16, 16) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


@architecture
def mlp_mixer() -> Made:
    return Mixer(), (torch.randn(2, 3, 16, 16),)
