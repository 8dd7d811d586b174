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
