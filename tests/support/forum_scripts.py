"""More training scripts that are broken as those in forums are; see `broken_scripts`.

They are about where gradients became zero, NaN or none, and whose parameters are learned.
"""

from __future__ import annotations

from broken_scripts import broken

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
    "no-grad",
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
    "StdBackward0|its derivative is zero",
    """
    model = nn.Linear(4, 3)
    nn.init.zeros_(model.weight); nn.init.zeros_(model.bias)
    def step():
        return model(x).std(1).mean()  # HERE
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
    "a hook that zeroes",
    "zero",
    "A hook between them",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    def step():
        h = model[:2](x)  # HERE
        h.register_hook(lambda g: g * 0)
        return F.mse_loss(model[2](h), y)
""",
)
broken(
    "a full backward hook that zeroes",
    "zero",
    "A backward hook of a module",
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model[1].register_full_backward_hook(lambda m, gi, go: (torch.zeros_like(gi[0]),))
    def step():
        return F.mse_loss(model(x), y)  # HERE
""",
)
broken(
    "a Function that returns None",
    "no-grad",
    "ClipBackward|got one and passed none on",
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
    "The backward of Clip made them zero",
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
    "create_graph=True there",
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
    "Parameter cast is no Parameter",
    "not-a-leaf",
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
    "an integer division of the epoch",
    "zero",
    "multiplies by 0",
    """
    model = nn.Linear(4, 1)
    epoch, epochs = 3, 10
    def step():
        return F.mse_loss(model(x), y) * (epoch // epochs)  # HERE
""",
)
broken(
    "layer used but its result dropped",
    "no-grad",
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
broken(
    "np.mean of losses",
    "no-grad",
    "NumPy array|which ends the graph",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        parts = [F.mse_loss(model(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
        losses = [part.detach().numpy() for part in parts]  # HERE
        return torch.tensor(np.mean(losses), requires_grad=True)
""",
    also=("leaf",),
)
broken(
    "the target compared with itself",
    "zero",
    "MseLossBackward0",
    """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        out = model(x)
        return F.mse_loss(out, out)  # HERE
""",
)
broken(
    "softmax of a single logit",
    "zero",
    "a dimension of one number",
    """
    model = nn.Linear(4, 1)
    def step():
        p = torch.softmax(model(x), dim=1)  # HERE
        return F.binary_cross_entropy(p, (y > 0).float())
""",
)
broken(
    "BCE with class numbers",
    "target",
    "from 0 to 2",
    """
    model = nn.Linear(4, 1)
    def step():
        return F.binary_cross_entropy_with_logits(model(x), labels[:, None].float())  # HERE
""",
)
broken(
    "clamped probabilities",
    "zero",
    "outside of its range from 1e-06",
    """
    model = nn.Linear(4, 1)
    nn.init.constant_(model.bias, 50.0)
    def step():
        p = torch.sigmoid(model(x)).clamp(1e-6, 1 - 1e-6)  # HERE
        return -torch.log(p).mean()
""",
)
broken(
    "acos at one",
    "nan",
    "AcosBackward0|is born",
    """
    model = nn.Linear(4, 3)
    def step():
        z = F.normalize(model(x), dim=1)
        return torch.acos((z * z).sum(1).clamp(-1, 1)).mean()  # HERE
""",
)
broken(
    "atan2 at the origin",
    "zero",
    "Atan2Backward0",
    """
    model = nn.Linear(4, 2)
    nn.init.zeros_(model.weight); nn.init.zeros_(model.bias)
    def step():
        z = model(x)
        return torch.atan2(z[:, 0], z[:, 1]).sum()  # HERE
""",
)
broken(
    "a power of a negative number",
    "nan",
    "PowBackward0|has NaN in it",
    """
    model = nn.Linear(4, 1)
    def step():
        return model(x).pow(0.5).mean()  # HERE
""",
)
broken(
    "zero times infinity in a mask",
    "nan",
    "mask has -Inf in it",
    """
    model = nn.Linear(4, 3)
    mask = torch.zeros(16, 3)
    mask[:, 0] = float("-inf")
    def step():
        z = model(x) + mask
        p = z.softmax(1)
        return -(p * z).sum(1).mean()  # HERE
""",
)
broken(
    "one hot of a rounded output",
    "cut",
    "was cast to integers|model.weight",
    """
    model, head = nn.Linear(4, 1), nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    def step():
        k = model(x).squeeze(1).round().clamp(0, 4).long()  # HERE
        return F.mse_loss(head(F.one_hot(k, 5).float()), y)
""",
)
broken(
    "indices that are learned",
    "cut",
    "place was cast to integers",
    """
    table = nn.Embedding(8, 4)
    place = nn.Parameter(torch.rand(16) * 7)
    head = nn.Linear(4, 1)
    optimizer = torch.optim.SGD([place, *table.parameters(), *head.parameters()], 0.1)
    def step():
        return F.mse_loss(head(table(place.long())), y)  # HERE
""",
)
broken(
    "a threshold read as a number",
    "cut",
    "Python numbers|limit",
    """
    model = nn.Linear(4, 1)
    limit = nn.Parameter(torch.tensor(0.5))
    optimizer = torch.optim.SGD([*model.parameters(), limit], 0.1)
    def step():
        return F.mse_loss(model(x).clamp(max=float(limit)), y)  # HERE
""",
)
