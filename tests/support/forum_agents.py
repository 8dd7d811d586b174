"""Broken scripts of agents, adversaries, teachers and contrasts; see `broken_scripts`."""

from __future__ import annotations

from broken_scripts import broken

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
    "PPO that detaches the new log probabilities",
    "cut",
    "detach()|policy.weight",
    """
    policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()])
    a, adv, old = torch.randint(0, 2, (16,)), torch.randn(16), torch.full((16,), -0.7)
    def step():
        dist = torch.distributions.Categorical(logits=policy(x))
        ratio = (dist.log_prob(a).detach() - old).exp()  # HERE
        return -(ratio * adv).mean() + F.mse_loss(value(x), y)
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
    "an advantage that is not detached",
    "optimizer",
    "critic.weight|still fills their .grad",
    """
    actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(actor.parameters())
    a, r = torch.randint(0, 2, (16, 1)), torch.randn(16)
    def step():
        logp = actor(x).log_softmax(1).gather(1, a).squeeze(1)
        return -(logp * (r - critic(x).squeeze(1))).mean()
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
    "DQN by argmax of its own value",
    "cut",
    "integers|q.weight",
    """
    q = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(q.parameters())
    r = torch.randn(16)
    gain = nn.Parameter(torch.ones(1))
    def step():
        best = q(x).argmax(1).float()  # HERE
        return F.mse_loss(gain * best, r)
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
    "a VAE whose KL goes by numpy",
    "no-grad",
    "NumPy array|which ends the graph",
    """
    enc, dec = nn.Linear(4, 4), nn.Linear(2, 4)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        mu, lv = enc(x).chunk(2, 1)
        z = torch.from_numpy(np.random.normal(mu.detach().numpy(), 1.0)).float()  # HERE
        return F.mse_loss(dec(z), x)
""",
)
broken(
    "a VAE with the standard deviation of a log variance that overflows",
    "nan",
    "ExpBackward0|has Inf in it",
    """
    enc, dec = nn.Linear(4, 4), nn.Linear(2, 4)
    def step():
        mu, lv = enc(x).chunk(2, 1)
        z = mu + (lv * 1000).exp() * torch.randn(16, 2)  # HERE
        return F.mse_loss(dec(z), x)
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
    "both views of SimSiam detached",
    "cut",
    "detach()|enc.weight",
    """
    enc, pred = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*enc.parameters(), *pred.parameters()], 0.1)
    def step():
        z1, z2 = enc(x).detach(), enc(x + 0.1).detach()  # HERE
        return -F.cosine_similarity(pred(z1), z2).mean()
""",
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
