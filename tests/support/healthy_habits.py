"""More training scripts with nothing wrong, with habits that are odd and right."""

from __future__ import annotations

from healthy_scripts import healthy

healthy(
    "gradient reversal",
    """
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v.view_as(v)
        @staticmethod
        def backward(ctx, g):
            return -g
    body, label, domain = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 2)
    x, y, d = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randint(0, 2, (16,))
    optimizer = torch.optim.Adam([*body.parameters(), *label.parameters(), *domain.parameters()])
    def step():
        z = torch.relu(body(x))
        return F.cross_entropy(label(z), y) + F.cross_entropy(domain(Reverse.apply(z)), d)
""",
)
healthy(
    "mixed precision on the CPU",
    """
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
        return F.cross_entropy(out.float(), y)
""",
)
healthy(
    "a scaled loss in half precision",
    """
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).half()
    x, y = torch.randn(16, 4).half(), torch.randint(0, 3, (16,))
    def step():
        return F.cross_entropy(net(x).float(), y) * 1024
""",
)
healthy(
    "packed sequences",
    """
    emb = nn.Embedding(20, 8, padding_idx=0)
    rnn = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
    head = nn.Linear(16, 3)
    x = torch.randint(1, 20, (4, 6))
    lengths = torch.tensor([6, 4, 2, 1])
    for i, n in enumerate(lengths): x[i, n:] = 0
    y = torch.randint(0, 3, (4,))
    optimizer = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()])
    def step():
        packed = nn.utils.rnn.pack_padded_sequence(emb(x), lengths, batch_first=True)
        _, (hidden, _) = rnn(packed)
        return F.cross_entropy(head(torch.cat([hidden[0], hidden[1]], 1)), y)
""",
)
healthy(
    "a masked loss",
    """
    net = nn.GRU(4, 8, batch_first=True)
    head = nn.Linear(8, 1)
    x, y = torch.randn(4, 6, 4), torch.randn(4, 6, 1)
    mask = (torch.arange(6)[None] < torch.tensor([6, 4, 2, 1])[:, None]).float()[..., None]
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
    def step():
        out = head(net(x)[0])
        return ((out - y).pow(2) * mask).sum() / mask.sum().clamp(min=1)
""",
)
healthy(
    "experts that are not used",
    """
    gate, experts = nn.Linear(8, 4), nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    x, y = torch.randn(2, 8), torch.randn(2, 8)
    optimizer = torch.optim.Adam([*gate.parameters(), *experts.parameters()])
    def step():
        p, i = gate(x).softmax(1).max(1)
        out = torch.stack([p[n] * experts[int(i[n])](x[n]) for n in range(2)])
        return F.mse_loss(out, y)
""",
)
healthy(
    "diffusion with clipped weights",
    """
    net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
    x = torch.randn(32, 2)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        t = torch.rand(32, 1)
        eps = torch.randn_like(x)
        a = torch.cos(t * math.pi / 2)
        snr = (a**2 / (1 - a**2 + 1e-6)).clamp(max=5)
        return (snr * (net(torch.cat([a * x + (1 - a**2).sqrt() * eps, t], 1)) - eps).pow(2)).mean()
""",
)
healthy(
    "graph attention",
    """
    lin, att = nn.Linear(4, 8, bias=False), nn.Parameter(torch.randn(16))
    x = torch.randn(10, 4)
    src, dst = torch.randint(0, 10, (40,)), torch.randint(0, 10, (40,))
    y = torch.randint(0, 8, (10,))
    optimizer = torch.optim.Adam([*lin.parameters(), att])
    def step():
        z = lin(x)
        e = F.leaky_relu(torch.cat([z[src], z[dst]], 1) @ att)
        w = (e - e.max().detach()).exp()
        norm = torch.zeros(10).index_add(0, dst, w)
        out = torch.zeros(10, 8).index_add(0, dst, (w / norm[dst])[:, None] * z[src])
        return F.cross_entropy(out, y)
""",
)
healthy(
    "attention pooling over nodes",
    """
    score, head = nn.Linear(4, 1), nn.Linear(4, 3)
    x = torch.randn(10, 4)
    y = torch.tensor([1])
    optimizer = torch.optim.Adam([*score.parameters(), *head.parameters()])
    def step():
        w = torch.softmax(score(x), dim=0)
        return F.cross_entropy(head((w * x).sum(0, keepdim=True)), y)
""",
)
healthy(
    "LBFGS with a closure",
    """
    net = nn.Linear(4, 1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer = torch.optim.LBFGS(net.parameters())
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
    optimizer.zero_grad()
    def step():
        return F.mse_loss(net(x), y)
""",
)
healthy(
    "layers that are unfrozen one by one",
    """
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    net.requires_grad_(False)
    net[4].requires_grad_(True)
    optimizer = torch.optim.SGD(net[4].parameters(), 0.1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    def step():
        return F.mse_loss(net(x), y)
""",
)
healthy(
    "a learned temperature of weights of uncertainty",
    """
    body, a, b = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 3)
    log_var = nn.Parameter(torch.zeros(2))
    x, y, c = torch.randn(16, 4), torch.randn(16, 1), torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam([*body.parameters(), *a.parameters(), *b.parameters(), log_var])
    def step():
        z = torch.tanh(body(x))
        losses = torch.stack([F.mse_loss(a(z), y), F.cross_entropy(b(z), c)])
        return ((-log_var).exp() * losses + log_var).sum()
""",
)
healthy(
    "a physics-informed net of second order",
    """
    u = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    xt = torch.rand(32, 2, requires_grad=True)
    optimizer = torch.optim.Adam(u.parameters())
    def step():
        f = u(xt)
        g = torch.autograd.grad(f, xt, torch.ones_like(f), create_graph=True)[0]
        h = torch.autograd.grad(g[:, :1], xt, torch.ones_like(f), create_graph=True)[0]
        return (g[:, 1:] - 0.1 * h[:, :1]).pow(2).mean() + u(torch.zeros(1, 2)).pow(2).mean()
""",
)
healthy(
    "a score by jacobian of a flow",
    """
    net = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
    x = torch.randn(16, 2)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        z = x.clone().requires_grad_()
        (score,) = torch.autograd.grad(net(z).sum(), z, create_graph=True)
        v = torch.randn_like(z)
        (hv,) = torch.autograd.grad((score * v).sum(), z, create_graph=True)
        return ((v * hv).sum(1) + 0.5 * (score * v).sum(1).pow(2)).mean()
""",
)
healthy(
    "sharpness-aware minimisation",
    """
    net = nn.Linear(4, 1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        g = torch.autograd.grad(F.mse_loss(net(x), y), list(net.parameters()))
        with torch.no_grad():
            for p, d in zip(net.parameters(), g):
                p.add_(0.05 * d)
        return F.mse_loss(net(x), y)
""",
)
healthy(
    "a straight-through sign",
    """
    net, head = nn.Linear(4, 8), nn.Linear(8, 1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.1)
    def step():
        z = net(x)
        b = z.clamp(-1, 1) + (z.sign() - z.clamp(-1, 1)).detach()
        return F.mse_loss(head(b), y)
""",
)
healthy(
    "dropout and a tanh soft cap of logits",
    """
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        return F.cross_entropy(30 * torch.tanh(net(x) / 30), y, label_smoothing=0.1)
""",
)
healthy(
    "sum of squares of a large batch",
    """
    net = nn.Linear(64, 1)
    x, y = torch.randn(4096, 64), 10 * torch.randn(4096, 1)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    def step():
        return ((net(x) - y) ** 2).sum()
""",
)
healthy(
    "an ELBO summed over pixels",
    """
    enc, dec = nn.Linear(784, 20), nn.Linear(10, 784)
    x = torch.rand(64, 784)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        mu, lv = enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (lv / 2).exp()
        bce = F.binary_cross_entropy(torch.sigmoid(dec(z)), x, reduction="sum")
        return bce - 0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum()
""",
)
healthy(
    "a bag of words by embedding_bag",
    """
    bag, head = nn.EmbeddingBag(50, 8, mode="mean"), nn.Linear(8, 3)
    words, starts = torch.randint(0, 50, (30,)), torch.tensor([0, 7, 15])
    y = torch.randint(0, 3, (3,))
    optimizer = torch.optim.SGD([*bag.parameters(), *head.parameters()], 0.1)
    def step():
        return F.cross_entropy(head(bag(words, starts)), y)
""",
)
healthy(
    "tied embeddings with a causal mask",
    """
    emb = nn.Embedding(20, 16)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    x = torch.randint(0, 20, (2, 7))
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    optimizer = torch.optim.Adam([*emb.parameters(), *layer.parameters()])
    def step():
        out = layer(emb(x[:, :-1]), src_mask=mask, is_causal=True)
        return F.cross_entropy((out @ emb.weight.T).flatten(0, 1), x[:, 1:].flatten())
""",
)
healthy(
    "a hard mixture by Gumbel noise and a mask of used classes",
    """
    net, values = nn.Linear(4, 5), nn.Parameter(torch.randn(5, 2))
    x = torch.randn(16, 4)
    optimizer = torch.optim.Adam([*net.parameters(), values])
    def step():
        p = F.gumbel_softmax(net(x), tau=0.5, hard=True)
        return (p @ values).pow(2).mean()
""",
)
healthy(
    "a ranking loss with a margin",
    """
    net = nn.Linear(4, 1)
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return F.margin_ranking_loss(net(a)[:, 0], net(b)[:, 0], torch.ones(16), margin=0.5)
""",
)
healthy(
    "an ordinal regression with softplus",
    """
    net, cuts = nn.Linear(4, 1), nn.Parameter(torch.tensor([0.0, 0.5, 0.5]))
    x, y = torch.randn(16, 4), torch.randint(0, 4, (16,))
    optimizer = torch.optim.Adam([*net.parameters(), cuts])
    def step():
        order = torch.cumsum(torch.cat([cuts[:1], F.softplus(cuts[1:])]), 0)
        levels = (y[:, None] > torch.arange(3)).float()
        return F.binary_cross_entropy_with_logits(net(x) - order, levels)
""",
)
healthy(
    "a Kalman filter",
    """
    q, r = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
    seen = torch.randn(20).cumsum(0)
    optimizer = torch.optim.Adam([q, r])
    def step():
        m, p, nll = torch.zeros(()), torch.ones(()), torch.zeros(())
        for z in seen:
            p = p + q.exp()
            s = p + r.exp()
            k = p / s
            nll = nll + 0.5 * (s.log() + (z - m) ** 2 / s)
            m, p = m + k * (z - m), (1 - k) * p
        return nll
""",
)
healthy(
    "logistic regression by hand, from zeros",
    """
    w, b = torch.zeros(4, requires_grad=True), torch.zeros((), requires_grad=True)
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,)).float()
    def step():
        z = x @ w + b
        return (F.softplus(z) - y * z).mean()
""",
)
healthy(
    "gradients that a hook masks, to keep pruned weights at zero",
    """
    net = nn.Linear(4, 4)
    keep = (torch.rand(4, 4) > 0.5).float()
    net.weight.data *= keep
    net.weight.register_hook(lambda g: g * keep)
    x, y = torch.randn(16, 4), torch.randn(16, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        return F.mse_loss(net(x), y)
""",
)
