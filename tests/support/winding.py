"""Small nets whose code goes to modules in ways that are hard to follow without running it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Sharing(nn.Module):
    """A layer that takes its position from a module that others have, too."""

    def __init__(self, position: nn.Module) -> None:
        super().__init__()
        self.position, self.norm, self.up = position, nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.up(self.norm(self.position(x))))


class Position(nn.Module):
    """Operations around a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.mix(x * 2))


class Sharers(nn.Module):
    """Layers that share a module, which stands at the top as well and does not run there."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.position = Position()
        self.layers = nn.ModuleList(Sharing(self.position) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Twins(nn.Module):
    """One module under several names, called by each in turn."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.count, shared = layers, nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        for i in range(layers):
            setattr(self, f"norm{i}", nn.LayerNorm(4))
            setattr(self, f"mlp{i}", shared)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.norm0(x), self.norm1(x)
        return self.mlp0(a) + self.mlp1(b)


class Asked(nn.Module):
    """Uses what is in a module itself, and asks for an attribute by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.bias = nn.Linear(4, 4, bias=False), nn.Parameter(torch.ones(4))
        self.after = nn.Linear(4, 4)
        self.doubled = True

    def forward(self, x: Tensor) -> Tensor:
        half = getattr(self, "doubled", False)
        x = F.linear(x, weight=self.project.weight, bias=self.bias)
        x = self.after(torch.sigmoid(x))
        return x * 2 if half else torch.cat([x], dim=-1)


class Splitting(nn.Module):
    """A method of its own returns early, and forward goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.several, self.inner, self.out = True, nn.Linear(4, 12), nn.Linear(4, 4)

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        if not self.several:
            return (x,)
        if x.dim() == 2:
            x = x.view(-1, 3, 4)
            return x[:, 0], x[:, 1], x[:, [2]].squeeze(1)
        return tuple(x.unbind())

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.split(self.inner(x))
        return self.out(torch.exp(a.t().contiguous().t()) * b + c)


class Scales(nn.Module):
    """Goes round a loop through two lists at once, and in it through one module all the time."""

    def __init__(self, *, alone: bool = False) -> None:
        super().__init__()
        self.alone, self.act = alone, nn.Tanh()
        self.mixes = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(4))
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.split(self.act(x), 1)
        done: list[Tensor] = []
        y = parts[0]
        for i, (mix, norm) in enumerate(zip(self.mixes, self.norms, strict=True)):
            y = parts[i % len(parts)] if i == 0 or self.alone else y + parts[i % len(parts)]
            y = self.act(norm(mix(y)))
            done.append(y)
        return x + self.out(torch.cat(done, dim=1))


class Gated(nn.Module):
    """The same in a comprehension, over names and modules."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleDict({name: nn.Linear(4, 4) for name in "ab"})
        self.values = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.act, self.out = nn.Sigmoid(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        pairs = zip(self.gates.values(), self.values, strict=True)
        return self.out(sum(self.act(gate(x)) * value(x) for gate, value in pairs))


class Tokens(nn.Module):
    """Reads its input's sizes, and is sure of them, before it begins."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        h, w = size
        torch._assert(x.shape[0] == 1 + h * w, "sizes")
        first, others = x[:1], x[1:]
        return x + torch.cat([first, self.mix(others) + others])


class Stages(nn.Module):
    """Goes through two lists of modules one after the other; in between it does what they do."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.ModuleList(Tokens() for _ in range(3))
        self.late = nn.ModuleList(Tokens() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.early:
            x = stage(x, size=(1, 2))
        x = torch.cat([x[:1], x[1:].exp()])
        for stage in self.late:
            x = stage(x, size=(2, 1))
        return torch.cat([x[:1], x[1:].sin()])


class Grid(nn.Module):
    """Loops within a loop, whose first turn is another than the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ModuleList(
            nn.ModuleList(nn.Linear(4, 4) if i != j else nn.Identity() for j in range(3))
            for i in range(3)
        )
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        parts = [x, x.sin(), x.cos()]
        done: list[Tensor] = []
        for row in self.rows:
            y = None
            for i, cell in enumerate(row):
                y = cell(parts[i]) if y is None else y + cell(parts[i])
            done.append(self.act(y))
        return torch.cat(done, dim=1)[:, ::3]


