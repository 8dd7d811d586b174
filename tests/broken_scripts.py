"""Training scripts that are broken as those in forums are, each with what must be found in it.

Every script has a function ``step`` that makes a loss, and the variables that scripts have. A line
that must be named ends in ``# HERE``; without one no line is to be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from checkpointed import SAVED_IS_TOLD


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
    "data instead of the tensor",
    "cut",
    ".data|enc.weight",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Linear(4, 4), nn.Linear(4, 1)
        def forward(self, x):
            h = self.enc(x)
            return self.dec(h.data)  # HERE
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
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
    "there and back by numpy",
    "no grad",
    "0.weight|NumPy array|not known",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    def step():
        h = np.tanh(model[0](x).detach().numpy())  # HERE
        return F.mse_loss(model[1](torch.from_numpy(h)), y)
""",
)
broken(
    "no_grad left around the encoder",
    "cut",
    "no_grad|encoder.0.weight",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
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
    "no_grad around an encoder of 80 parameters",
    "cut",
    "no_grad|80 parameters of 82",
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
    "argmax in the middle",
    "cut",
    "argmax|pick.weight",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pick, self.embed = nn.Linear(4, 8), nn.Embedding(8, 4)
            self.head = nn.Linear(4, 1)
        def forward(self, x):
            token = self.pick(x).argmax(1)  # HERE
            return self.head(self.embed(token))
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "argmax and then requires_grad_",
    "leaf",
    "loss is a leaf|integer",
    """
    model = nn.Linear(4, 3)
    def step():
        right = (model(x).argmax(1) == labels).float().mean()  # HERE
        loss = 1 - right
        return loss.requires_grad_()
""",
)
broken(
    "the prediction is detached",
    "cut",
    "detach()|weight",
    """
    model = nn.Linear(4, 1)
    scale = nn.Linear(1, 1)
    def step():
        prediction = model(x).detach()  # HERE
        return F.mse_loss(scale(prediction), y)
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
    "tanh of unscaled inputs",
    "zero",
    "saturated|0.weight",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    pixels = torch.randint(100, 256, (16, 4)).float()
    def step():
        h = torch.tanh(model[0](pixels))  # HERE
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
    "passes cell",
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
    "loss is NaN already|which took zeros",
    """
    model = nn.Linear(4, 3)
    def step():
        p = F.softmax(model(x) * 1000, 1)
        return -(p * p.log()).sum()  # HERE
""",
)
broken(
    "the root of zero",
    "nan",
    "is born|zero",
    """
    model = nn.Linear(4, 1)
    def step():
        d = model(x) - model(x)
        return d.pow(2).sqrt().sum()  # HERE
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
    "loss is NaN already|took numbers below 0",
    """
    model = nn.Linear(4, 3)
    def step():
        return torch.log(model(x)).mean()  # HERE
""",
)
broken(
    "a number that is missing in the data",
    "nan",
    "loss is NaN already|its mat1 has NaN in it, which needs no grad: look at the data",
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
    "loss is NaN already|its result has NaN in it",
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
    "loss is NaN already|which divided by zero",
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
    "loss is Inf already|a power of 2 is too large for torch.float16",
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
    "has lost its saved tensors to an earlier backward pass|detach()",
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
    "has lost its saved tensors to an earlier backward pass|add the losses up",
    """
    body, one, two = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 1), nn.Linear(8, 1)
    def step():
        h = body(x)
        F.mse_loss(one(h), y).backward()
        return F.mse_loss(two(h), y)
""",
)

# Parameters that are lost.

broken(
    "learned numbers that are no leaf",
    "not a leaf",
    "w is not a leaf|w.grad stays None",
    """
    w = torch.randn(4, 1, requires_grad=True) * 0.1
    def step():
        return F.mse_loss(x @ w, y)
""",
)
broken(
    "an update that makes another tensor",
    "not a leaf",
    "w is not a leaf|w.grad stays None",
    """
    w = torch.randn(4, 1, requires_grad=True)
    def step():
        global w
        F.mse_loss(x @ w, y).backward()
        w = w - 0.1 * w.grad  # HERE
        return F.mse_loss(x @ w, y)
""",
)
broken(
    "a plain tensor in a module",
    "unregistered",
    "model.scale is a tensor that requires grad, and no Parameter",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.scale = torch.ones(1, requires_grad=True)
        def forward(self, x):
            return self.linear(x) * self.scale
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "requires_grad_() after no_grad",
    "cut",
    "model.bias and model.weight|no_grad",
    """
    model = nn.Linear(4, 1)
    def step():
        with torch.no_grad():  # HERE
            out = model(x)
        out.requires_grad_()
        return F.mse_loss(out, y)
""",
)
broken(
    "a list of losses as numbers",
    "cut",
    "model.bias and model.weight|item()",
    """
    model = nn.Linear(4, 1)
    def step():
        losses = [F.mse_loss(model(each), at).item() for each, at in zip(x, y)]  # HERE
        return torch.tensor(losses, requires_grad=True).mean()
""",
)

