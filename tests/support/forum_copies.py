"""Broken scripts of agents and generators, and of copies that learn; see `broken_scripts`."""

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
broken(
    "an actor's loss that writes into the critic",
    "optimizer",
    "2 optimizers hold parameters of this graph|critic.weight",
    """
    actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
    pi = torch.optim.Adam(actor.parameters())
    qo = torch.optim.Adam(critic.parameters())
    optimizer = [pi, qo]
    def step():
        return -critic(torch.cat([x, actor(x)], 1)).mean()
""",
)
broken(
    "PPO whose old log probabilities are not detached",
    "zero",
    "add up to zero",
    """
    policy = nn.Linear(4, 2, bias=False)
    optimizer = torch.optim.Adam(policy.parameters())
    a, adv = torch.randint(0, 2, (16, 1)), torch.randn(16)
    def step():
        logp = policy(x).log_softmax(1).gather(1, a).squeeze(1)
        old = policy(x).log_softmax(1).gather(1, a).squeeze(1)
        ratio = (logp - old).exp()
        return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
""",
)
broken(
    "REINFORCE with the probabilities as numbers",
    "cut",
    "Python numbers|policy.weight",
    """
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    r = torch.randn(16)
    def step():
        logps = []
        for s in x:
            dist = torch.distributions.Categorical(logits=policy(s))
            a = dist.sample()
            logps.append(dist.log_prob(a).item())  # HERE
        return -(torch.tensor(logps, requires_grad=True) * r).mean()
""",
)
broken(
    "DQN that learns its target net",
    "cut",
    "operation on q.weight|grad mode was off",
    """
    import copy
    q = nn.Linear(4, 2)
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters())
    r, a = torch.randn(16), torch.randint(0, 2, (16, 1))
    def step():
        with torch.no_grad():
            now = q(x).gather(1, a).squeeze(1)  # HERE
        return F.smooth_l1_loss(now, r + 0.9 * target(x).max(1).values)
""",
    also=("optimizer",),
)
broken(
    "the discriminator's step without detach",
    "optimizer",
    "G.weight|still fills their .grad",
    """
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    optG, optD = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    optimizer = optD
    def step():
        fake = G(torch.randn(16, 2))
        return F.softplus(D(fake)).mean() + F.softplus(-D(x)).mean()
""",
)
broken(
    "the generator's fake made under no_grad",
    "cut",
    "G.weight|grad mode was off",
    """
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(G.parameters())
    def step():
        with torch.no_grad():
            fake = G(torch.randn(16, 2))  # HERE
        return F.softplus(-D(fake)).mean()
""",
    also=("optimizer",),
)
broken(
    "a saturated generator",
    "zero",
    "saturated",
    """
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(G.parameters())
    def step():
        fake = 1e4 * G(torch.randn(16, 2).abs())
        p = torch.sigmoid(-D(fake).abs() - 200)  # HERE
        return torch.log(1 - p).mean()
""",
)
broken(
    "distillation of the student by itself",
    "cut",
    "student.weight|grad mode was off",
    """
    student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    def step():
        with torch.no_grad():
            s = student(x)  # HERE
        t = teacher(x)
        return F.kl_div(s.log_softmax(1), t.softmax(1), reduction="batchmean")
""",
    also=("optimizer",),
)
broken(
    "a teacher that learns, too",
    "target",
    "also sends a gradient into its target",
    """
    student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
    optimizer = torch.optim.SGD([*student.parameters(), *teacher.parameters()], 0.1)
    def step():
        return F.mse_loss(student(x), teacher(x))
""",
)
broken(
    "a queue that keeps its graph",
    "freed",
    "queue[0]|detach()",
    """
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    queue = [net(torch.randn(4, 4))]
    queue[0].sum().backward()
    def step():
        q = net(x)
        return torch.logsumexp(q @ torch.cat(queue).pow(2).T, 1).mean()
""",
)
broken(
    "contrasts without the positive",
    "cut",
    "detach()|net.weight",
    """
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    queue = F.normalize(torch.randn(8, 3), dim=1)
    def step():
        q = F.normalize(net(x), dim=1).detach()  # HERE
        k = nn.Parameter(q.clone())
        return F.cross_entropy(torch.cat([(q * k).sum(1, True), q @ queue.T], 1) / 0.07,
                               torch.zeros(16, dtype=torch.long))
""",
    also=("optimizer",),
)
broken(
    "a normalised embedding of zeros",
    "nan",
    "divided by zero",
    """
    net = nn.Linear(4, 3)
    nn.init.zeros_(net.weight); nn.init.zeros_(net.bias)
    def step():
        z = net(x)
        return (z / z.norm(dim=1, keepdim=True)).sum()  # HERE
""",
)
broken(
    "VQ without the straight-through estimator",
    "cut",
    "integers|enc.weight",
    """
    enc, dec, code = nn.Linear(4, 2), nn.Linear(2, 4), nn.Embedding(5, 2)
    optimizer = torch.optim.SGD([*enc.parameters(), *dec.parameters(), *code.parameters()], 0.1)
    def step():
        z = enc(x)
        index = torch.cdist(z, code.weight).argmin(1)  # HERE
        return F.mse_loss(dec(code(index)), x)
""",
)
