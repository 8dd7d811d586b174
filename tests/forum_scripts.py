"""More training scripts that are broken as those in forums are; see `broken_scripts`.

They are about what a loss is given, where gradients became zero, and whose parameters are learned.
"""

from __future__ import annotations

from broken_scripts import broken

broken(
    "relu before cross entropy",
    "bounded logits",
    "no number below 0|leave out the relu",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.ReLU())
    def step():
        return F.cross_entropy(model(x), labels)  # HERE
""",
)
broken(
    "relu before bce with logits",
    "bounded logits",
    "no probability can be below 0.5",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.ReLU())
    t = (y > 0).float()
    def step():
        return F.binary_cross_entropy_with_logits(model(x), t)  # HERE
""",
)
broken(
    "sigmoid before cross entropy",
    "bounded logits",
    "of 3 classes none can get a probability above 0.577",
    """
    model = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid())
    def step():
        return F.cross_entropy(model(x), labels)  # HERE
""",
)
broken(
    "kl_div given probabilities",
    "no log probabilities",
    "the probabilities themselves|log_softmax()",
    """
    model = nn.Linear(4, 3)
    wanted = torch.randn(16, 3).softmax(1)
    def step():
        return F.kl_div(model(x).softmax(1), wanted, reduction="batchmean")  # HERE
""",
)
broken(
    "kl_div target are logs",
    "target",
    "log_target=True",
    """
    model = nn.Linear(4, 3)
    wanted = torch.randn(16, 3).log_softmax(1)
    def step():
        return F.kl_div(model(x).log_softmax(1), wanted, reduction="batchmean")  # HERE
""",
    also=("nan",),
)
broken(
    "kl_div log_target of probabilities",
    "target",
    "leave out log_target=True",
    """
    model = nn.Linear(4, 3)
    wanted = torch.randn(16, 3).softmax(1)
    def step():
        given = model(x).log_softmax(1)
        return F.kl_div(given, wanted, reduction="batchmean", log_target=True)  # HERE
""",
)
broken(
    "dqn target not detached",
    "target",
    "also sends a gradient into its target|detach()",
    """
    q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(q.parameters())
    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    a = torch.randint(0, 2, (16, 1))
    def step():
        now = q(s).gather(1, a).squeeze(1)
        target = r + 0.9 * q(s2).max(1).values
        return F.smooth_l1_loss(now, target)  # HERE
""",
)
broken(
    "softmax over examples by hand",
    "softmax of examples",
    "along dimension 0, of 16|LogBackward0",
    """
    model = nn.Linear(4, 3)
    def step():
        p = torch.softmax(model(x), dim=0)  # HERE
        return -torch.log(p[torch.arange(16), labels]).mean()
""",
)
broken(
    "a huge loss",
    "large",
    "times that of the parameters themselves",
    """
    model = nn.Linear(4, 1)
    target = y * 1e8
    def step():
        return F.mse_loss(model(x), target)
""",
)
broken(
    "bce with targets of -1",
    "target",
    "from -1 to 1",
    """
    model = nn.Linear(4, 1)
    t = torch.where(y > 0, 1.0, -1.0)
    def step():
        return F.binary_cross_entropy_with_logits(model(x), t)  # HERE
""",
)
broken(
    "optimizer before the model is made again",
    "optimizer",
    "4 tensors that it holds",
    """
    def make(): return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model = make()
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a layer made in each forward",
    "optimizer",
    "model.fc.weight",
    """
    class Net(nn.Module):
        def forward(self, x):
            self.fc = nn.Linear(4, 1)
            return self.fc(x)
    model = Net()
    model(x)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "in-place relu after a sigmoid",
    "changed",
    "SigmoidBackward0|by relu at",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True), nn.Linear(4, 1))
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "reparametrization forgotten",
    "cut",
    "enc.weight and enc.bias|no_grad",
    """
    enc, dec = nn.Linear(4, 4), nn.Linear(2, 4)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        mu, lv = enc(x).chunk(2, 1)
        z = torch.distributions.Normal(mu, (lv / 2).exp()).sample()  # HERE
        return F.mse_loss(dec(z), x)
""",
)
broken(
    "torch.normal of mean and std",
    "zero",
    "drawn at random|rsample()",
    """
    enc, dec = nn.Linear(4, 4), nn.Linear(2, 4)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        mu, lv = enc(x).chunk(2, 1)
        z = torch.normal(mu, (lv / 2).exp())  # HERE
        return F.mse_loss(dec(z), x)
""",
)
broken(
    "torch.bernoulli of learned probabilities",
    "zero",
    "drawn at random|gumbel_softmax()",
    """
    enc, dec = nn.Linear(4, 2), nn.Linear(2, 4)
    def step():
        gate = torch.bernoulli(torch.sigmoid(enc(x)))  # HERE
        return F.mse_loss(dec(gate), x)
""",
)
broken(
    "threshold by comparison",
    "cut",
    "an operation that gives integers|model.weight",
    """
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        h = (model(x) > 0).float()  # HERE
        return F.mse_loss(head(h), y)
""",
)
broken(
    "floor division",
    "no grad",
    "has no derivative in torch",
    """
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        return F.mse_loss(head(model(x) // 0.1), y)
""",
)
broken(
    "div with rounding mode",
    "zero",
    "the same for inputs that differ a little",
    """
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        return F.mse_loss(head(torch.div(model(x), 0.1, rounding_mode="trunc")), y)  # HERE
""",
)
broken(
    "cast to int and back",
    "cut",
    "a cast to integers|model.weight",
    """
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        h = (model(x) * 255).int().float() / 255  # HERE
        return F.mse_loss(head(h), y)
""",
)
broken(
    "norm of a zero difference by hand",
    "nan",
    "is born|zero",
    """
    model = nn.Linear(4, 2)
    def step():
        z = model(x)
        d = ((z[:, None] - z[None]) ** 2).sum(-1).sqrt()  # HERE
        return d.mean()
""",
)
broken(
    "std of one number",
    "nan",
    "StdBackward0",
    """
    model = nn.Linear(4, 1)
    def step():
        return model(x[:1]).std() + F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "std of equal numbers",
    "zero",
    "StdBackward0|passed on zeros to AddmmBackward0",
    """
    model = nn.Linear(4, 3)
    nn.init.zeros_(model.weight); nn.init.zeros_(model.bias)
    def step():
        return model(x).std(1).mean()  # HERE
""",
)
broken(
    "log of a sigmoid by hand",
    "nan",
    "which took zeros",
    """
    model = nn.Linear(4, 1)
    big = x * 1000
    t = (y > 0).float()
    def step():
        p = torch.sigmoid(model(big))
        return -(t * p.log() + (1 - t) * (1 - p).log()).mean()  # HERE
""",
)
broken(
    "eigenvectors of equal eigenvalues",
    "nan",
    "is born",
    """
    w = nn.Parameter(torch.eye(3))
    def step():
        return torch.linalg.eigh(w + w.T).eigenvectors.abs().sum()  # HERE
""",
)
broken(
    "float16 underflow of the loss",
    "zero",
    "too small|scale the loss",
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).half()
    data, target = x.half(), y.half()
    def step():
        return F.mse_loss(model(data), target) * 1e-7  # HERE
""",
)
broken(
    "a hook that zeroes",
    "zero",
    "a hook between them",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    def step():
        h = model[:2](x)  # HERE
        h.register_hook(lambda g: g * 0)
        return F.mse_loss(model[2](h), y)
""",
)
broken(
    "a hook on the parameter that zeroes",
    "zero",
    "a hook between them|model.0.weight",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model[0].weight.register_hook(lambda g: torch.zeros_like(g))
    def step():
        return F.mse_loss(model(x), y)
""",
)
broken(
    "a full backward hook that zeroes",
    "zero",
    "a backward hook of a module",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model[1].register_full_backward_hook(lambda m, gi, go: (torch.zeros_like(gi[0]),))
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "a Function that returns None",
    "no grad",
    "ClipBackward|got one and passed none on there",
    """
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v): return v.clamp(-1, 1)
        @staticmethod
        def backward(ctx, g): return None
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        return F.mse_loss(head(Clip.apply(model(x))), y)
""",
)
broken(
    "a Function that returns zeros",
    "zero",
    "the backward of Clip made it so",
    """
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v): return v.clamp(-1, 1)
        @staticmethod
        def backward(ctx, g): return torch.zeros_like(g)
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    def step():
        return F.mse_loss(head(Clip.apply(model(x))), y)  # HERE
""",
)
broken(
    "gradient penalty without create_graph",
    "cut",
    "without create_graph=True",
    """
    D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    real, fake = torch.randn(16, 4), torch.randn(16, 4)
    def step():
        m = (0.5 * real + 0.5 * fake).requires_grad_()
        (g,) = torch.autograd.grad(D(m).sum(), m)  # HERE
        return D(fake).mean() - D(real).mean() + 10 * ((g.norm(dim=1) - 1) ** 2).mean()
""",
)
broken(
    "PINN without create_graph",
    "freed",
    "create_graph=True, if its derivative belongs to the loss",
    """
    u = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    t = torch.linspace(0, 1, 16)[:, None].requires_grad_()
    def step():
        f = u(t)  # HERE
        (d,) = torch.autograd.grad(f.sum(), t)
        return (d + f).pow(2).mean()
""",
)
broken(
    "stale params of functional_call",
    "no grad",
    "holds the same numbers|functional_call",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    params = {k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(torch.func.functional_call(model, params, (x,)), y)
""",
)
broken(
    "Parameter cast is no Parameter",
    "not a leaf",
    "model.w is not a leaf|make the Parameter last",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 1)).double()
        def forward(self, x): return x.double() @ self.w
    model = Net()
    def step():
        return F.mse_loss(model(x), y.double())
""",
)
broken(
    "Parameter times 0.01",
    "not a leaf",
    "w is not a leaf|w.grad stays None",
    """
    w = nn.Parameter(torch.randn(4, 1)) * 0.01
    def step():
        return F.mse_loss(x @ w, y)
""",
)
broken(
    "the generator's step with the fake detached",
    "cut",
    "detach()|G.weight and G.bias",
    """
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(G.parameters())
    def step():
        fake = G(torch.randn(16, 2)).detach()  # HERE
        return F.binary_cross_entropy_with_logits(D(fake), torch.ones(16, 1))
""",
    also=("optimizer",),
)
broken(
    "the wrong branch detached",
    "cut",
    "detach()|online.weight",
    """
    online, predictor = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.1)
    def step():
        a = predictor(online(x).detach())  # HERE
        return -F.cosine_similarity(a, torch.randn(16, 4)).mean()
""",
)
broken(
    "zero_grad between backward and step",
    "cleared",
    "zero_grad()",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(model(x), y)
""",
    after="optimizer.zero_grad()",
)
broken(
    "the loss of another model",
    "no grad",
    "best.weight|holds the same numbers",
    """
    import copy
    model = nn.Linear(4, 1)
    best = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        return F.mse_loss(best(x), y)
""",
    also=("optimizer",),
)
broken(
    "a tied head, broken by deepcopy",
    "tied",
    "embed.weight|head.weight",
    """
    import copy
    embed = nn.Embedding(3, 4)
    head = nn.Linear(4, 3, bias=False)
    head.weight = embed.weight
    head = copy.deepcopy(head)
    def step():
        return F.cross_entropy(head(embed(labels)), labels)
""",
)
broken(
    "clamped loss",
    "zero",
    "outside of its range to 1",
    """
    model = nn.Linear(4, 1)
    def step():
        return torch.clamp(F.mse_loss(model(x), y * 100), max=1.0)  # HERE
""",
)
broken(
    "a margin ranking of itself",
    "zero",
    "by several ways adds up to zero",
    """
    model = nn.Linear(4, 2)
    def step():
        z = model(x)  # HERE
        return F.triplet_margin_loss(z, z, z)
""",
)
broken(
    "mean of an empty mask",
    "nan",
    "averages over no number",
    """
    model = nn.Linear(4, 1)
    def step():
        out = model(x)
        return F.mse_loss(out[y > 100], y[y > 100])  # HERE
""",
)
broken(
    "cross entropy with every label ignored",
    "nan",
    "each is -100, its ignore_index",
    """
    model = nn.Linear(4, 3)
    ignored = torch.full((16,), -100)
    def step():
        return F.cross_entropy(model(x), ignored, ignore_index=-100)  # HERE
""",
    also=("zero",),
)
broken(
    "an integer division of the epoch",
    "zero",
    "zero everywhere",
    """
    model = nn.Linear(4, 1)
    epoch, epochs = 3, 10
    def step():
        return F.mse_loss(model(x), y) * (epoch // epochs)  # HERE
""",
)
broken(
    "layer used but its result dropped",
    "no grad",
    "a.weight and model.a.bias",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
        def forward(self, x):
            torch.relu(self.a(x))
            return self.b(x)
    model = Net()
    def step():
        return F.mse_loss(model(x), y)
""",
)
