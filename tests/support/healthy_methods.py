"""Healthy scripts of methods that look odd: gradients stopped, copied, passed on and switched."""

from __future__ import annotations

from textwrap import dedent

from healthy_scripts import healthy

DATA = """
x, y = torch.randn(16, 4), torch.randn(16, 1)
labels = torch.randint(0, 3, (16,))
"""


def method(name: str, source: str) -> None:
    """Enter a script that also has some data."""
    healthy(name, DATA + dedent(source))


method(
    "SimSiam",
    """
    enc, pred = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*enc.parameters(), *pred.parameters()], 0.1)
    def step():
        z1, z2 = enc(x), enc(x + 0.1 * torch.randn(16, 4))
        one = F.cosine_similarity(pred(z1), z2.detach()).mean()
        return -0.5 * (one + F.cosine_similarity(pred(z2), z1.detach()).mean())
""",
)
method(
    "BYOL with a target by deepcopy",
    """
    online = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    target, pred = copy.deepcopy(online), nn.Linear(4, 4)
    optimizer = torch.optim.Adam([*online.parameters(), *pred.parameters()])
    for p, q in zip(online.parameters(), target.parameters()):
        q.data = 0.99 * q.data + 0.01 * p.data
    def step():
        with torch.no_grad():
            wanted = F.normalize(target(x), dim=1)
        return (2 - 2 * (F.normalize(pred(online(x)), dim=1) * wanted).sum(1)).mean()
""",
)
method(
    "MoCo with a queue",
    """
    q_enc = nn.Linear(4, 3)
    k_enc = copy.deepcopy(q_enc).requires_grad_(False)
    queue = F.normalize(torch.randn(8, 3), dim=1)
    optimizer = torch.optim.SGD(q_enc.parameters(), 0.1)
    def step():
        global queue
        q = F.normalize(q_enc(x), dim=1)
        with torch.no_grad():
            k = F.normalize(k_enc(x + 0.1), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().T], 1)
        queue = torch.cat([k, queue])[:8]
        return F.cross_entropy(logits / 0.07, torch.zeros(16, dtype=torch.long))
""",
)
method(
    "MAML of second order",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    def step():
        params = dict(model.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(torch.func.functional_call(model, params, (x,)), y)
            grads = torch.autograd.grad(inner, params.values(), create_graph=True)
            params = {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads)}
        return F.mse_loss(torch.func.functional_call(model, params, (x,)), y)
""",
)
method(
    "Reptile, whose inner net is a copy",
    """
    model = nn.Linear(4, 1)
    inner = copy.deepcopy(model)
    optimizer = torch.optim.SGD(inner.parameters(), 0.1)
    def step():
        return F.mse_loss(inner(x), y)
""",
)
method(
    "truncated backpropagation",
    """
    cell, head = nn.GRUCell(4, 6), nn.Linear(6, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
    state = torch.zeros(16, 6)
    def step():
        global state
        h = state.detach()
        for _ in range(3):
            h = cell(x, h)
        state = h
        return F.mse_loss(head(h), y)
    step()
""",
)
method(
    "a frozen backbone in eval mode",
    """
    backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    backbone.requires_grad_(False).eval()
    head = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    def step():
        return F.cross_entropy(head(backbone(x)), labels)
""",
)
method(
    "adapters beside frozen layers",
    """
    class LoRA(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(2, 4) * 0.1)
            self.b = nn.Parameter(torch.zeros(4, 2))
        def forward(self, v): return self.base(v) + v @ self.a.T @ self.b.T
    model = nn.Sequential(LoRA(nn.Linear(4, 4)), nn.ReLU(), LoRA(nn.Linear(4, 4)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3)
    def step():
        return F.mse_loss(model(x), x)
""",
)
method(
    "a learned prompt before a frozen model",
    """
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).requires_grad_(False)
    prompt = nn.Parameter(torch.randn(3, 4))
    optimizer = torch.optim.Adam([prompt], 0.01)
    seq = torch.randn(2, 5, 4)
    def step():
        out = model(torch.cat([prompt.expand(2, -1, -1), seq], 1))
        return F.mse_loss(out[:, 3:], seq)
""",
)
method(
    "straight through a threshold",
    """
    enc, dec = nn.Linear(4, 8), nn.Linear(8, 4)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        p = torch.sigmoid(enc(x))
        hard = (p > 0.5).float()
        return F.mse_loss(dec(hard + p - p.detach()), x)
""",
)
method(
    "quantisation-aware training by a Function",
    """
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v): return v.round()
        @staticmethod
        def backward(ctx, g): return g
    model = nn.Linear(4, 1)
    scale = nn.Parameter(torch.tensor(0.1))
    optimizer = torch.optim.Adam([*model.parameters(), scale])
    def step():
        w = Round.apply(model.weight / scale) * scale
        return F.mse_loss(F.linear(x, w, model.bias), y)
""",
)
method(
    "a gradient penalty of two critics",
    """
    d1, d2 = (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2))
    optimizer = torch.optim.Adam([*d1.parameters(), *d2.parameters()])
    real = torch.randn(16, 4)
    def step():
        between = (0.3 * real + 0.7 * x).detach().requires_grad_()
        total = 0
        for d in (d1, d2):
            out = d(between)
            (g,) = torch.autograd.grad(out, between, torch.ones_like(out), create_graph=True)
            total = total + ((g.norm(dim=1) - 1) ** 2).mean() + d(x).mean() - d(real).mean()
        return total
