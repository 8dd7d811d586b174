"""Training steps for plans: small real models with a batch, a loss and, at times, an optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Step(NamedTuple):
    model: nn.Module
    batch: Any
    loss: Callable[..., Any] | None = None
    optimizer: Callable[..., Any] | None = None


STEPS: dict[str, Callable[[], Step]] = {}


def step(function: Callable[[], Step]) -> Callable[[], Step]:
    """Enter a function into the set, seeded."""

    def seeded() -> Step:
        torch.manual_seed(0)
        return function()

    STEPS[function.__name__] = seeded
    return seeded


def squares(output: torch.Tensor) -> torch.Tensor:
    return output.pow(2).mean()


def classes(output: torch.Tensor, batch: Any) -> torch.Tensor:
    return F.cross_entropy(output, torch.zeros(output.shape[0], dtype=torch.long))


def next_tokens(output: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.flatten(0, 1), tokens.flatten())


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(
            x
        ) * self.weight.type_as(x)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """A small decoder-only transformer.

    Args:
        blocks: The number of its blocks.
        recomputed: The blocks under a checkpoint.
        reentrant: The kind of the checkpoint.
        tied: Whether the output layer has the weight of the embedding.
        inner: The width within each block; several for blocks of several widths.
    """

    def __init__(
        self,
        *,
        blocks: int = 4,
        recomputed: range = range(0),
        reentrant: bool = False,
        tied: bool = False,
        inner: tuple[int, ...] = (64,),
        width: int = 32,
    ) -> None:
        super().__init__()
        self.recomputed, self.reentrant = recomputed, reentrant
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Block(width, 4, inner[i % len(inner)]) for i in range(blocks))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, 50, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for i, layer in enumerate(self.layers):
            if i in self.recomputed:
                x = checkpoint(layer, x, use_reentrant=self.reentrant)
            else:
                x = layer(x)
        return self.head(self.norm(x))


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, 50, shape)


@step
def linear() -> Step:
    return Step(nn.Linear(8, 4), torch.randn(16, 8), squares)


@step
def perceptron() -> Step:
    layers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
    return Step(layers.append(nn.Linear(64, 4)), torch.randn(32, 8), classes)


@step
def in_place() -> Step:
    layers = nn.Sequential(nn.Linear(8, 64), nn.ReLU(inplace=True), nn.Linear(64, 4))
    return Step(layers, torch.randn(32, 8), squares)


@step
def convolutions() -> Step:
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(16, 10),
    )
    return Step(layers, torch.randn(4, 3, 16, 16), classes)


@step
def decoder() -> Step:
    return Step(Decoder(), tokens(2, 24), next_tokens)


@step
def decoder_with_adamw() -> Step:
    return Step(Decoder(blocks=2), tokens(2, 24), next_tokens, torch.optim.AdamW)


@step
def with_momentum() -> Step:
    make = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    return Step(nn.Sequential(nn.Linear(8, 64), nn.GELU()), torch.randn(32, 8), squares, make)


@step
def recomputed() -> Step:
    return Step(Decoder(recomputed=range(4)), tokens(2, 24), next_tokens)


@step
def half_recomputed() -> Step:
    return Step(Decoder(recomputed=range(0, 4, 2)), tokens(2, 24), next_tokens)


@step
def recomputed_reentrant() -> Step:
    return Step(Decoder(recomputed=range(4), reentrant=True), tokens(2, 24), next_tokens)


@step
def recomputed_in_segments() -> Step:
    class Segments(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(6)]
            self.layers = nn.Sequential(*layers)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint_sequential(self.layers, 3, x, use_reentrant=False)

    return Step(Segments(), torch.randn(32, 16), squares)


@step
def tied() -> Step:
    return Step(Decoder(blocks=2, tied=True), tokens(2, 24), next_tokens)


@step
def tied_and_recomputed() -> Step:
    return Step(Decoder(blocks=2, tied=True, recomputed=range(2)), tokens(2, 24), next_tokens)


@step
def views() -> Step:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = nn.Parameter(torch.randn(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = self.flat.view(8, 8).split(4, 1)
            h = torch.zeros(16, 4)
            h[:, 1:3] = (x @ first)[:, ::2].sin()
            return (h.t().reshape(2, -1)[1] * x[:, ::4].flatten()[: h.numel() // 2]).cumsum(
                0
            ).sum() + second.expand(3, 8, 4).logsumexp(0)

    return Step(Views(), torch.randn(16, 8), squares)


@step
def shared_memory() -> Step:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            flat = torch.randn(100)
            self.w = nn.Parameter(flat[:64].view(8, 8))
            self.b = nn.Parameter(flat[64:72])
            self.register_buffer("scale", flat[80:88])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, self.w, self.b).relu() * self.scale

    return Step(Parts(), torch.randn(16, 8), squares)


@step
def mixed_precision() -> Step:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Decoder(blocks=2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(tokens)

    return Step(Mixed(), tokens(2, 24), lambda o, b: next_tokens(o.float(), b))


@step
def bfloat16() -> Step:
    return Step(Decoder(blocks=2).bfloat16(), tokens(2, 24), lambda o, b: next_tokens(o.float(), b))


@step
def accumulated() -> Step:
    given = Decoder(blocks=2)
    batch = tokens(2, 24)
    next_tokens(given(batch), batch).backward()
    return Step(given, batch, next_tokens)


@step
def some_frozen() -> Step:
    given = Decoder(blocks=3)
    for layer in (given.embed, *given.layers[:2]):
        layer.requires_grad_(False)
    return Step(given, tokens(2, 24), next_tokens)


@step
def encoder() -> Step:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, 10)

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return self.head(self.layers(x, mask).mean(1))

    return Step(Encoder(), {"x": torch.randn(4, 20, 32), "mask": None}, squares)


@step
def recurrent_cells() -> Step:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(8, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = x.new_zeros(x.shape[0], 16)
            for token in x.unbind(1):
                state = self.cell(token, state)
            return state

    return Step(Cells(), torch.randn(4, 10, 8), squares)


@step
def own_function() -> Step:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    class Cubes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Cube.apply(self.layer(x).sigmoid())

    return Step(Cubes(), torch.randn(16, 8), squares)


@step
def several_inputs() -> Step:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Bilinear(8, 6, 4)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.layer(x, y).pow(2).mean()

    return Step(Pairs(), (torch.randn(16, 8), torch.randn(16, 6)))


@step
def half_saved_elsewhere() -> Step:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hooks = torch.autograd.graph.saved_tensors_hooks(
                lambda t: t.bfloat16(), lambda t: t.float()
            )
            with hooks:
                return self.layer(self.layer(x).tanh()).tanh()

    return Step(Packed(), torch.randn(16, 16), squares)


@step
def long_short_term_memory() -> Step:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(8, 16, 2, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layers(x)[0][:, -1])

    return Step(Recurrent(), torch.randn(4, 10, 8), squares)
