"""Scripts whose gradients exist and are wrong, found by facts of the recorded pass."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "a view where a transpose was meant",
    "mixed-rows",
    "Examples mix|transpose()",
    """
    model = nn.Linear(4, 3)
    labels = torch.randint(0, 3, (16,))
    def step():
        scores = model(x).view(3, 16).t()  # HERE
        return F.cross_entropy(scores, labels)
""",
)
broken(
    "batch_first forgotten",
    "mixed-rows",
    "10 steps|batch_first=True",
    """
    rnn, head = nn.LSTM(4, 8), nn.Linear(8, 3)
    x, labels = torch.randn(10, 6, 4), torch.randint(0, 3, (10,))
    def step():
        return F.cross_entropy(head(rnn(x)[0][:, -1]), labels)
""",
)
broken(
    "noise that is infinite",
    "nan",
    "gumbel has -Inf|gumbel = -torch.log(-torch.log(u))|A softmax of a row of -Inf",
    """
    model = nn.Linear(4, 3)
    def step():
        global gumbel
        u = torch.zeros(16, 3)
        gumbel = -torch.log(-torch.log(u))
        return (model(x) + gumbel).softmax(-1).pow(2).mean()  # HERE
""",
)
broken(
    "scores too large for half precision",
    "nan",
    "float16 ends at 65504|scores = q @ q.transpose(1, 2) * 8",
    """
    q = (torch.randn(2, 3, 8) * 100).half().requires_grad_()
    def step():
        scores = q @ q.transpose(1, 2) * 8  # HERE
        return (scores.softmax(-1) @ q).float().pow(2).mean()
""",
)
broken(
    "the deviation of one number",
    "nan",
    "the deviation of 1 number|correction=0",
    """
    model = nn.Linear(4, 1)
    def step():
        return (model(x).std(dim=1) + 1).sum()  # HERE
""",
)
broken(
    "a weight that a step made infinite",
    "nan",
    "model.weight has Inf in it before this forward pass",
    """
    model = nn.Linear(4, 3)
    model.weight.data[0, 0] = float("inf")
    def step():
        return model(x - x).softmax(-1).pow(2).sum()
""",
)
broken(
    "more labels than frames",
    "zero",
    "ctc_loss()|infinite for all 4 sequences|8 labels in 6 frames",
    """
    scores = torch.randn(6, 4, 11, requires_grad=True)
    def step():
        lengths = torch.full((4,), 6), torch.full((4,), 8)
        return F.ctc_loss(  # HERE
            scores.log_softmax(-1), torch.randint(1, 11, (4, 8)), *lengths, zero_infinity=True)
""",
)
broken(
    "the last step of sequences that are not sorted",
    "padding",
    "lengths - 1",
    """
    rnn, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)
    x, lengths = torch.randn(8, 10, 4), torch.tensor([10, 3, 4, 5, 2, 6, 3, 7])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    def step():
        out, _ = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], batch_first=True)
        return F.cross_entropy(head(out[:, -1]), torch.randint(3, (8,)))  # HERE
""",
)
broken(
    "shallow copies",
    "shared-module",
    "model.0, model.1 and model.2|copy.copy()|2 parameters",
    """
    import copy
    block = nn.Linear(4, 4)
    model = nn.Sequential(*[copy.copy(block) for _ in range(3)], nn.Linear(4, 1))
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "an average that is the model",
    "shared-memory",
    "ema and model|copy.deepcopy()|2 parameters",
    """
    model = nn.Linear(4, 1)
    ema = model
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a target network by copy.copy",
    "shared-memory",
    "target and model|copy.deepcopy()|4 parameters",
    """
    import copy
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    target = copy.copy(model)
    def step():
        with torch.no_grad():
            wanted = y + 0.9 * target(x)
        return F.mse_loss(model(x), wanted)
