"""Scripts with nothing wrong in styles that are not in the others, each a few lines."""

from __future__ import annotations

from healthy_scripts import healthy

STYLES = {
    "an average made by deepcopy": """
    import copy
    model = nn.Linear(4, 1)
    ema, best = copy.deepcopy(model), copy.deepcopy(model.state_dict())
    old = [p.detach().clone() for p in model.parameters()]
    def step():
        drift = sum((p - q).square().sum() for p, q in zip(model.parameters(), old))
        return F.mse_loss(model(x), y) + drift
""",
    "zeros at the start of a last layer": """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    nn.init.zeros_(model[2].weight); nn.init.zeros_(model[2].bias)
    def step():
        return F.cross_entropy(model(x), labels)
""",
    "a magnitude of complex numbers": """
    model = nn.Linear(4, 4)
    def step():
        return F.mse_loss(torch.fft.fft(model(x)).abs().mean(1, keepdim=True), y)
""",
    "a masked loss divided by its mask": """
    model = nn.Linear(4, 1)
    mask = (torch.arange(16) < 11).float().unsqueeze(1)
    def step():
        return ((model(x) - y).square() * mask).sum() / mask.sum()
""",
    "padding ignored everywhere": """
    table, head = nn.Embedding(9, 6, padding_idx=0), nn.Linear(6, 9)
    tokens = torch.tensor([[3, 4, 5, 0, 0], [1, 2, 3, 4, 0]])
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True)
    def step():
        h = layer(table(tokens), src_key_padding_mask=tokens == 0)
        return F.cross_entropy(head(h).flatten(0, 1), tokens.flatten(), ignore_index=0)
""",
    "dropout in a checkpointed part": """
    from torch.utils.checkpoint import checkpoint
    body, head = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU()), nn.Linear(8, 1)
    def step():
        return F.mse_loss(head(checkpoint(body, x, use_reentrant=False)), y)
""",
    "a linear model by hand": """
    w, b = torch.zeros(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    def step():
        return (x @ w + b - y).pow(2).mean()
""",
    "logistic regression by logsigmoid": """
    w = torch.randn(4, requires_grad=True)
    signs = torch.where(labels > 0, 1.0, -1.0)
    def step():
        return -F.logsigmoid(signs * (x @ w)).mean()
""",
    "ridge in closed form": """
    features = nn.Linear(4, 6)
    def step():
        h = features(x).tanh()
        w = torch.linalg.solve(h.T @ h + 0.1 * torch.eye(6), h.T @ y)
        return F.mse_loss(h @ w, y)
""",
    "quantile regression": """
    model, levels = nn.Linear(4, 3), torch.tensor([0.1, 0.5, 0.9])
    def step():
        error = y - model(x)
        return torch.maximum(levels * error, (levels - 1) * error).mean()
""",
    "a mixture density": """
    model = nn.Linear(4, 9)
    def step():
        weight, mean, log_scale = model(x).chunk(3, 1)
        log_prob = torch.distributions.Normal(mean, log_scale.exp()).log_prob(y)
        return -(weight.log_softmax(1) + log_prob).logsumexp(1).mean()
""",
    "ordinal regression": """
    model, cuts = nn.Linear(4, 1), nn.Parameter(torch.tensor([-1.0, 1.0]))
    def step():
        return F.binary_cross_entropy_with_logits(
            model(x) - cuts, (labels.unsqueeze(1) > torch.arange(2)).float())
""",
    "label smoothing by hand": """
    model = nn.Linear(4, 3)
    def step():
        logs = model(x).log_softmax(1)
        return -(0.9 * logs.gather(1, labels.unsqueeze(1)).squeeze(1) + 0.1 * logs.mean(1)).mean()
""",
    "focal loss": """
    model = nn.Linear(4, 3)
    def step():
        nll = F.cross_entropy(model(x), labels, reduction="none")
        return ((1 - (-nll).exp()) ** 2 * nll).mean()
""",
    "mixup": """
    model = nn.Linear(4, 3)
    def step():
        order, share = torch.randperm(16), 0.3
        scores = model(share * x + (1 - share) * x[order])
        return share * F.cross_entropy(scores, labels) + (1 - share) * F.cross_entropy(
            scores, labels[order])
""",
    "a triplet of views": """
    model = nn.Linear(4, 5)
    def step():
        a, b, c = model(x), model(x + 0.1 * torch.randn_like(x)), model(x.roll(1, 0))
        return F.triplet_margin_loss(a, b, c)
""",
    "supervised contrast": """
    model = nn.Linear(4, 5)
    def step():
        z = F.normalize(model(x), dim=1)
        scores = (z @ z.T / 0.1).masked_fill(torch.eye(16, dtype=torch.bool), -1e9)
        same = (labels.unsqueeze(0) == labels.unsqueeze(1)).float().fill_diagonal_(0)
        return -(scores.log_softmax(1) * same).sum(1).div(same.sum(1).clamp(min=1)).mean()
""",
    "Barlow twins": """
    model = nn.Linear(4, 5)
    def step():
        a, b = (model(x + 0.1 * torch.randn_like(x)) for _ in range(2))
        a, b = ((h - h.mean(0)) / (h.std(0) + 1e-5) for h in (a, b))
        c = a.T @ b / 16
        off = c.pow(2).sum() - c.diagonal().pow(2).sum()
        return (c.diagonal() - 1).pow(2).sum() + 0.005 * off
""",
    "SimSiam": """
    import copy
    encoder, predictor = nn.Linear(4, 5), nn.Linear(5, 5)
    def step():
        a, b = encoder(x), encoder(x + 0.1 * torch.randn_like(x))
        return -(F.cosine_similarity(predictor(a), b.detach()).mean()
                 + F.cosine_similarity(predictor(b), a.detach()).mean()) / 2
""",
    "instances of a bag with attention": """
    body, score, head = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
    def step():
        h = body(x).tanh()
        return F.binary_cross_entropy_with_logits(head((score(h).softmax(0) * h).sum(0)), y[0] > 0)
""".replace("y[0] > 0", "(y[0] > 0).float()"),
    "attention over a memory of examples": """
    body, head = nn.Linear(4, 6), nn.Linear(6, 3)
    memory = torch.randn(20, 6)
    def step():
        h = body(x)
        return F.cross_entropy(head((h @ memory.T).softmax(1) @ memory + h), labels)
""",
    "prototypes": """
    body = nn.Linear(4, 6)
    kinds = torch.arange(3).repeat(6)[:16]
    def step():
        h = body(x)
        centres = torch.stack([h[kinds == k][:2].mean(0) for k in range(3)])
        return F.cross_entropy(-torch.cdist(h, centres), kinds)
""",
    "a graph convolution": """
    one, two = nn.Linear(4, 6), nn.Linear(6, 3)
    links = (torch.rand(16, 16) < 0.2).float() + torch.eye(16)
    links = links / links.sum(1, keepdim=True)
    def step():
        return F.cross_entropy(links @ two(torch.relu(links @ one(x))), labels)
""",
    "message passing by index_add": """
    one, two = nn.Linear(4, 6), nn.Linear(6, 3)
    source, to = torch.randint(0, 16, (40,)), torch.randint(0, 16, (40,))
    def step():
        h = one(x)
        return F.cross_entropy(two(h + torch.zeros_like(h).index_add(0, to, h[source])), labels)
""",
    "patches by unfold": """
    images, body, head = torch.randn(16, 1, 8, 8), nn.Linear(16, 6), nn.Linear(6, 3)
    def step():
        patches = F.unfold(images, 4, stride=4).transpose(1, 2)
        return F.cross_entropy(head(body(patches).relu().mean(1)), labels)
""",
    "patches by view and permute": """
    images, body, head = torch.randn(16, 1, 8, 8), nn.Linear(16, 6), nn.Linear(6, 3)
    def step():
        patches = images.view(16, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(16, 4, 16)
        return F.cross_entropy(head(body(patches).relu().mean(1)), labels)
""",
    "pixel shuffle": """
    images, body = torch.randn(4, 3, 4, 4), nn.Conv2d(3, 12, 3, padding=1)
    wanted = torch.randn(4, 3, 8, 8)
    def step():
        return F.l1_loss(F.pixel_shuffle(body(images), 2), wanted)
""",
    "channels last": """
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(8, 3)).to(memory_format=torch.channels_last)
    images = torch.randn(16, 3, 6, 6).to(memory_format=torch.channels_last)
    def step():
        return F.cross_entropy(model(images), labels)
""",
    "a time-major tagger": """
    rnn, head = nn.LSTM(4, 6, bidirectional=True), nn.Linear(12, 3)
    series, tags = torch.randn(7, 5, 4), torch.randint(0, 3, (7, 5))
    def step():
        return F.cross_entropy(head(rnn(series)[0]).flatten(0, 1), tags.flatten())
""",
    "the last step of a recurrent layer": """
    rnn, head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)
    series = torch.randn(16, 7, 4)
    def step():
        return F.cross_entropy(head(rnn(series)[0][:, -1]), labels)
""",
    "a causal language model": """
    table, head = nn.Embedding(9, 8), nn.Linear(8, 9)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    tokens = torch.randint(0, 9, (4, 6))
    def step():
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        scores = head(layer(table(tokens[:, :-1]), src_mask=mask, is_causal=True))
        return F.cross_entropy(scores.transpose(1, 2), tokens[:, 1:])
""",
    "masked tokens": """
    table, head = nn.Embedding(9, 8), nn.Linear(8, 9)
    tokens = torch.randint(1, 9, (8, 12))
    chosen = torch.rand(8, 12) < 0.4
    def step():
        h = table(tokens.masked_fill(chosen, 0))
        h = h + h.mean(1, keepdim=True)
        return F.cross_entropy(head(h)[chosen], tokens[chosen])
""",
    "a mean of bags by embedding_bag": """
    table, head = nn.EmbeddingBag(20, 6, padding_idx=0), nn.Linear(6, 3)
    tokens = torch.randint(0, 20, (16, 5))
    def step():
        return F.cross_entropy(head(table(tokens)), labels)
""",
    "a value network beside its target": """
    import copy
    value = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    target = copy.deepcopy(value).requires_grad_(False)
    def step():
        with torch.no_grad():
            wanted = y + 0.9 * target(x.roll(1, 0))
        return F.smooth_l1_loss(value(x), wanted)
""",
    "an average by swa_utils": """
    model = nn.Linear(4, 3)
    average = torch.optim.swa_utils.AveragedModel(model)
    def step():
        average.update_parameters(model)
        return F.cross_entropy(model(x), labels)
""",
    "proximal policy optimisation": """
    policy = nn.Linear(4, 3)
    with torch.no_grad():
        old = policy(x).log_softmax(1).gather(1, labels.unsqueeze(1))
    gains = torch.randn(16, 1)
    def step():
        new = policy(x + 0.01).log_softmax(1)
        ratio = (new.gather(1, labels.unsqueeze(1)) - old).exp()
        return -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
""",
    "an entropy bonus": """
    policy, gains = nn.Linear(4, 3), torch.randn(16)
    def step():
        spread = torch.distributions.Categorical(logits=policy(x))
        return -(spread.log_prob(labels) * gains).mean() - 0.01 * spread.entropy().mean()
""",
    "a diffusion step": """
    model = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 4))
    def step():
        time, noise = torch.rand(16, 1), torch.randn_like(x)
        mixed = (1 - time).sqrt() * x + time.sqrt() * noise
        return F.mse_loss(model(torch.cat([mixed, time], 1)), noise)
""",
    "a flow by log determinants": """
    scale, shift = nn.Linear(2, 2), nn.Linear(2, 2)
    def step():
        one, two = x.chunk(2, 1)
        s = scale(one).tanh()
        z = torch.cat([one, two * s.exp() + shift(one)], 1)
        return (0.5 * z.pow(2).sum(1) - s.sum(1)).mean()
""",
    "a Stiefel penalty": """
    model, head = nn.Linear(4, 4, bias=False), nn.Linear(4, 3)
    def step():
        w = model.weight
        return F.cross_entropy(head(model(x)), labels) + (w @ w.T - torch.eye(4)).pow(2).sum()
""",
    "a fixed scale in a buffer": """
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("std", torch.ones(4))
        def forward(self, v):
            return self.linear((v - self.mean) / self.std)
    model = Scaled()
    def step():
        return F.mse_loss(model(x), y)
""",
    "weights from the data": """
    model, rare = nn.Linear(4, 3), torch.tensor([1.0, 5.0, 2.0])
    def step():
        return F.cross_entropy(model(x), labels, weight=rare)
""",
    "three heads with weights": """
    body = nn.Linear(4, 8)
    heads = nn.ModuleDict({name: nn.Linear(8, 1) for name in ("a", "b", "c")})
    def step():
        h = body(x).relu()
        losses = {name: F.mse_loss(head(h), y) for name, head in heads.items()}
        return sum(w * each for w, each in zip((1.0, 0.5, 0.0), losses.values()))
""",
    "gradients of each example": """
    model = nn.Linear(4, 3)
    held = {k: v.detach() for k, v in model.named_parameters()}
    def one(weights, v, label):
        return F.cross_entropy(torch.func.functional_call(model, weights, v[None]), label[None])
    def step():
        sizes = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(held, x, labels)
        weight = 1 / (1 + sizes["weight"].flatten(1).norm(dim=1))
        return (weight * F.cross_entropy(model(x), labels, reduction="none")).mean()
""",
    "a reconstruction of only some entries": """
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4))
    known = torch.rand(16, 4) < 0.7
    def step():
        return F.mse_loss(model(x)[known], x[known])
""",
    "complex signals": """
    filters = nn.Parameter(torch.randn(5, dtype=torch.complex64))
    signals = torch.randn(16, 8)
    def step():
        return torch.fft.irfft(torch.fft.rfft(signals) * filters, n=8).pow(2).mean()
""",
    "tied heads in a list": """
    table = nn.Embedding(12, 6)
    head = nn.Linear(6, 12, bias=False)
    head.weight = table.weight
    tokens = torch.randint(0, 12, (5, 7))
    def step():
        return F.cross_entropy(head(table(tokens)).flatten(0, 1), tokens.roll(-1, 1).flatten())
""",
}

DATA = """
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    labels = torch.randint(0, 3, (16,))
"""

for name, source in STYLES.items():
    healthy(name, DATA + source)
