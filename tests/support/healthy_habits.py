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
    "a GAN of the hinge loss, critic's step, margins kept",
    """
    G = nn.Linear(3, 5)
    D = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    real = torch.randn(16, 5) * 100
    optimizer = torch.optim.Adam(D.parameters())
    def step():
        fake = G(torch.randn(16, 3)).detach()
        kept = F.relu(-4 - 0.001 * D(real)).mean()
        return kept + F.relu(1 + D(fake)).mean()
""",
)
healthy(
    "DDPG's actor",
    """
    actor, critic = nn.Sequential(nn.Linear(4, 2), nn.Tanh()), nn.Linear(6, 1)
    s = torch.randn(16, 4)
    optimizer = torch.optim.Adam(actor.parameters())
    def step():
        return -critic(torch.cat([s, actor(s)], 1)).mean()
""",
)
healthy(
    "an actor and a critic in one loss",
    """
    actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
    s, ret = torch.randn(16, 4), torch.randn(16)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
    def step():
        d = torch.distributions.Categorical(logits=actor(s))
        a, v = d.sample(), critic(s).squeeze(1)
        adv = (ret - v).detach()
        value = 0.5 * (ret - v).pow(2).mean()
        return value - (d.log_prob(a) * adv).mean() - 0.01 * d.entropy().mean()
""",
)
healthy(
    "VICReg",
    """
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
    x = torch.randn(32, 8)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
        inv = F.mse_loss(a, b)
        std = sum(F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean() for z in (a, b))
        c = (a - a.mean(0)).T @ (a - a.mean(0)) / 31
        return 25 * inv + 25 * std + (c - torch.diag(c.diagonal())).pow(2).sum() / 8
""",
)
healthy(
    "triplets that are satisfied",
    """
    net = nn.Linear(8, 4)
    x = torch.randn(16, 8)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return F.triplet_margin_loss(net(x), net(x + 0.01), net(-x * 3), margin=0.01)
""",
)
healthy(
    "first-order MAML",
    """
    net = nn.Linear(4, 1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        g = torch.autograd.grad(F.mse_loss(net(x), y), list(net.parameters()))
        fast = [p - 0.1 * d for p, d in zip(net.parameters(), g)]
        return F.mse_loss(F.linear(x, *fast), y)
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
    "nll_loss of log probabilities",
    """
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return F.nll_loss(torch.log(net(x).softmax(1)), y)
""",
)
