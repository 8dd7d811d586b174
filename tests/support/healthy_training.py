"""Healthy scripts of recent methods: self-distillation, preferences, flows, surrogates, solvers."""

from __future__ import annotations

from healthy_scripts import healthy

healthy(
    "quantile regression of returns",
    """
    q, target = nn.Linear(4, 2 * 8), nn.Linear(4, 2 * 8)
    target.load_state_dict(q.state_dict())
    s, s2 = torch.randn(32, 4), torch.randn(32, 4)
    a, r, done = torch.randint(0, 2, (32,)), torch.randn(32), torch.rand(32) < 0.1
    tau = (torch.arange(8) + 0.5) / 8
    optimizer = torch.optim.Adam(q.parameters())
    def step():
        theta = q(s).view(32, 2, 8)[torch.arange(32), a]
        with torch.no_grad():
            following = target(s2).view(32, 2, 8)
            best = following.mean(-1).argmax(1)
            wanted = r[:, None] + 0.99 * ~done[:, None] * following[torch.arange(32), best]
        u = wanted[:, None, :] - theta[:, :, None]
        huber = F.smooth_l1_loss(theta[:, :, None].expand_as(u), wanted[:, None].expand_as(u),
                                 reduction="none")
        return ((tau[:, None] - (u.detach() < 0).float()).abs() * huber).mean(-1).sum(-1).mean()
""",
)
healthy(
    "preferences against a frozen reference (DPO)",
    """
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.rnn = nn.GRU(8, 8, batch_first=True)
            self.head = nn.Linear(8, 20)
        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0])
    policy = Tiny()
    reference = copy.deepcopy(policy).eval()
    reference.requires_grad_(False)
    chosen, rejected = torch.randint(1, 20, (4, 7)), torch.randint(1, 20, (4, 7))
    prompt = 3
    optimizer = torch.optim.AdamW(policy.parameters())
    def log_prob(model, ids):
        logits = model(ids[:, :-1]).log_softmax(-1)
        token = logits.gather(-1, ids[:, 1:, None]).squeeze(-1)
        mask = (torch.arange(1, ids.shape[1]) >= prompt).float()
        return (token * mask).sum(-1)
    def step():
        with torch.no_grad():
            base = log_prob(reference, chosen) - log_prob(reference, rejected)
        margin = log_prob(policy, chosen) - log_prob(policy, rejected)
        return -F.logsigmoid(0.1 * (margin - base)).mean()
""",
)
healthy(
    "a detector: focal loss, boxes of the matched anchors, ignored ones",
    """
    body = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
    classes, boxes = nn.Conv2d(8, 3, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
    nn.init.constant_(classes.bias, -math.log(99))
    images = torch.randn(2, 3, 8, 8)
    labels = torch.randint(-1, 4, (2, 16))
    wanted = torch.randn(2, 16, 4)
    parts = nn.ModuleList([body, classes, boxes])
    optimizer = torch.optim.SGD(parts.parameters(), 0.01)
    def step():
        h = body(images)
        c = classes(h).flatten(2).transpose(1, 2)
        b = boxes(h).flatten(2).transpose(1, 2)
        valid, positive = labels >= 0, labels > 0
        hot = F.one_hot(labels.clamp(min=0), 4)[..., 1:].float()
        p = c.sigmoid()
        ce = F.binary_cross_entropy_with_logits(c, hot, reduction="none")
        pt = p * hot + (1 - p) * (1 - hot)
        focal = (0.25 * hot + 0.75 * (1 - hot)) * (1 - pt) ** 2 * ce
        n = positive.sum().clamp(min=1)
        found = F.smooth_l1_loss(b[positive], wanted[positive], reduction="sum")
        return (focal[valid].sum() + found) / n
""",
)
healthy(
    "a U-Net with Dice and binary cross entropy",
    """
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(True))
            self.mid = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, 1, 1), nn.ReLU(True))
            self.up = nn.ConvTranspose2d(16, 8, 2, 2)
            self.out = nn.Sequential(nn.Conv2d(16, 8, 3, 1, 1), nn.ReLU(True), nn.Conv2d(8, 1, 1))
        def forward(self, x):
            skip = self.down(x)
            return self.out(torch.cat([skip, self.up(self.mid(skip))], 1))
    net = UNet()
    x = torch.randn(4, 1, 16, 16)
    mask = (x > 0.5).float()
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        logits = net(x)
        p = logits.sigmoid()
        both, all_ = (p * mask).sum((1, 2, 3)), (p + mask).sum((1, 2, 3))
        dice = 1 - (2 * both + 1) / (all_ + 1)
        return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()
""",
)
healthy(
    "points with a learned transform and max pooling",
    """
    class Transform(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Conv1d(3, 16, 1), nn.ReLU(), nn.AdaptiveMaxPool1d(1))
            self.out = nn.Linear(16, 9)
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)
        def forward(self, x):
            return self.out(self.net(x).squeeze(-1)).view(-1, 3, 3) + torch.eye(3)
    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = Transform()
            self.net = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU())
            self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 4))
        def forward(self, x):
            turned = self.turn(x)
            h = self.net(turned @ x).amax(-1)
            return self.head(h), turned
    net = Points()
    x, labels = torch.randn(8, 3, 20), torch.randint(0, 4, (8,))
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        logits, turned = net(x)
        rest = torch.eye(3) - turned @ turned.transpose(1, 2)
        return F.cross_entropy(logits, labels) + 0.001 * rest.norm(dim=(1, 2)).mean()
""",
)
healthy(
    "a Gaussian process by its marginal likelihood",
    """
    class GP(nn.Module):
        def __init__(self):
            super().__init__()
            self.log_length = nn.Parameter(torch.zeros(2))
            self.log_scale = nn.Parameter(torch.zeros(()))
            self.log_noise = nn.Parameter(torch.tensor(-2.0))
        def forward(self, x, y):
            z = x / self.log_length.exp()
            k = self.log_scale.exp() * torch.exp(-0.5 * torch.cdist(z, z) ** 2)
            chol = torch.linalg.cholesky(k + self.log_noise.exp() * torch.eye(len(x)))
            alpha = torch.cholesky_solve(y[:, None], chol).squeeze(-1)
            return 0.5 * y @ alpha + chol.diagonal().log().sum()
    gp = GP()
    x = torch.rand(20, 2)
    y = torch.sin(4 * x[:, 0]) + x[:, 1]
    optimizer = torch.optim.Adam(gp.parameters(), 0.1)
    def step():
        return gp(x, y)
""",
)
healthy(
    "optimal transport by Sinkhorn's iterations",
    """
    generator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    real = torch.randn(24, 2) + 2
    optimizer = torch.optim.Adam(generator.parameters())
    def step():
        fake = generator(torch.randn(24, 2))
        cost = torch.cdist(fake, real) ** 2
        eps, log_mass = 0.5, -math.log(24)
        f, g = torch.zeros(24), torch.zeros(24)
        for _ in range(20):
            f = -eps * torch.logsumexp((g - cost) / eps + log_mass, 1)
            g = -eps * torch.logsumexp((f[:, None] - cost) / eps + log_mass, 0)
        plan = ((f[:, None] + g - cost) / eps + 2 * log_mass).exp()
        return (plan * cost).sum()
""",
)
healthy(
    "spikes with a surrogate derivative",
    """
    class Spike(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return (v > 0).float()
        @staticmethod
        def backward(ctx, grad):
            (v,) = ctx.saved_tensors
            return grad / (1 + 10 * v.abs()) ** 2
    class Leaky(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(6, 12), nn.Linear(12, 3)
            self.beta = nn.Parameter(torch.tensor(0.9))
        def forward(self, x):
            v = torch.zeros(x.shape[1], 12)
            out = 0
            for t in range(x.shape[0]):
                v = self.beta * v + self.fc1(x[t])
                s = Spike.apply(v - 1)
                v = v - s.detach()
                out = out + self.fc2(s)
            return out / x.shape[0]
    net = Leaky()
    x, labels = (torch.rand(8, 16, 6) < 0.6).float() * 3, torch.randint(0, 3, (16,))
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return F.cross_entropy(net(x), labels)
""",
)
healthy(
    "features that forward hooks collect for distillation",
    """
    teacher = nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)
    )
    student = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    bridge = nn.Linear(8, 16, bias=False)
    teacher.eval().requires_grad_(False)
    seen = {}
    teacher[3].register_forward_hook(lambda module, args, out: seen.update(teacher=out))
    student[1].register_forward_hook(lambda module, args, out: seen.update(student=out))
    x, labels = torch.randn(32, 6), torch.randint(0, 4, (32,))
    optimizer = torch.optim.Adam([*student.parameters(), *bridge.parameters()])
    def step():
        with torch.no_grad():
            wanted = teacher(x)
        logits = student(x)
        one, other = (logits / 2).log_softmax(-1), (wanted / 2).softmax(-1)
        soft = F.kl_div(one, other, reduction="batchmean")
        hint = F.mse_loss(bridge(seen["student"]), seen["teacher"])
        return F.cross_entropy(logits, labels) + 4 * soft + hint
""",
)
healthy(
    "adaptation at test time of norms alone, by entropy",
    """
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)
    )
    net.requires_grad_(False)
    for each in net.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.requires_grad_(True)
            each.track_running_stats = False
            each.running_mean = each.running_var = None
    x = torch.randn(16, 3, 8, 8)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 1e-3)
    def step():
        logits = net(x)
        entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
        sure = entropy.detach() < math.log(5)
        return entropy[sure].mean()
""",
)
healthy(
    "a decoder block with rotary positions, grouped heads and a z-loss",
    """
    class RMSNorm(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d))
        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    def rotate(x, t):
        half = x.shape[-1] // 2
        angle = t[:, None] / 100 ** (torch.arange(half) / half)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
    class Block(nn.Module):
        def __init__(self, d=16, heads=4, groups=2):
            super().__init__()
            self.n1, self.n2, self.heads, self.groups = RMSNorm(d), RMSNorm(d), heads, groups
            self.q = nn.Linear(d, d, bias=False)
            self.kv = nn.Linear(d, 2 * d * groups // heads, bias=False)
            self.o = nn.Linear(d, d, bias=False)
            self.gate, self.up = nn.Linear(d, 32, bias=False), nn.Linear(d, 32, bias=False)
            self.down = nn.Linear(32, d, bias=False)
        def forward(self, x):
            b, t, d = x.shape
            h = self.n1(x)
            q = self.q(h).view(b, t, self.heads, -1).transpose(1, 2)
            k, v = self.kv(h).view(b, t, 2, self.groups, -1).permute(2, 0, 3, 1, 4)
            at = torch.arange(t).float()
            k, v = (e.repeat_interleave(self.heads // self.groups, 1) for e in (rotate(k, at), v))
            a = F.scaled_dot_product_attention(rotate(q, at), k, v, is_causal=True)
            x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
            h = self.n2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.blocks = nn.Embedding(32, 16), nn.ModuleList(Block() for _ in range(2))
            self.norm = RMSNorm(16)
        def forward(self, ids):
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.embed.weight.T
    net = Decoder()
    ids = torch.randint(0, 32, (4, 9))
    optimizer = torch.optim.AdamW(net.parameters())
    def step():
        logits = net(ids[:, :-1])
        z = torch.logsumexp(logits, -1).square().mean()
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) + 1e-4 * z
""",
)
healthy(
    "skip-grams with negative samples and sparse gradients",
    """
    centre, context = nn.Embedding(50, 8, sparse=True), nn.Embedding(50, 8, sparse=True)
    nn.init.uniform_(centre.weight, -0.5 / 8, 0.5 / 8)
    nn.init.zeros_(context.weight)
    words, near = torch.randint(0, 50, (32,)), torch.randint(0, 50, (32,))
    optimizer = torch.optim.SparseAdam([*centre.parameters(), *context.parameters()])
    def step():
        v = centre(words)
        wrong = torch.randint(0, 50, (32, 5))
        good = F.logsigmoid((v * context(near)).sum(-1))
        bad = F.logsigmoid(-(context(wrong) @ v[:, :, None]).squeeze(-1)).sum(-1)
        return -(good + bad).mean()
""",
)