broken(
    "frozen by a typo",
    "frozen",
    "layer10.weight|layer1.weight",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(1, 12):
                setattr(self, f"layer{i}", nn.Linear(4, 4))
            self.head = nn.Linear(4, 1)
        def forward(self, x):
            for i in range(1, 12):
                x = getattr(self, f"layer{i}")(x).tanh()
            return self.head(x)
    model = Net()
    for name, parameter in model.named_parameters():
        if name.startswith("layer1"):
            parameter.requires_grad = False
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a Parameter made in forward",
    "unregistered",
    "1 Parameter",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 1)
        def forward(self, x):
            scale = nn.Parameter(torch.ones(4))
            return self.head(x * scale)  # HERE
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "layers in a Python list",
    "unregistered",
    "6 Parameters|ModuleList",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(4, 4) for _ in range(3)]
            self.head = nn.Linear(4, 1)
        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))  # HERE
            return self.head(x)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "the optimizer holds the old head",
    "optimizer",
    "1.weight",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model[1] = nn.Linear(4, 1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a branch that is not used",
    "no grad",
    "aux.weight and model.aux.bias|not computed",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.aux = nn.Linear(4, 1), nn.Linear(4, 1)
        def forward(self, x):
            return self.body(x)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "tied weights that are not",
    "tied",
    "embed.weight|head.weight",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(3, 4), nn.Linear(4, 3, bias=False)
            self.head.weight = nn.Parameter(self.embed.weight.clone())
        def forward(self, t):
            return self.head(self.embed(t))
    model = Net()
    def step():
        return F.cross_entropy(model(labels), labels)
""",
)

# Steps that go wrong.

broken(
    "no zero_grad",
    "accumulated",
    "zero_grad()",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "clipped to next to nothing",
    "clipped",
    "clip_grad_norm_",
    """
    model = nn.Linear(4, 1)
    def step():
        return F.mse_loss(model(x), y)
""",
    after="nn.utils.clip_grad_norm_(model.parameters(), 1e-7)",
)
broken(
    "a saved tensor changed in place",
    "changed",
    "ExpBackward0|" + ("add_" if SAVED_IS_TOLD else "by which line is not known"),
    f"""
    model = nn.Linear(4, 1)
    def step():
        h = model(x).exp()
        h.add_(1){"  # HERE" * SAVED_IS_TOLD}
        return h.mean()
""",
)
broken(
    "total_loss += loss",
    "passes",
    "30 terms|item()",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    def step():
        total_loss = 0
        for _ in range(30):
            loss = F.mse_loss(model(torch.randn(16, 4)), y)
            total_loss += loss  # HERE
        return total_loss
""",
)
broken(
    "one of two losses dominates",
    "dominated",
    "dominates",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        def forward(self, x):
            h = self.body(x)
            return self.a(h), self.b(h)
    model = Net()
    def step():
        a, b = model(x)
        regression = F.mse_loss(a * 100, y * 1000)  # HERE
        return regression + 0.01 * F.mse_loss(b, y)
""",
)
broken(
    "(N, 1) minus (N,)",
    "broadcast",
    "(16, 16)|(16, 1)",
    """
    model = nn.Linear(4, 1)
    target = y.squeeze(1)
    def step():
        return ((model(x) - target) ** 2).mean()  # HERE
""",
)
broken(
    "softmax before cross_entropy",
    "softmax twice",
    "softmax|logits",
    """
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    def step():
        return F.cross_entropy(model(x), labels)  # HERE
""",
)
broken(
    "averaged twice",
    "averaged twice",
    "divides by 16",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.cross_entropy(model(x), labels) / len(x)  # HERE
""",
)
broken(
    "batch norm left in eval",
    "eval",
    "1 batch norm ran in eval mode",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    model.eval()
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "nll_loss of logits",
    "no log probabilities",
    "add up to|cross_entropy()",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.nll_loss(model(x), labels)  # HERE
""",
)
broken(
    "nll_loss of probabilities",
    "no log probabilities",
    "add up to|log_softmax",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.nll_loss(F.softmax(model(x), 1), labels)  # HERE
""",
)
broken(
    "a softmax over the examples",
    "no log probabilities",
    "along dimension 0|dim=1",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.nll_loss(F.log_softmax(model(x), 0), labels)  # HERE
""",
)
broken(
    "cross entropy of a single output",
    "zero",
    "a dimension of one number",
    """
    model = nn.Linear(4, 1)
    def step():
        return F.cross_entropy(model(x), torch.rand(16, 1))  # HERE
""",
)
broken(
    "a normalisation of single numbers",
    "zero",
    "in 1 (|normalises each number by itself",
    """
    model = nn.Sequential(nn.Linear(4, 1), nn.LayerNorm(1))
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "nothing but padding",
    "zero",
    "every index is 0, its padding_idx",
    """
    model = nn.Embedding(10, 4, padding_idx=0)
    tokens = torch.zeros(16, dtype=torch.long)
    def step():
        return (model(tokens) + x).square().sum()
""",
)
