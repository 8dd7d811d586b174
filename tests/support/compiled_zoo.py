"""Programs to compile: each gives a loss, from a module or function that torch.compile takes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(x)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5)
        self.conv2 = nn.Conv2d(4, 8, 5)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


class Residual(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = torch.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return torch.relu(x + h)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Residual(), Residual())
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = x.mean((2, 3))
        return self.head(x)


class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        x = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(x)


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = F.gelu(self.up(self.norm2(x)))
        return x + self.down(h)


class Language(nn.Module):
    """A decoder whose embedding and head are one tensor."""

    def __init__(self, words=20, width=16, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], 6)
        for step in x:
            h = self.cell(step, h)
        return self.out(h)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        return self.down(F.silu(self.gate(x)) * self.up(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, 4, 3, padding=1)
        self.down2 = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.silu(self.down1(x))
        b = F.silu(self.norm(self.down2(a)))
        return self.out(torch.cat([a, self.up(b)], 1))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        given = torch.stack([expert(x) for expert in self.experts], -1)
        return (given * weights[:, None, :]).sum(-1)


class Autoencoder(nn.Module):
    """Takes its noise as an input, and gives two tensors."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, x, noise):
        mean, logvar = self.encoder(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * logvar) * noise
        divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum()
        return self.decoder(z), divergence


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.b(F.dropout(torch.tanh(self.a(x)), 0.5, self.training))


class Twice(nn.Module):
    """One layer that runs several times."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.layer(x)) + x
        return x


class Broken(nn.Module):
    """A graph break in the middle: two compiled nodes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        torch._dynamo.graph_break()
        return self.b(h)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 5)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        h = self.a(x)
        h.mul_(2).relu_()
        return h.clamp(max=1.0)


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Conv2d(4, 4, 3, groups=4, padding=1)
        self.point = nn.Conv2d(4, 6, 1)

    def forward(self, x):
        x = F.hardswish(self.deep(x))
        return F.avg_pool2d(self.point(x), 2)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.tokens, self.channels = nn.LayerNorm(8), nn.Linear(5, 5), nn.Linear(8, 8)

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(F.elu(x))


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Embedding(7, 4), nn.EmbeddingBag(7, 4, mode="sum")
        self.form = nn.Bilinear(4, 4, 1)

    def forward(self, i, j):
        return torch.sigmoid(self.form(self.left(i), self.right(j)))


def function(x, w):
    return torch.einsum("ij,jk->ik", x.sin(), w).logsumexp(-1)


Program = tuple[Callable[..., object], tuple[Tensor, ...]]


def _of(module: type[nn.Module], *inputs: Callable[[], Tensor]) -> Callable[[], Program]:
    return lambda: (module(), tuple(made() for made in inputs))


def _normal(*shape: int, needs_grad: bool = False) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape, requires_grad=needs_grad)


def _whole(most: int, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, most, shape)


ZOO: dict[str, Callable[[], Program]] = {
    "mlp": _of(Mlp, _normal(4, 8)),
    "lenet": _of(LeNet, _normal(2, 1, 28, 28)),
    "resnet": _of(ResNet, _normal(2, 3, 8, 8)),
    "attention": _of(Attention, _normal(2, 5, 16)),
    "fused attention": _of(Fused, _normal(2, 5, 8)),
    "transformer": _of(Block, _normal(2, 5, 16, needs_grad=True)),
    "language model": _of(Language, _whole(20, 2, 6)),
    "recurrent": _of(Recurrent, _normal(3, 2, 4)),
    "gated": _of(Gated, _normal(3, 8)),
    "unet": _of(UNet, _normal(2, 1, 8, 8)),
    "experts": _of(Experts, _normal(4, 8)),
    "autoencoder": _of(Autoencoder, _normal(3, 6), _normal(3, 2)),
    "dropout": _of(Dropping, _normal(4, 8)),
    "one layer often": _of(Twice, _normal(4, 6)),
    "graph break": _of(Broken, _normal(4, 6)),
    "in place": _of(InPlace, _normal(4, 5)),
    "separable": _of(Separable, _normal(2, 4, 6, 6)),
    "mixer": _of(Mixer, _normal(2, 5, 8)),
    "bilinear": _of(Bilinear, _whole(7, 3), _whole(7, 3, 2)),
    "function": lambda: (
        function,
        (torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)),
    ),
}
"""Twenty programs by name: the callable, and its inputs."""


def compiled_loss(name: str, backend: str) -> Tensor:
    """The loss of a program of `ZOO`, compiled."""
    torch.manual_seed(0)
    program, inputs = ZOO[name]()
    given = torch.compile(program, backend=backend)(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    return sum((each * each).sum() for each in outputs)
