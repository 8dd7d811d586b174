"""Broken training scripts whose loss is given what it is not for, or ends; see `broken_scripts`."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "dqn target not detached",
    "target",
    "also sends a gradient into its target|detach()",
    """
    q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(q.parameters())
    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    a = torch.randint(0, 2, (16, 1))
    def step():
        now = q(s).gather(1, a).squeeze(1)
        target = r + 0.9 * q(s2).max(1).values
        return F.smooth_l1_loss(now, target)  # HERE
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
    "log of a sigmoid by hand",
    "nan",
    "which took zeros",
    """
    model = nn.Linear(4, 1)
    big = x * 1000
    t = (y > 0).float()
    def step():
        p = torch.sigmoid(model(big))
        return -(t * p.log() + (1 - t) * (1 - p).log()).mean()  # HERE
""",
)
broken(
    "float16 underflow of the loss",
    "zero",
    "rounds to zero|scale the loss",
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
    "a margin ranking of itself",
    "zero",
    "add up to zero",
    """
    model = nn.Linear(4, 2)
    def step():
        z = model(x)  # HERE
        return F.triplet_margin_loss(z, z, z)
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
