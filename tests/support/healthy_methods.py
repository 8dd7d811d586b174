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
method(
    "self-attention of 4 sequences in 2 heads of 4 numbers",
    """
    layer, head = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3)
    data = torch.randn(4, 6, 8)
    def step():
        return F.cross_entropy(head(layer(data)).mean(1), labels[:4])
""",
)
method(
    "slots that compete for positions",
    """
    k, v, q = (nn.Linear(8, 6) for _ in range(3))
    data, slots = torch.randn(4, 9, 8), torch.randn(4, 3, 8)
    def step():
        weights = (q(slots) @ k(data).transpose(1, 2)).softmax(dim=1)
        return (weights / weights.sum(-1, keepdim=True) @ v(data)).pow(2).mean()
""",
)
method(
    "pooling by a softmax over clusters",
    """
    assign, embed = nn.Linear(8, 3), nn.Linear(8, 5)
    data, adjacency = torch.randn(4, 9, 8), torch.rand(4, 9, 9)
    def step():
        s = assign(data).softmax(-1)
        return (s.transpose(1, 2) @ embed(adjacency @ data)).pow(2).mean()
""",
)
method(
    "decoding with a growing cache",
    """
    attention, embed = nn.MultiheadAttention(8, 2, batch_first=True), nn.Embedding(12, 8)
    head, ids = nn.Linear(8, 12), torch.randint(12, (4, 6))
    def step():
        cache, loss = [], 0.0
        for i in range(5):
            cache.append(embed(ids[:, i : i + 1]))
            memory = torch.cat(cache, 1)
            h, _ = attention(cache[-1], memory, memory)
            loss = loss + F.cross_entropy(head(h[:, 0]), ids[:, i + 1])
        return loss / 5
""",
)
method(
    "hooks that log, and a hook that returns",
    """
    model, seen = nn.Linear(4, 1), []
    def log(grad):
        size = grad.norm()
        seen.append(size)
    def smaller(grad):
        bound = 1.0
        return grad.clamp(-bound, bound)
    model.weight.register_hook(log)
    model.bias.register_hook(smaller)
    def step():
        return F.mse_loss(model(x), y)
""",
)
method(
    "a scaler with accumulation and clipping",
    """
    model, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    def step():
        for _ in range(2):
            optimizer.zero_grad()
            for part in range(2):
                loss = F.mse_loss(model(x[part::2]), y[part::2]) / 2
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return F.mse_loss(model(x), y)
""",
)
method(
    "batch norm and random numbers of torch in a checkpoint",
    """
    from torch.utils.checkpoint import checkpoint
    inner, head = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(4, 1)
    def block(h):
        return F.dropout(torch.roll(inner(h), int(torch.randint(4, (1,))), 1), 0.1).tanh()
    def step():
        loss = F.mse_loss(head(checkpoint(block, x, use_reentrant=False)), y)
        loss.backward()
        return F.mse_loss(head(checkpoint(block, x, use_reentrant=False)), y)
""",
)
