"""Broken scripts about hooks, passes, precision and memory; see `broken_scripts`."""

from __future__ import annotations

from broken_scripts import broken

broken(
    "clipping before backward",
    "large",
    "check the scale",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        loss = F.mse_loss(model(x * 1e4), y)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss
""",
)
broken(
    "a step of GradScaler without unscale",
    "clipped",
    "times smaller",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    def step():
        return scaler.scale(F.mse_loss(model(x), y))
""",
    after="nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
)
broken(
    "a scaled loss that overflows",
    "nan",
    "Inf is born here",
    """
    model = nn.Linear(4, 1).half()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x.half()) * 100, y.half()) * 65536  # HERE
""",
)
broken(
    "log under autocast of a half",
    "nan",
    "LogBackward0|which took zeros",
    """
    model = nn.Linear(4, 3)
    def step():
        p = model(x * 30).half().softmax(1)
        return -torch.log(p + 1e-8)[torch.arange(16), labels].mean()  # HERE
""",
)
broken(
    "an accumulated loss that is backwarded twice",
    "no-backward",
    "has freed saved tensors of this graph",
    """
    model = nn.Linear(4, 1)
    total = 0
    for part in x.chunk(2):
        total = total + model(part).pow(2).mean()
        if part is not None and total.grad_fn is not None and not hasattr(model, "done"):
            total.backward()
            model.done = True
    def step():
        return total
""",
)
broken(
    "an LSTM's state from the last batch",
    "freed",
    "keep .detach() of it",
    """
    rnn, head = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 1)
    _, state = rnn(torch.randn(2, 5, 4))
    (state[0].sum() + state[1].sum()).backward()
    def step():
        out, _ = rnn(torch.randn(2, 5, 4), state)
        return head(out).mean()
""",
)
broken(
    "truncation at each time step",
    "cut",
    "detach()|cell.weight_hh",
    """
    cell, head = nn.GRUCell(4, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
    def step():
        h = torch.zeros(16, 3)
        for _ in range(4):
            h = cell(x, h).detach()  # HERE
        return F.mse_loss(head(h), y)
""",
)
broken(
    "a decorator no_grad on forward",
    "cut",
    "model.enc.weight|inside of enc, torch did not record|grad mode was off",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
        @torch.no_grad()
        def encode(self, x): return torch.tanh(self.enc(x))  # HERE
        def forward(self, x): return self.head(self.encode(x))
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "features from inference_mode",
    "cut",
    "inference_mode()|enc.weight",
    """
    enc, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*enc.parameters(), *head.parameters()], 0.1)
    def step():
        with torch.inference_mode():
            h = enc(x)  # HERE
        return F.mse_loss(head(h.clone()), y)
""",
)
broken(
    "a reentrant checkpoint without an input that requires grad",
    "no-grad",
    "use_reentrant=False",
    """
    from torch.utils.checkpoint import checkpoint
    enc, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*enc.parameters(), *head.parameters()], 0.1)
    def step():
        h = checkpoint(enc, x, use_reentrant=True)
        return F.mse_loss(head(h), y)
""",
)
broken(
    "a Function without a gradient for its weight",
    "no-grad",
    "model.w|LinBackward|returned None",
    """
    class Lin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v, w):
            ctx.save_for_backward(v, w)
            return v @ w.T
        @staticmethod
        def backward(ctx, g):
            v, w = ctx.saved_tensors
            return g @ w, None
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(1, 4))
            self.pre = nn.Linear(4, 4)
        def forward(self, x): return Lin.apply(self.pre(x), self.w)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a Function that uses a Parameter it was not given",
    "no-grad",
    "to apply() as an input",
    """
    w = nn.Parameter(torch.randn(4, 1))
    pre = nn.Linear(4, 4)
    optimizer = torch.optim.SGD([w, *pre.parameters()], 0.1)
    class Mul(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v): return v @ w
        @staticmethod
        def backward(ctx, g): return g @ w.T
    def step():
        return F.mse_loss(Mul.apply(pre(x)), y)
""",
)
broken(
    "a forward hook that detaches",
    "cut",
    "detach()|inside of Sequential, detach()",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model[1].register_forward_hook(lambda m, i, o: o.detach())  # HERE
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "requires_grad_ on a result that has none",
    "frozen",
    "An optimizer holds model.weight",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.requires_grad_(False)
    def step():
        loss = F.mse_loss(model(x), y)
        loss.requires_grad = True
        return loss
""",
    also=("leaf",),
)
broken(
    "zero_grad that sets zeros between backward and step",
    "cleared",
    "zero_grad()",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
    after="optimizer.zero_grad(set_to_none=False)",
)
broken(
    "a group with a learning rate of zero",
    "optimizer",
    "learning rate of model.0.bias and model.0.weight is 0",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}], 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "the model frozen by a typo in requires_grad",
    "frozen",
    "enc.requires_grad was set to False|requires_grad_(False)",
    """
    enc, head = nn.Linear(4, 4), nn.Linear(4, 1)
    enc.requires_grad = False
    for p in head.parameters():
        p.require_grad = False
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    def step():
        return F.mse_loss(head(enc(x)), y)
""",
)