""",
)
broken(
    "a best state that learns on",
    "shared-memory",
    "best is in the memory of model.weight and model.bias|state_dict()",
    """
    model = nn.Linear(4, 1)
    best = model.state_dict()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "old values that are the parameters",
    "shared-memory",
    "old is in the memory of model.weight",
    """
    model = nn.Linear(4, 1)
    old = [p.detach() for p in model.parameters()]
    def step():
        drift = sum((p - q).square().sum() for p, q in zip(model.parameters(), old))
        return F.mse_loss(model(x), y) + drift
""",
)
broken(
    "a prompt in the memory of the table",
    "shared-memory",
    "prompt and table.weight overlap|clone()",
    """
    table, head = nn.Embedding(20, 4), nn.Linear(4, 3)
    prompt = nn.Parameter(table.weight[:5])
    def step():
        rows = torch.cat([prompt.expand(16, 5, 4), table(torch.randint(20, (16, 6)))], 1)
        return F.cross_entropy(head(rows.mean(1)), labels)
""",
)
broken(
    "constant weights before a batch norm",
    "alike",
    "All 8 units of model.0.weight|at random",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    for layer in (model[0], model[3]):
        nn.init.constant_(layer.weight, 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a router that keeps its best expert",
    "alike",
    "divides 16 numbers by themselves|leave out the division",
    """
    router = nn.Linear(4, 3)
    experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))
    def step():
        weight, best = router(x).softmax(-1).topk(1)
        weight = weight / weight.sum(-1, keepdim=True)  # HERE
        results = torch.stack([each(x) for each in experts], 1)
        return F.mse_loss(weight * results.gather(1, best.unsqueeze(-1)).squeeze(1), y)
""",
    also=("zero",),
)
broken(
    "a complex number cast to real",
    "unused-result",
    "drops the imaginary part",
    """
    model = nn.Linear(4, 4)
    def step():
        h = torch.fft.fft(model(x)).to(torch.float32)  # HERE
        return F.mse_loss(h.mean(1, keepdim=True), y)
""",
)
broken(
    "a divergence that nobody adds",
    "unused-result",
    "kl requires grad|add it to the loss",
    """
    encode, decode = nn.Linear(4, 4), nn.Linear(2, 4)
    def step():
        global kl
        mean, log_var = encode(x).chunk(2, 1)
        kl = 0.5 * (mean.square() + log_var.exp() - log_var - 1).sum(1).mean()
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return F.mse_loss(decode(z), x)
""",
)
broken(
    "a scale that is a buffer",
    "unused-result",
    "model.scale is a buffer|nn.Parameter",
    """
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.register_buffer("scale", torch.ones(1))
        def forward(self, v):
            return self.linear(v) * self.scale  # HERE
    model = Scaled()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a head whose result is dropped",
    "no-grad",
    "although its module ran|does not use the result",
    """
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        def forward(self, v):
            h = self.body(v)
            return self.one(h), self.two(h)
    model = Two()
    def step():
        value, _ = model(x)
        return F.mse_loss(value, y)
""",
)
broken(
    "a mean of masked losses",
    "counting",
    "divides by all 16 entries|keeps 11 of them|mask.sum()",
    """
    model = nn.Linear(4, 1)
    mask = (torch.arange(16) < 11).float().unsqueeze(1)
    def step():
        return ((model(x) - y).square() * mask).mean()  # HERE
""",
)
TOKENS = """
    tokens = torch.tensor([[3, 4, 5, 0, 0], [1, 2, 3, 4, 0]])
    table, head = nn.Embedding(9, 6, padding_idx=0), nn.Linear(6, 9)
"""
broken(
    "a loss that counts padding",
    "counting",
    "3 of 10 targets are 0|ignore_index=0",
    TOKENS
    + """
    def step():
        scores = head(table(tokens).cumsum(1))
        return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())  # HERE
""",
)
broken(
    "a mean over positions with padding",
    "counting",
    "Padding takes part in the loss: 3 of 3 places",
    TOKENS
    + """
    def step():
        return F.cross_entropy(head(table(tokens).mean(1)), torch.tensor([1, 2]))
""",
)
broken(
    "an inverted padding mask",
    "counting",
    "leaves out 7 tokens|looks at all 3 places of padding|inverted",
    TOKENS
    + """
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    def step():
        h = table(tokens)
        h, _ = attention(h, h, h, key_padding_mask=tokens != 0)
        return F.cross_entropy(head(h.mean(1)), torch.tensor([1, 2]))
""",
    also=("zero",),
)
broken(
    "a padding_idx that is a word",
    "counting",
    "stands between other tokens 2 times",
    """
    tokens = torch.tensor([[3, 0, 5, 4, 1], [1, 2, 0, 4, 3]])
    table, head = nn.Embedding(9, 6, padding_idx=0), nn.Linear(6, 3)
    def step():
        h = table(tokens) * (tokens != 0).unsqueeze(2)
        return F.cross_entropy(head(h.sum(1)), torch.tensor([1, 2]))
""",
)
broken(
    "passes of uneven size in one step",
    "counting",
    "adds up 4 backward passes|40, 2, 3 and 39 targets|reduction='sum'",
    """
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        for count in (40, 2, 3, 39):
            targets = torch.full((40,), -100)
            targets[:count] = 1
            loss = F.cross_entropy(model(torch.randn(40, 4)), targets) / 4
            loss.backward()
        optimizer.step()  # HERE
        return loss
""",
)
PART = """
    from torch.utils.checkpoint import checkpoint
    body, head = nn.Sequential(nn.Linear(4, 8), {0}, nn.ReLU()), nn.Linear(8, 1)
    def step():
        return F.mse_loss(head(checkpoint(body, x, use_reentrant=False{1})), y)
"""
broken(
    "dropout that is drawn anew",
    "recomputed",
    "preserve_rng_state=False|draws random numbers|body.1",
    PART.format("nn.Dropout(0.5)", ", preserve_rng_state=False"),
)
broken(
    "a batch norm that is recomputed",
    "recomputed",
    "body.1|updates its running statistics",
    PART.format("nn.BatchNorm1d(8)", ""),
)
broken(
    "a cache that grows in a checkpoint",
    "recomputed",
    "block computed a tensor of shape (4, 8, 10) in place of (4, 8, 5)|outside of it",
    """
    from torch.utils.checkpoint import checkpoint
    cache, inner, keys = [], nn.Linear(4, 8), nn.Linear(8, 8)
    data = torch.randn(4, 5, 4)
    def block(h):
        cache.append(keys(h))
        k = torch.cat(cache, 1)
        return (h @ k.transpose(1, 2)).softmax(-1) @ k  # HERE
    def step():
        return checkpoint(block, inner(data), use_reentrant=False).pow(2).mean()
""",
    also=("backward-failed",),
)
broken(
    "a module in a checkpoint that changes its state",
    "recomputed",
    "computed other numbers|outside of it",
    """
    from torch.utils.checkpoint import checkpoint
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.register_buffer("mean", torch.zeros(4))
        def forward(self, h):
            h = self.fc(h)
            self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
            return torch.tanh(h - self.mean)  # HERE
    body, head = Centred(), nn.Linear(4, 1)
    def step():
        return F.mse_loss(head(checkpoint(body, x, use_reentrant=False)), y)
""",
)
