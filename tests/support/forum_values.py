"""Broken scripts about values: what has no slope, is not finite, or is the wrong one."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "a list of losses through torch.tensor",
    "cut",
    "torch.tensor()|model.weight",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        losses = [F.mse_loss(model(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
        return torch.tensor(losses, requires_grad=True).mean()  # HERE
""",
)
broken(
    "np.mean of losses",
    "no-grad",
    "NumPy array|which ends the graph",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        parts = [F.mse_loss(model(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
        losses = [part.detach().numpy() for part in parts]  # HERE
        return torch.tensor(np.mean(losses), requires_grad=True)
""",
    also=("leaf",),
)
broken(
    "accuracy as a loss",
    "cut",
    "integers",
    """
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        right = (model(x).argmax(1) == labels).float()  # HERE
        loss = 1 - right.mean()
        return loss.requires_grad_()
""",
    also=("leaf",),
)
broken(
    "a soft threshold at the end",
    "cut",
    "integers|model.weight",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        p = torch.sigmoid(model(x))
        hard = torch.where(p > 0.5, torch.ones_like(p), torch.zeros_like(p))  # HERE
        return F.mse_loss(hard.requires_grad_(), y)
""",
)
broken(
    "a loss on the input",
    "no-grad",
    "model.weight|saw no path",
    """
    model = nn.Linear(4, 4)
    bias = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([*model.parameters(), bias], 0.1)
    def step():
        out = model(x)
        return F.mse_loss(x + bias, torch.zeros(16, 4))
""",
)
broken(
    "the target compared with itself",
    "zero",
    "MseLossBackward0",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        out = model(x)
        return F.mse_loss(out, out)  # HERE
""",
)
broken(
    "softmax of a single logit",
    "zero",
    "a dimension of one number",
    """
    model = nn.Linear(4, 1)
    def step():
        p = torch.softmax(model(x), dim=1)  # HERE
        return F.binary_cross_entropy(p, (y > 0).float())
""",
)
broken(
    "BCE with class numbers",
    "target",
    "from 0 to 2",
    """
    model = nn.Linear(4, 1)
    def step():
        return F.binary_cross_entropy_with_logits(model(x), labels[:, None].float())  # HERE
""",
)
broken(
    "clamped probabilities",
    "zero",
    "outside of its range from 1e-06",
    """
    model = nn.Linear(4, 1)
    nn.init.constant_(model.bias, 50.0)
    def step():
        p = torch.sigmoid(model(x)).clamp(1e-6, 1 - 1e-6)  # HERE
        return -torch.log(p).mean()
""",
)
broken(
    "a dead relu by its bias",
    "dead",
    "All of the 8 units",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(model[0].bias, -100.0)
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "acos at one",
    "nan",
    "AcosBackward0|is born",
    """
    model = nn.Linear(4, 3)
    def step():
        z = F.normalize(model(x), dim=1)
        return torch.acos((z * z).sum(1).clamp(-1, 1)).mean()  # HERE
""",
)
broken(
    "atan2 at the origin",
    "zero",
    "Atan2Backward0",
    """
    model = nn.Linear(4, 2)
    nn.init.zeros_(model.weight); nn.init.zeros_(model.bias)
    def step():
        z = model(x)
        return torch.atan2(z[:, 0], z[:, 1]).sum()  # HERE
""",
)
broken(
    "a power of a negative number",
    "nan",
    "PowBackward0|has NaN in it",
    """
    model = nn.Linear(4, 1)
    def step():
        return model(x).pow(0.5).mean()  # HERE
""",
)
broken(
    "zero times infinity in a mask",
    "nan",
    "MulBackward0|has Inf in it",
    """
    model = nn.Linear(4, 3)
    mask = torch.zeros(16, 3)
    mask[:, 0] = float("-inf")
    def step():
        z = model(x) + mask
        p = z.softmax(1)
        return -(p * z).sum(1).mean()  # HERE
""",
)
broken(
    "entropy by hand",
    "nan",
    "LogBackward0|which took zeros",
    """
    model = nn.Linear(4, 3)
    def step():
        p = (model(x) * 1000).softmax(1)
        return -(p * p.log()).sum(1).mean()  # HERE
""",
)
broken(
    "one hot of a rounded output",
    "cut",
    "was cast to integers|model.weight",
    """
    model, head = nn.Linear(4, 1), nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    def step():
        k = model(x).squeeze(1).round().clamp(0, 4).long()  # HERE
        return F.mse_loss(head(F.one_hot(k, 5).float()), y)
""",
)
broken(
    "a mask by comparison that is learned",
    "cut",
    "integers|cut",
    """
    model = nn.Linear(4, 1)
    cut = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([*model.parameters(), cut], 0.1)
    def step():
        return F.mse_loss(model(x * (x > cut)), y)  # HERE
""",
)
broken(
    "indices that are learned",
    "cut",
    "place was cast to integers",
    """
    table = nn.Embedding(8, 4)
    place = nn.Parameter(torch.rand(16) * 7)
    head = nn.Linear(4, 1)
    optimizer = torch.optim.SGD([place, *table.parameters(), *head.parameters()], 0.1)
    def step():
        return F.mse_loss(head(table(place.long())), y)  # HERE
""",
)
broken(
    "a threshold read as a number",
    "cut",
    "Python numbers|limit",
    """
    model = nn.Linear(4, 1)
    limit = nn.Parameter(torch.tensor(0.5))
    optimizer = torch.optim.SGD([*model.parameters(), limit], 0.1)
    def step():
        return F.mse_loss(model(x).clamp(max=float(limit)), y)  # HERE
""",
)
broken(
    "batch norm of one example in eval",
    "eval",
    "1 batch norm ran in eval mode",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "mse of a vector and a column",
    "broadcast",
    "(16, 16)",
    """
    model = nn.Linear(4, 1)
    def step():
        return ((model(x).squeeze() - y) ** 2).mean()  # HERE
""",
)
