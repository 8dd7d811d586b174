"""More training scripts with nothing wrong, of nets that judge, teach or copy each other."""

from __future__ import annotations

from healthy_scripts import healthy

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
    "a GAN's generator with D frozen",
    """
    G = nn.Linear(3, 5)
    D = nn.Linear(5, 1)
    optimizer = torch.optim.Adam(G.parameters())
    def step():
        D.requires_grad_(False)
        out = F.softplus(-D(G(torch.randn(16, 3)))).mean()
        D.requires_grad_(True)
        return out
""",
)
healthy(
    "double DQN",
    """
    q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    target = copy.deepcopy(q).requires_grad_(False)
    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    a = torch.randint(0, 2, (16, 1))
    optimizer = torch.optim.Adam(q.parameters())
    def step():
        now = q(s).gather(1, a).squeeze(1)
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            wanted = r + 0.9 * target(s2).gather(1, best).squeeze(1)
        return F.smooth_l1_loss(now, wanted)
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
    "REINFORCE",
    """
    policy = nn.Linear(4, 3)
    s, ret = torch.randn(16, 4), torch.randn(16)
    optimizer = torch.optim.Adam(policy.parameters())
    def step():
        d = torch.distributions.Categorical(logits=policy(s))
        a = d.sample()
        return -(d.log_prob(a) * (ret - ret.mean())).mean()
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
    "contrastive pairs of a siamese net",
    """
    net = nn.Linear(8, 4)
    a, b = torch.randn(16, 8), torch.randn(16, 8)
    same = torch.randint(0, 2, (16,)).float()
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        d = F.pairwise_distance(net(a), net(b))
        return (same * d.pow(2) + (1 - same) * F.relu(1 - d).pow(2)).mean()
""",
)
healthy(
    "distillation",
    """
    teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam(student.parameters())
    def step():
        with torch.no_grad():
            t = teacher(x)
        s = student(x)
        s2, t2 = (s / 2).log_softmax(1), (t / 2).log_softmax(1)
        soft = F.kl_div(s2, t2, reduction="batchmean", log_target=True)
        return 4 * soft + F.cross_entropy(s, y)
""",
)
healthy(
    "mutual learning",
    """
    one, two = nn.Linear(4, 3), nn.Linear(4, 3)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()])
    def step():
        a, b = one(x).log_softmax(1), two(x).log_softmax(1)
        js = F.kl_div(a, b.exp(), reduction="batchmean")
        js = js + F.kl_div(b, a.exp(), reduction="batchmean")
        return F.nll_loss(a, y) + F.nll_loss(b, y) + 0.5 * js
""",
)
healthy(
    "a mean teacher",
    """
    net = nn.Linear(4, 3)
    ema = copy.deepcopy(net).requires_grad_(False)
    x = torch.randn(16, 4)
    y = torch.randint(0, 3, (16,))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        with torch.no_grad():
            for e, p in zip(ema.parameters(), net.parameters()):
                e.mul_(0.99).add_(p, alpha=0.01)
        out = net(x)
        return F.cross_entropy(out, y) + F.mse_loss(out.softmax(1), ema(x).softmax(1))
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
    "SimSiam with both detached",
    """
    f, p = nn.Linear(8, 8), nn.Linear(8, 8)
    x = torch.randn(16, 8)
    optimizer = torch.optim.SGD([*f.parameters(), *p.parameters()], 0.1)
    def step():
        a, b = f(x), f(x + 0.1)
        one, two = (p(a), b.detach()), (p(b), a.detach())
        return -(F.cosine_similarity(*one).mean() + F.cosine_similarity(*two).mean()) / 2
""",
)
healthy(
    "a perceptual loss by a frozen net",
    """
    vgg = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    vgg.eval().requires_grad_(False)
    net = nn.Conv2d(3, 3, 3, padding=1)
    x, y = torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        out = net(x).clamp(0, 1)
        return F.l1_loss(out, y) + F.mse_loss(vgg(out), vgg(y))
""",
)
