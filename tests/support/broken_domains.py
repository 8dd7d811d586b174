"""Broken training scripts of other domains."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "argmax tokens fed back",
    "zero",
    "it multiplies by 0",
    """
    emb, net = nn.Embedding(8, 4), nn.Linear(4, 8)
    def step():
        t, loss = torch.tensor([1, 2]), 0
        h = emb(t)
        for _ in range(2):
            logits = net(h)
            h = emb(logits.argmax(-1))
        return net(h).argmax(-1).float().mean() + 0 * net(h).sum()
""",
    also=("constant-term",),
)

broken(
    "the encoder's output through numpy",
    "cut",
    "enc.weight|numpy()|detach()",
    """
    enc, head = nn.Linear(4, 8), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*enc.parameters(), *head.parameters()])
    def step():
        z = torch.from_numpy(enc(x).detach().numpy())  # HERE
        return F.mse_loss(head(z), y)
""",
)

broken(
    "a learned scale read by item()",
    "cut",
    "scale|Python numbers",
    """
    model, scale = nn.Linear(4, 1), nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)
    def step():
        return F.mse_loss(model(x) * scale.item(), y)  # HERE
""",
)

broken(
    "learned mask through a comparison",
    "cut",
    "gate.weight|integers or booleans",
    """
    gate, model = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *gate.parameters()], 0.1)
    def step():
        return F.mse_loss(model(x * (gate(x) > 0)), y)  # HERE
""",
)

broken(
    "a recurrent state of zeros",
    "dead",
    "All of the 8 units|cell",
    """
    cell, head = nn.RNN(4, 8, nonlinearity="relu", batch_first=True), nn.Linear(8, 1)
    with torch.no_grad():
        cell.bias_ih_l0.fill_(-50.0)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
    def step():
        return F.mse_loss(head(cell(x[:, None])[0][:, -1]), y)
""",
    also=("zero",),
)

broken(
    "log of a softmax that underflows",
    "nan",
    "loss is Inf|LogBackward0|took zeros",
    """
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        p = torch.softmax(model(x) * 500, 1)
        return -torch.log(p[torch.arange(16), labels]).mean()  # HERE
""",
)

broken(
    "sqrt of a variance of equal rows",
    "nan",
    "Inf is born here|SqrtBackward0",
    """
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        z = model(torch.ones(16, 4))
        return z.var(0).sqrt().sum()  # HERE
""",
)

broken(
    "a saturated tanh",
    "zero",
    "model.3|saturated",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        for p in model[:3].parameters(): p.mul_(1e4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)

broken(
    "the optimizer has the old head",
    "optimizer",
    "model.2.weight|replaced layer",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model[2] = nn.Linear(8, 1)
    def step():
        return F.mse_loss(model(x), y)
""",
)

broken(
    "a dictionary of layers",
    "unregistered",
    "does not register 4 Parameters",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = {"a": nn.Linear(4, 8), "b": nn.Linear(8, 1)}
            self.last = nn.Linear(1, 1)
        def forward(self, x):
            return self.last(self.parts["b"](self.parts["a"](x).relu()))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)

broken(
    "a loss on clones of the parameters",
    "no-grad",
    "model.weight|weights[0]|the same numbers",
    """
    model = nn.Linear(4, 1)
    weights = [p.clone().detach().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(F.linear(x, *weights), y)
""",
)

broken(
    "a hardtanh out of its range",
    "zero",
    "model.1|outside of its range",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.Hardtanh(-1e-3, 1e-3), nn.Linear(8, 1))
    with torch.no_grad(): model[0].bias.fill_(10.)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)

broken(
    "sigmoid, then log one minus",
    "nan",
    "loss is Inf|took zeros",
    """
    model = nn.Linear(4, 1)
    with torch.no_grad(): model.bias.fill_(200.)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return -torch.log(1 - torch.sigmoid(model(x))).mean()  # HERE
""",
)

broken(
    "the attention mask hides all",
    "nan",
    "SoftmaxBackward0|NaN",
    """
    q, v = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*q.parameters(), *v.parameters()], 0.1)
    def step():
        scores = (q(x) @ x.T).masked_fill(torch.ones(16, 16, dtype=torch.bool), float("-inf"))
        return F.mse_loss(torch.softmax(scores, 1) @ v(x), y)  # HERE
""",
    also=("zero",),
)

broken(
    "the loss of a critic from a detached advantage",
    "cut",
    "value.weight|detach()",
    """
    policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], 0.1)
    def step():
        d = torch.distributions.Categorical(logits=policy(x))
        a = d.sample()
        advantage = (y[:, 0] - value(x)[:, 0]).detach()  # HERE
        return (-(d.log_prob(a) * advantage) + advantage.pow(2)).mean()
""",
)

broken(
    "a loss that underflows in half precision",
    "zero",
    "PowBackward0|zero at 0",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).half()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return (model(x.half()) * 1e-7).pow(2).mean()  # HERE
""",
)
