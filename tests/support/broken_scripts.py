"""Training scripts that are broken as those in forums are, each with what must be found in it.

Here those whose gradients are cut, zero or NaN; `broken_steps` has those that lose parameters.

Every script has a function ``step`` that makes a loss, and the variables that scripts have. A line
that must be named ends in ``# HERE``; without one no line is to be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Broken:
    """A script and what must be found in it.

    Attributes:
        kinds: The kind of the finding, or of several.
        words: What its message must say.
        source: The script.
        after: What it does between backward and the question.
        watched: Whether the forward pass runs under ``watch()``.
        also: Kinds that alarm beside it, and are true.
    """

    kinds: tuple[str, ...]
    words: tuple[str, ...]
    source: str
    after: str = ""
    watched: bool = True
    also: tuple[str, ...] = ()


BROKEN: dict[str, Broken] = {}


def broken(name: str, kinds: str, words: str, source: str, **more: object) -> None:
    """Enter a script."""
    assert name not in BROKEN
    several = tuple(kind.strip() for kind in kinds.split(","))
    said = tuple(word.strip() for word in words.split("|") if word.strip())
    BROKEN[name] = Broken(several, said, IMPORTS + dedent(source), **more)  # type: ignore[arg-type]


IMPORTS = """\
import math
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 1)
labels = torch.randint(0, 3, (16,))
"""

# Gradients that are cut.

broken(
    "the loss is made anew from its number",
    "leaf",
    "loss is a leaf|item",
    """
    model = nn.Linear(4, 1)
    def step():
        loss = F.mse_loss(model(x), y)
        return torch.tensor(loss.item(), requires_grad=True)  # HERE
""",
)
broken(
    "a tensor of a list",
    "cut",
    "Python numbers|0.weight",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    def step():
        h = model[0](x)
        h = torch.tensor(h.tolist())  # HERE
        return F.mse_loss(model[1](h), y)
""",
)
broken(
    "a tensor of a tensor",
    "cut",
    "torch.tensor()|0.weight",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    def step():
        h = torch.tensor(model[0](x))  # HERE
        return F.mse_loss(model[1](h), y)
""",
)
broken(
    "no_grad around an encoder of 80 parameters",
    "cut",
    "no_grad|80 of 82 parameters",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(*(nn.Linear(4, 4) for _ in range(40)))
            self.head = nn.Linear(4, 1)
        def forward(self, x):
            with torch.no_grad():  # HERE
                h = self.encoder(x)
            return self.head(h)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "the state is detached at each step",
    "cut",
    "detach()|start",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.start, self.cell, self.head = nn.Linear(4, 4), nn.GRUCell(4, 4), nn.Linear(4, 1)
        def forward(self, x):
            h = self.start(x)
            for _ in range(50):
                h = self.cell(x, h.detach())  # HERE
            return self.head(h)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)

# Gradients that are zero, vanish, explode or are NaN.

broken(
    "round in the middle",
    "zero",
    "RoundBackward0|0.weight",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    def step():
        h = model[0](x).round()  # HERE
        return F.mse_loss(model[1](h), y)
""",
)
broken(
    "a gate and a head of zeros",
    "zero",
    "zero everywhere",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1, bias=False)
            self.gate = nn.Parameter(torch.zeros(4))
            nn.init.zeros_(self.head.weight)
        def forward(self, x):
            return self.head(self.gate * self.body(x))  # HERE
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a dead ReLU",
    "dead",
    "All of the 8 units",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(model[0].bias, -10)
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "12 sigmoids",
    "vanishing",
    "vanishes",
    """
    model = nn.Sequential(*(m for _ in range(12) for m in (nn.Linear(4, 4), nn.Sigmoid())),
                          nn.Linear(4, 1))
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "an exploding RNN",
    "exploding",
    "from model.cell to",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.cell, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
            with torch.no_grad():
                self.cell.weight.mul_(8)
        def forward(self, x):
            h = self.inp(x)  # HERE
            for _ in range(20):
                h = F.relu(self.cell(h))
            return self.out(h)
    model = Net()
    def step():
        return model(x).mean()
""",
)
broken(
    "the logarithm of zero",
    "nan",
    "loss is NaN: the forward pass made it|which took zeros",
    """
    model = nn.Linear(4, 3)
    def step():
        p = F.softmax(model(x) * 1000, 1)
        return -(p * p.log()).sum()  # HERE
""",
)
broken(
    "where does not keep a NaN away",
    "nan",
    "is born",
    """
    model = nn.Linear(4, 1)
    def step():
        z = model(x) * 0
        return torch.where(z > 0, z.log(), torch.zeros(())).sum()  # HERE
""",
)
broken(
    "the logarithm of numbers below zero",
    "nan",
    "loss is NaN: the forward pass made it|took numbers below 0",
    """
    model = nn.Linear(4, 3)
    def step():
        return torch.log(model(x)).mean()  # HERE
""",
)
broken(
    "a number that is missing in the data",
    "nan",
    "loss is NaN: the forward pass made it|whose mat1 has NaN in it, which needs no grad",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    data = x.clone()
    data[3, 2] = math.nan
    def step():
        return F.mse_loss(model(data), y)  # HERE
""",
)
broken(
    "a row that is masked whole",
    "nan",
    "loss is NaN: the forward pass made it|whose result has NaN in it",
    """
    model = nn.Linear(4, 3)
    mask = torch.zeros(16, 3, dtype=torch.bool)
    mask[5] = True
    def step():
        scores = model(x).masked_fill(mask, -math.inf)
        return F.softmax(scores, 1).pow(2).sum()  # HERE
""",
)
broken(
    "the mean of nothing",
    "nan",
    "loss is NaN: the forward pass made it|which divided by zero",
    """
    model = nn.Linear(4, 1)
    valid = torch.zeros(16, 1)
    def step():
        return ((model(x) - y).square() * valid).sum() / valid.sum()  # HERE
""",
)
broken(
    "too large for half precision",
    "nan",
    "loss is Inf: the forward pass made it|a power of 2 is too large for torch.float16",
    """
    model = nn.Linear(4, 3).half()
    data = (x * 1e4).half()
    def step():
        return (model(data) ** 2).mean()  # HERE
""",
)
broken(
    "a hidden state that is kept",
    "freed",
    "an earlier backward pass freed|detach()",
    """
    model = nn.LSTM(4, 5)
    h = None
    def step():
        global h
        out, h = model(x[:, None], h)
        out.sum().backward()
        out, h = model(x[:, None], h)  # HERE
        return out.sum()
""",
)
broken(
    "two losses that share a part, one after the other",
    "freed",
    "an earlier backward pass freed|add them and call backward() once",
    """
    body, one, two = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 1), nn.Linear(8, 1)
    def step():
        h = body(x)
        F.mse_loss(one(h), y).backward()
        return F.mse_loss(two(h), y)
""",
)