class Table(nn.Module):
    """Has a parameter that others look up by a method."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(5, 4))

    def looked_up(self, rows: Tensor) -> Tensor:
        return self.table[rows]


class Asking(nn.Module):
    """Calls a method of a module, not the module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.rows, self.out = nn.Linear(4, 8), Table(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.inner(x).view(-1, 2, 4).unbind(1)
        return self.out(torch.sigmoid(a) * b + self.rows.looked_up(torch.arange(len(x))))


class Half(nn.Module):
    """Multiplies, as a dropout does."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.5


class Scaled(nn.Module):
    """A parameter of its own times a layer, and what multiplies after it, or never does."""

    def __init__(self, *, drop: float = 0.0) -> None:
        super().__init__()
        self.gamma, self.layer = nn.Parameter(torch.ones(4)), nn.Linear(4, 4)
        self.drop, self.halve = nn.Dropout(drop), Half()

    def forward(self, x: Tensor) -> Tensor:
        y = self.gamma * self.drop(self.layer(x))
        return x + self.halve(y)


class Against(nn.Module):
    """Makes rows of what it multiplies with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.w = nn.Linear(4, 4), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        key = F.normalize(self.inner(x.unsqueeze(1)), dim=-1)
        return F.normalize(key @ self.w, dim=1).squeeze(1)


class Collected(nn.Module):
    """Goes through its modules by name, and keeps some of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(
            {name: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Half()) for name in "abcd"}
        )
        self.kept = {"b": 0, "d": 1}

    def forward(self, x: Tensor) -> Tensor:
        found = {}
        for name, layer in self.layers.items():
            x = layer(x)
            if name in self.kept:
                found[self.kept[name]] = x
        return found[0] + found[1]


class Bias(nn.Module):
    """What is added to scores; a module in it runs in its method, too."""

    def __init__(self, *, told: bool = True) -> None:
        super().__init__()
        self.told, self.scale, self.mix = told, nn.Parameter(torch.ones(4)), nn.Linear(4, 4)

    def made(self, x: Tensor) -> Tensor:
        if not self.told:
            return x.sigmoid()
        for _ in range(2):
            x = torch.sin(self.mix(x)).unsqueeze(0).squeeze(0)
        if x.dim() == 2:
            return x * self.scale
        return x.cos()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.made(x)


class Handing(nn.Module):
    """Calls a method of a module in a method of its own, and a forward past the module's call."""

    def __init__(self, layer: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.layer, self.last = layer, last

    def handed(self, x: Tensor) -> Tensor:
        return torch.exp(-self.layer.made(x).abs())

    def forward(self, x: Tensor) -> Tensor:
        return self.last.forward(x) + 1.0


class Borrowing(nn.Module):
    """Calls methods of modules, of those in a list, and of modules of these."""

    def __init__(self, *, told: bool = True) -> None:
        super().__init__()
        self.bias = Bias(told=told)
        self.handing = Handing(Bias(told=told), Bias(told=told))
        self.several = nn.ModuleList(Bias(told=told) for _ in range(3))
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.softmax(self.inner(x) + self.bias.made(x), dim=-1)
        x = self.out(self.handing.handed(x).sqrt())
        for each in self.several:
            x = each.made(x).tanh() + x
        return self.handing(x).relu()


class Chosen(nn.Module):
    """Chooses one of its methods as its forward when it is made."""

    def __init__(self, *, split: bool) -> None:
        super().__init__()
        self.layer, self.rest = nn.Linear(2, 2), nn.Linear(4, 4)
        self.forward = self.forward_split if split else self.forward_whole

    def forward_split(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            a, b = torch.split(x, [2, 2], dim=1)
            return torch.cat([self.layer(a), b], dim=1)
        return x.sin()

    def forward_whole(self, x: Tensor) -> Tensor:
        return x / torch.linalg.vector_norm(self.rest(x), dim=1, keepdim=True)


class Choosing(nn.Module):
    """Has modules whose forward is not the one of their class."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Sequential(Chosen(split=True), Chosen(split=False), Chosen(split=True))

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh() + self.both(x)
