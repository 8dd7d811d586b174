"""Training scripts with nothing wrong, of other domains: flows, graphs, rays, survival, scans."""

from __future__ import annotations

from healthy_scripts import healthy

STYLES = {
    "a neural cellular automaton with a stochastic update": """
    rule = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    optimizer = torch.optim.Adam(rule.parameters())
    goal = torch.rand(2, 4, 5, 5)
    def step():
        cells = torch.full((2, 4, 5, 5), 0.1)
        for _ in range(4):
            cells = cells + rule(cells) * (torch.rand(2, 1, 5, 5) < 0.5).float()
        return F.mse_loss(cells, goal)
""",
    "a hypernetwork that writes the weights": """
    hyper = nn.Linear(3, 4 * 2 + 2)
    task, x, y = torch.randn(3), torch.randn(8, 4), torch.randn(8, 2)
    optimizer = torch.optim.Adam(hyper.parameters())
    def step():
        made = hyper(task)
        return F.mse_loss(F.linear(x, made[:8].view(2, 4), made[8:]), y)
""",
    "a normalising flow of coupling layers": """
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
    nets = nn.ModuleList(copy.deepcopy(net) for _ in range(3))
    x = torch.randn(32, 4)
    optimizer = torch.optim.Adam(nets.parameters())
    def step():
        z, volume = x, 0.0
        for net in nets:
            a, b = z.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            z = torch.cat([b * scale.tanh().exp() + shift, a], 1)
            volume = volume + scale.tanh().sum(1)
        return (0.5 * z.pow(2).sum(1) - volume).mean()
""",
    "matrix factorisation with biases": """
    users, items = nn.Embedding(20, 4), nn.Embedding(30, 4)
    bu, bi = nn.Embedding(20, 1), nn.Embedding(30, 1)
    u, i, r = torch.randint(0, 20, (64,)), torch.randint(0, 30, (64,)), torch.rand(64) * 4 + 1
    optimizer = torch.optim.SGD(nn.ModuleList([users, items, bu, bi]).parameters(), 0.1)
    def step():
        return F.mse_loss((users(u) * items(i)).sum(1) + bu(u)[:, 0] + bi(i)[:, 0] + 3.0, r)
""",
    "a graph network with a sparse adjacency": """
    edges = torch.randint(0, 10, (2, 30))
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(30), (10, 10)).coalesce()
    first, second = nn.Linear(4, 8), nn.Linear(8, 3)
    x, y = torch.randn(10, 4), torch.randint(0, 3, (10,))
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    def step():
        return F.cross_entropy(torch.sparse.mm(adjacency, second(first(x).relu())), y)
""",
    "mixup with two targets": """
    net = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 3))
    x, y, lam = torch.randn(16, 4), torch.randint(0, 3, (16,)), 0.3
    optimizer = torch.optim.AdamW(net.parameters())
    def step():
        other = torch.randperm(16)
        out = net(lam * x + (1 - lam) * x[other])
        return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[other])
""",
    "label smoothing and stochastic depth": """
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.SiLU()) for _ in range(4))
    head = nn.Linear(8, 3)
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])
    def step():
        h = x
        for block in blocks:
            keep = (torch.rand(16, 1) < 0.8).float() / 0.8
            h = h + block(h) * keep
        return F.cross_entropy(head(h), y, label_smoothing=0.1)
""",
    "an echo state network, whose reservoir is fixed": """
    inside, win = torch.randn(20, 20) * 0.1, torch.randn(20, 3)
    readout = nn.Linear(20, 1)
    series, goal = torch.randn(12, 3), torch.randn(1)
    optimizer = torch.optim.Adam(readout.parameters())
    def step():
        state = torch.zeros(20)
        for each in series: state = torch.tanh(inside @ state + win @ each)
        return F.mse_loss(readout(state), goal)
""",
    "a pointer network with a mask of visited places": """
    encode, query = nn.Linear(2, 8), nn.Linear(8, 8)
    towns, order = torch.rand(5, 2), [3, 1, 4, 0, 2]
    optimizer = torch.optim.Adam([*encode.parameters(), *query.parameters()])
    def step():
        h = encode(towns)
        at, seen, loss = h.mean(0), torch.zeros(5, dtype=torch.bool), 0.0
        for town in order:
            scores = (h @ query(at)).masked_fill(seen, float("-inf"))
            loss = loss - torch.log_softmax(scores, 0)[town]
            seen = seen.clone(); seen[town] = True
            at = h[town]
        return loss
""",
    "contrastive image and text with a clamped learned scale": """
    image, text = nn.Linear(6, 8), nn.Linear(5, 8)
    scale = nn.Parameter(torch.tensor(2.659))
    a, b = torch.randn(8, 6), torch.randn(8, 5)
    optimizer = torch.optim.AdamW([*image.parameters(), *text.parameters(), scale])
    def step():
        i, t = F.normalize(image(a), dim=1), F.normalize(text(b), dim=1)
        logits = scale.exp().clamp(max=100) * i @ t.T
        same = torch.arange(8)
        return (F.cross_entropy(logits, same) + F.cross_entropy(logits.T, same)) / 2
""",
    "an implicit layer by its fixed point": """
    inner = nn.Linear(6, 6)
    with torch.no_grad(): inner.weight.mul_(0.3)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    optimizer = torch.optim.Adam(inner.parameters())
    def step():
        with torch.no_grad():
            z = torch.zeros(4, 6)
            for _ in range(30): z = torch.tanh(inner(z) + x)
        return F.mse_loss(torch.tanh(inner(z) + x), y)
""",
    "straight-through Gumbel softmax": """
    net, book = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 3))
    x, y = torch.randn(16, 4), torch.randn(16, 3)
    optimizer = torch.optim.Adam([*net.parameters(), book])
    def step():
        return F.mse_loss(F.gumbel_softmax(net(x), tau=1.0, hard=True) @ book, y)
""",
    "evidential regression": """
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
    x, y = torch.randn(32, 4), torch.randn(32)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        mean, v, a, b = net(x).unbind(1)
        v, a, b = F.softplus(v) + 1e-3, F.softplus(a) + 1.001, F.softplus(b) + 1e-3
        two = 2 * b * (1 + v)
        far = torch.log(v * (y - mean) ** 2 + two)
        fit = 0.5 * torch.log(torch.pi / v) - a * two.log() + (a + 0.5) * far
        return (fit + torch.lgamma(a) - torch.lgamma(a + 0.5)).mean()
""",
    "a learned optimizer step unrolled": """
    rule = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(rule.parameters())
    goal = torch.randn(5)
    def step():
        w, loss = torch.zeros(5, requires_grad=True), 0.0
        for _ in range(3):
            inner = F.mse_loss(w, goal)
            (g,) = torch.autograd.grad(inner, w, create_graph=True)
            w = w + 0.1 * rule(torch.stack([g, g.abs()], 1))[:, 0]
            loss = loss + F.mse_loss(w, goal)
        return loss
""",
    "a neural radiance ray with transmittance": """
    field = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
    points, colour = torch.rand(4, 8, 3), torch.rand(4, 3)
    optimizer = torch.optim.Adam(field.parameters())
    def step():
        out = field(points)
        alpha = 1 - torch.exp(-F.softplus(out[..., 3]) * 0.1)
        left = torch.cumprod(torch.cat([torch.ones(4, 1), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return F.mse_loss(((alpha * left)[..., None] * out[..., :3].sigmoid()).sum(1), colour)
""",
    "survival by the partial likelihood of Cox": """
    net = nn.Linear(4, 1)
    x, time, event = torch.randn(20, 4), torch.rand(20), (torch.rand(20) < 0.7).float()
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        order = time.argsort(descending=True)
        risk = net(x[order])[:, 0]
        return -((risk - torch.logcumsumexp(risk, 0)) * event[order]).sum() / event.sum()
""",
    "a state-space scan with complex numbers": """
    rate, phase = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))
    b, c = (nn.Parameter(torch.randn(4, dtype=torch.cfloat)) for _ in range(2))
    u, y = torch.randn(10), torch.randn(10)
    optimizer = torch.optim.Adam([rate, phase, b, c])
    def step():
        a = torch.polar(torch.exp(-F.softplus(rate)), phase)
        h, out = torch.zeros(4, dtype=torch.cfloat), []
        for each in u:
            h = a * h + b * each
            out.append((c * h).real.sum())
        return F.mse_loss(torch.stack(out), y)
""",
    "a symmetric matrix learned through its eigenvalues": """
    raw = nn.Parameter(torch.randn(5, 5))
    goal = torch.linspace(-1, 1, 5)
    optimizer = torch.optim.Adam([raw])
    def step():
        return F.mse_loss(torch.linalg.eigvalsh((raw + raw.T) / 2), goal)
""",
    "soft dynamic time warping": """
    net = nn.Linear(3, 1)
    x, y = torch.randn(6, 3), torch.randn(6)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        cost = (net(x) - y[None]) ** 2
        best = {(0, 0): cost[0, 0]}
        for i in range(6):
            for j in range(6):
                before = [best[p] for p in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if p in best]
                if before:
                    best[i, j] = cost[i, j] - torch.logsumexp(-torch.stack(before), 0)
        return best[5, 5]
""",
    "a policy with masked actions and an entropy bonus": """
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5))
    s, legal, gain = torch.randn(32, 4), torch.rand(32, 5) < 0.7, torch.randn(32)
    legal[:, 0] = True
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        logits = net(s).masked_fill(~legal, -1e9)
        policy = torch.distributions.Categorical(logits=logits)
        return -(policy.log_prob(policy.sample()) * gain + 0.01 * policy.entropy()).mean()
""",
}
for name, source in STYLES.items():
    healthy(name, source)
