"""Training scripts that learn a copy of what they mean to learn; see `broken_scripts`."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "MAML by deepcopy",
    "no-grad",
    "holds nearly the same numbers|likely",
    """
    import copy
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    def step():
        inner = copy.deepcopy(model)
        grads = torch.autograd.grad(F.mse_loss(inner(x), y), inner.parameters())
        with torch.no_grad():
            for p, g in zip(inner.parameters(), grads):
                p -= 0.1 * g
        return F.mse_loss(inner(x), y)
""",
    also=("optimizer",),
)
broken(
    "MAML by data",
    "no-grad",
    "inner.0.weight|holds nearly the same numbers",
    """
    import copy
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    inner = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    def step():
        for p, q in zip(inner.parameters(), model.parameters()):
            p.data = q.data
        grads = torch.autograd.grad(F.mse_loss(inner(x), y), inner.parameters())
        for p, g in zip(inner.parameters(), grads):
            p.data = p.data - 0.1 * g
        return F.mse_loss(inner(x), y)
""",
    also=("optimizer",),
)
broken(
    "MAML that writes its steps into the parameters",
    "no-grad",
    "the reason is unknown|AccumulateGrad",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    def step():
        fast = [p.clone() for p in model.parameters()]
        for _ in range(2):
            loss = F.mse_loss(x @ fast[0].T + fast[1], y)
            grads = torch.autograd.grad(loss, fast)
            fast = [nn.Parameter(p - 0.1 * g) for p, g in zip(fast, grads)]
        return F.mse_loss(x @ fast[0].T + fast[1], y)
""",
    also=("optimizer",),
)
broken(
    "MAML by state_dict",
    "no-grad",
    "learner.weight|holds the same numbers",
    """
    model, learner = nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    def step():
        learner.load_state_dict(model.state_dict())
        return F.mse_loss(learner(x), y)
""",
    also=("optimizer",),
)
broken(
    "parameters detached before",
    "no-grad",
    "shares the memory of model.weight|inferred",
    """
    model = nn.Linear(4, 1)
    scale = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)
    params = [p.detach() for p in model.parameters()]
    def step():
        return F.mse_loss(F.linear(x, *params) * scale, y)
""",
)
broken(
    "functional_call of detached parameters",
    "no-grad",
    "shares the memory of model.0.weight|inferred",
    """
    model, head = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    params = {k: v.detach() for k, v in model.named_parameters()}
    def step():
        h = torch.func.functional_call(model, params, (x,))
        return F.mse_loss(head(h), y)
""",
)
broken(
    "functional_call of a state_dict",
    "cut",
    "detach()|model.0.weight",
    """
    model, head = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    def step():
        h = torch.func.functional_call(model, model.state_dict(), (x,))
        return F.mse_loss(head(h), y)
""",
)
broken(
    "an ensemble stacked by torch.func",
    "no-grad",
    "the reason is unknown|nets[2].bias",
    """
    nets = [nn.Linear(4, 1) for _ in range(3)]
    optimizer = torch.optim.SGD([p for n in nets for p in n.parameters()], 0.1)
    params, buffers = torch.func.stack_module_state(nets)
    def one(p, b, v): return torch.func.functional_call(nets[0], (p, b), (v,))
    def step():
        return F.mse_loss(torch.vmap(one, (0, 0, None))(params, buffers, x), y.expand(3, 16, 1))
""",
)
broken(
    "an ensemble in a Python list",
    "unregistered",
    "6 Parameters|Ensemble|ModuleList",
    """
    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = [nn.Linear(4, 1) for _ in range(3)]
            self.weights = nn.Parameter(torch.ones(3))
        def forward(self, x):
            return sum(w * net(x) for w, net in zip(self.weights, self.nets))
    model = Ensemble()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "heads in a dict, of which the optimizer holds one",
    "optimizer",
    "heads['b'].weight",
    """
    trunk = nn.Linear(4, 4)
    heads = {"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)}
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads["a"].parameters()], 0.1)
    def step():
        h = torch.tanh(trunk(x))
        return F.mse_loss(heads["a"](h), y) + F.mse_loss(heads["b"](h), -y)
""",
)
broken(
    "replicas by deepcopy",
    "no-grad",
    "replicas[0].0.weight|holds the same numbers",
    """
    import copy
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    replicas = [copy.deepcopy(model) for _ in range(2)]
    def step():
        halves = [net(part) for net, part in zip(replicas, x.chunk(2))]
        return F.mse_loss(torch.cat(halves), y)
""",
    also=("optimizer",),
)
broken(
    "the optimizer before the model is cast",
    "optimizer",
    "model.fc.weight|2 tensors that it holds",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.fc.weight = nn.Parameter(model.fc.weight.double())
    model.fc.bias = nn.Parameter(model.fc.bias.double())
    def step():
        return F.mse_loss(model.fc(x.double()), y.double())
""",
)
broken(
    "the weights of the average are trained",
    "no-grad",
    "model.weight|saw no path",
    """
    import copy
    model = nn.Linear(4, 1)
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scale = nn.Parameter(torch.ones(1))
    def step():
        return F.mse_loss(ema(x) * scale, y)
""",
    also=("optimizer",),
)
broken(
    "LoRA made and frozen again",
    "frozen",
    "model.0.a|An optimizer holds",
    """
    class LoRA(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.a = nn.Parameter(torch.randn(2, 4) * 0.1)
            self.b = nn.Parameter(torch.zeros(4, 2))
        def forward(self, x): return self.base(x) + x @ self.a.T @ self.b.T
    model = nn.Sequential(LoRA(nn.Linear(4, 4)), nn.Linear(4, 1))
    optimizer = torch.optim.SGD([model[0].a, model[0].b], 0.1)
    for p in model[0].parameters():
        p.requires_grad_(False)
    def step():
        return F.mse_loss(model(x), y)
""",
    also=("optimizer",),
)
broken(
    "LoRA whose both factors are zero",
    "zero",
    "model.0.a and model.0.b|is zero everywhere",
    """
    class LoRA(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.zeros(2, 4))
            self.b = nn.Parameter(torch.zeros(4, 2))
        def forward(self, x): return self.base(x) + x @ self.a.T @ self.b.T  # HERE
    model = nn.Sequential(LoRA(nn.Linear(4, 4)), nn.Linear(4, 1))
    optimizer = torch.optim.SGD([model[0].a, model[0].b], 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
    also=("optimizer",),
)
broken(
    "a merged adapter",
    "no-grad",
    "a and b|saw no path",
    """
    base = nn.Linear(4, 1).requires_grad_(False)
    a, b = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(1, 2))
    scale = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([a, b, scale], 0.1)
    base.weight.data += (b @ a).data
    def step():
        return F.mse_loss(base(x) * scale, y)
""",
)
broken(
    "weights tied by their data",
    "tied",
    "share their memory|two parameters",
    """
    embed, head = nn.Embedding(3, 4), nn.Linear(4, 3, bias=False)
    head.weight.data = embed.weight.data
    def step():
        return F.cross_entropy(head(embed(labels)), labels)
""",
)
broken(
    "a parameter that was replaced after the optimizer was made",
    "optimizer",
    "original0|1 tensor that it holds",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    nn.utils.parametrizations.weight_norm(model)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "load_state_dict with assign",
    "optimizer",
    "model.weight|2 tensors that it holds",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a learned vector kept as a buffer",
    "unregistered",
    "model.prompt is a buffer that requires grad",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)
            self.register_buffer("prompt", torch.randn(4, requires_grad=True))
        def forward(self, x): return self.fc(x + self.prompt)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
