"""Broken scripts that lose parameters, take wrong steps or give a loss what it is not for."""

from __future__ import annotations

from broken_scripts import broken

# Parameters that are lost.

broken(
    "an update that makes another tensor",
    "not-a-leaf",
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
    "model.scale is a tensor that requires grad, but not a Parameter",
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
    "a branch that is not used",
    "no-grad",
    "aux.weight and model.aux.bias|saw no path",
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
    "a saved tensor changed in place",
    "changed",
    "ExpBackward0|add_",
    """
    model = nn.Linear(4, 1)
    def step():
        h = model(x).exp()
        h.add_(1)  # HERE
        return h.mean()
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
    "softmax-twice",
    "softmax|logits",
    """
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    def step():
        return F.cross_entropy(model(x), labels)  # HERE
""",
)
broken(
    "sigmoid before binary_cross_entropy_with_logits",
    "sigmoid-twice",
    "sigmoid|logits",
    """
    model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    def step():
        return F.binary_cross_entropy_with_logits(model(x), (y > 0).float())  # HERE
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
    "no-log-probabilities",
    "add up to|cross_entropy()",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.nll_loss(model(x), labels)  # HERE
""",
)
broken(
    "a softmax over the examples",
    "mixed-rows",
    "softmax runs over the examples|dim=-1",
    """
    model = nn.Linear(4, 3)
    def step():
        return F.nll_loss(F.log_softmax(model(x), 0), labels)  # HERE
""",
)
broken(
    "a normalisation of single numbers",
    "zero",
    "model.1 at|normalises each number by itself",
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
broken(
    "a huge loss",
    "large",
    "times the norm of the parameters",
    """
    model = nn.Linear(4, 1)
    target = y * 1e8
    def step():
        return F.mse_loss(model(x), target)
""",
)
broken(
    "bce with targets of -1",
    "target",
    "from -1 to 1",
    """
    model = nn.Linear(4, 1)
    t = torch.where(y > 0, 1.0, -1.0)
    def step():
        return F.binary_cross_entropy_with_logits(model(x), t)  # HERE
""",
)
broken(
    "float16 underflow of the loss",
    "zero",
    "float16 rounds|to 0 (inferred)|bfloat16",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).half()
    data, target = x.half(), y.half()
    def step():
        return F.mse_loss(model(data), target) * 1e-7  # HERE
""",
)
broken(
    "clamped loss",
    "zero",
    "outside of its range to 1",
    """
    model = nn.Linear(4, 1)
    def step():
        return torch.clamp(F.mse_loss(model(x), y * 100), max=1.0)  # HERE
""",
)
broken(
    "mean of an empty mask",
    "nan",
    "averages over no number",
    """
    model = nn.Linear(4, 1)
    def step():
        out = model(x)
        return F.mse_loss(out[y > 100], y[y > 100])  # HERE
""",
    also=("zero",),
)
broken(
    "cross entropy with every label ignored",
    "nan",
    "each is -100, its ignore_index",
    """
    model = nn.Linear(4, 3)
    ignored = torch.full((16,), -100)
    def step():
        return F.cross_entropy(model(x), ignored, ignore_index=-100)  # HERE
""",
    also=("zero",),
)