""",
)
method(
    "two optimizers of one loss",
    """
    enc, dec = nn.Linear(4, 2), nn.Linear(2, 4)
    optimizer = [torch.optim.SGD(enc.parameters(), 0.1), torch.optim.Adam(dec.parameters())]
    def step():
        return F.mse_loss(dec(torch.tanh(enc(x))), x)
""",
)
method(
    "a warm-up that begins at zero",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1, i / 100))
    def step():
        return F.mse_loss(model(x), y)
""",
)
method(
    "PPO with a clipped ratio",
    """
    policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()])
    a, r = torch.randint(0, 2, (16,)), torch.randn(16)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(x) + 0.05).log_prob(a)
        adv = r - value(x).squeeze(1)
        old = old + 0.1 * torch.randn(16)
    def step():
        dist = torch.distributions.Categorical(logits=policy(x))
        ratio = (dist.log_prob(a) - old).exp()
        clipped = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        return -clipped.mean() + F.mse_loss(value(x).squeeze(1), r) - 0.01 * dist.entropy().mean()
""",
)
method(
    "TD3's critics with a target policy and noise",
    """
    actor, c1, c2 = nn.Linear(4, 2), nn.Linear(6, 1), nn.Linear(6, 1)
    targets = copy.deepcopy(nn.ModuleList([actor, c1, c2])).requires_grad_(False)
    optimizer = torch.optim.Adam([*c1.parameters(), *c2.parameters()])
    s2, a, r = torch.randn(16, 4), torch.randn(16, 2), torch.randn(16, 1)
    def step():
        with torch.no_grad():
            n = (torch.randn(16, 2) * 0.2).clamp(-0.5, 0.5)
            a2 = torch.cat([s2, (targets[0](s2).tanh() + n).clamp(-1, 1)], 1)
            wanted = r + 0.99 * torch.min(targets[1](a2), targets[2](a2))
        sa = torch.cat([x, a], 1)
        return F.mse_loss(c1(sa), wanted) + F.mse_loss(c2(sa), wanted)
""",
)
method(
    "gradients accumulated over parts",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for part, wanted in zip(x[:8].chunk(2), y[:8].chunk(2)):
        (F.mse_loss(model(part), wanted) / 3).backward()
    def step():
        return F.mse_loss(model(x[8:]), y[8:]) / 3
""",
)
method(
    "loss values kept as numbers",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    log, best = [], float("inf")
    def step():
        global best
        loss = F.mse_loss(model(x), y)
        log.append(loss.item())
        best = min(best, float(loss))
        right = ((model(x) > 0) == (y > 0)).float().mean().item()
        log.append(right)
        return loss
""",
)
method(
    "a learning rate by the size of the loss",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        a, b = F.mse_loss(model(x), y), model.weight.abs().sum()
        weight = a.detach() / b.detach()
        return a + 0.1 * weight * b
""",
)
method(
    "checkpointed blocks",
    """
    from torch.utils.checkpoint import checkpoint
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])
    head = nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], 0.1)
    def step():
        h = x
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return F.mse_loss(head(h), y)
""",
)
method(
    "parametrizations from the start",
    """
    model = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    head = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4, bias=False))
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    def step():
        return F.mse_loss(head(model(x)), x)
""",
)
method(
    "an ensemble by vmap",
    """
    nets = [nn.Linear(4, 1) for _ in range(3)]
    params, buffers = torch.func.stack_module_state(nets)
    optimizer = torch.optim.SGD(params.values(), 0.1)
    base = copy.deepcopy(nets[0]).to("meta")
    def one(p, b, v): return torch.func.functional_call(base, (p, b), (v,))
    def step():
        return F.mse_loss(torch.vmap(one, (0, 0, None))(params, buffers, x), y.expand(3, 16, 1))
""",
)
method(
    "early exits, of which one is trained",
    """
    class Exits(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Linear(4, 4)
            self.heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)])
        def forward(self, v, i): return self.heads[i](torch.tanh(self.trunk(v)))
    model = Exits()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x, 1), y)
""",
)
method(
    "a detached backbone that is kept for later",
    """
    enc, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    def step():
        return F.mse_loss(head(enc(x).detach()), y)
""",
)
method(
    "stochastic depth that skips a block",
    """
    blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    optimizer = torch.optim.SGD(blocks.parameters(), 0.1)
    keep = [True, False, True]
    def step():
        h = x
        for block, kept in zip(blocks, keep):
            h = h + torch.tanh(block(h)) if kept else h
        return F.mse_loss(h, x + 1)
""",
)
method(
    "an EMA of weights kept beside",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ema = torch.optim.swa_utils.AveragedModel(model)
    def step():
        ema.update_parameters(model)
        return F.mse_loss(model(x), y)
""",
)
method(
    "weight decay by hand in the loss",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        decay = sum(p.pow(2).sum() for n, p in model.named_parameters() if "weight" in n)
        return F.mse_loss(model(x), y) + 1e-4 * decay
""",
)
method(
    "an actor in one optimizer, its critic in another",
    """
    actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
    optimizer = [torch.optim.Adam(net.parameters()) for net in (actor, critic)]
    def step():
        critic.requires_grad_(False)
        loss = -critic(torch.cat([x, actor(x).tanh()], 1)).mean()
        critic.requires_grad_(True)
        return loss
""",
)
method(
    "a critic's step beside both optimizers",
    """
    G, D = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizer = [torch.optim.Adam(net.parameters()) for net in (G, D)]
    def step():
        fake = G(torch.randn(16, 2)).detach()
        return F.softplus(D(fake)).mean() + F.softplus(-D(x)).mean()
""",
)
