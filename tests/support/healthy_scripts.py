"""Training scripts as people write them with nothing wrong: only notes may be found in them."""

from __future__ import annotations

from textwrap import dedent

HEALTHY: dict[str, str] = {}


def healthy(name: str, source: str) -> None:
    """Enter a script, which defines ``step()``, giving its loss."""
    assert name not in HEALTHY
    HEALTHY[name] = IMPORTS + dedent(source)


IMPORTS = """\
import copy
import math
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
"""

healthy(
    "a variational autoencoder",
    """
    enc = nn.Linear(8, 8)
    dec = nn.Linear(4, 8)
    x = torch.rand(16, 8)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    def step():
        mu, lv = enc(x).chunk(2, 1)
        q = torch.distributions.Normal(mu, (lv / 2).exp())
        z = q.rsample()
        kl = (
            torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0))
            .sum(1)
            .mean()
        )
        return F.binary_cross_entropy_with_logits(dec(z), x) + kl
""",
)
healthy(
    "PPO",
    """
    class Agent(nn.Module):
        def __init__(s):
            super().__init__()
            s.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
            s.pi = nn.Linear(32, 2)
            s.v = nn.Linear(32, 1)
        def forward(s, x):
            h = s.body(x)
            return torch.distributions.Categorical(logits=s.pi(h)), s.v(h).squeeze(-1)
    agent = Agent()
    obs = torch.randn(64, 4)
    optimizer = torch.optim.Adam(agent.parameters())
    with torch.no_grad():
        d, v = agent(obs)
        act = d.sample()
        old = d.log_prob(act)
        ret = v + torch.randn(64)
        adv = ret - v
    def step():
        d, v = agent(obs)
        r = (d.log_prob(act) - old).exp()
        A = (adv - adv.mean()) / (adv.std() + 1e-8)
        return (
            -torch.min(r * A, r.clamp(0.8, 1.2) * A).mean()
            + 0.5 * F.mse_loss(v, ret)
            - 0.01 * d.entropy().mean()
        )
""",
)
healthy(
    "the critic of a WGAN with gradient penalty",
    """
    G = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 5))
    D = nn.Sequential(nn.Linear(5, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    real = torch.randn(32, 5)
    optimizer = torch.optim.Adam(D.parameters())
    def step():
        fake = G(torch.randn(32, 3)).detach()
        e = torch.rand(32, 1)
        m = (e * real + (1 - e) * fake).requires_grad_()
        (g,) = torch.autograd.grad(D(m).sum(), m, create_graph=True)
        return D(fake).mean() - D(real).mean() + 10 * ((g.norm(dim=1) - 1) ** 2).mean()
""",
)
healthy(
    "MAML",
    """
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    x = torch.randn(10, 2)
    y = torch.randn(10, 1)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        p = dict(net.named_parameters())
        l = F.mse_loss(torch.func.functional_call(net, p, (x,)), y)
        g = torch.autograd.grad(l, list(p.values()), create_graph=True)
        q = {k: v - 0.1 * d for (k, v), d in zip(p.items(), g)}
        return F.mse_loss(torch.func.functional_call(net, q, (x,)), y)
""",
)
healthy(
    "a network that solves a differential equation",
    """
    u = nn.Sequential(
        nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)
    )
    x = torch.linspace(0, 1, 40)[:, None].requires_grad_()
    optimizer = torch.optim.Adam(u.parameters())
    def step():
        f = u(x)
        (d,) = torch.autograd.grad(f.sum(), x, create_graph=True)
        (dd,) = torch.autograd.grad(d.sum(), x, create_graph=True)
        return (dd + f).pow(2).mean() + u(torch.zeros(1, 1)).pow(2).sum()
""",
)
healthy(
    "a mixture of experts",
    """
    class MoE(nn.Module):
        def __init__(s):
            super().__init__()
            s.gate = nn.Linear(8, 4)
            s.ex = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        def forward(s, x):
            w, i = s.gate(x).softmax(-1).topk(2)
            w = w / w.sum(-1, keepdim=True)
            out = torch.zeros_like(x)
            for k, e in enumerate(s.ex):
                r, c = (i == k).nonzero(as_tuple=True)
                out = out.index_add(0, r, w[r, c, None] * e(x[r]))
            return out
    m = MoE()
    x = torch.randn(64, 8)
    y = torch.randn(64, 8)
    optimizer = torch.optim.Adam(m.parameters())
    def step():
        return F.mse_loss(m(x), y)
""",
)
healthy(
    "CTC",
    """
    net = nn.LSTM(5, 16, bidirectional=True)
    out = nn.Linear(32, 7)
    x = torch.randn(20, 3, 5)
    y = torch.randint(1, 7, (3, 6))
    optimizer = torch.optim.Adam([*net.parameters(), *out.parameters()])
    def step():
        return F.ctc_loss(
            out(net(x)[0]).log_softmax(-1), y, torch.full((3,), 20), torch.full((3,), 6)
        )
""",
)
healthy(
    "a conditional random field",
    """
    emit = nn.Linear(5, 4)
    trans = nn.Parameter(torch.randn(4, 4) * 0.1)
    x = torch.randn(12, 5)
    tags = torch.randint(0, 4, (12,))
    optimizer = torch.optim.Adam([*emit.parameters(), trans])
    def step():
        e = emit(x)
        a = e[0]
        for t in range(1, 12):
            a = torch.logsumexp(a[:, None] + trans, 0) + e[t]
        gold = e[torch.arange(12), tags].sum() + trans[tags[:-1], tags[1:]].sum()
        return torch.logsumexp(a, 0) - gold
""",
)
healthy(
    "BYOL",
    """
    on = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
    pr = nn.Linear(8, 8)
    tg = copy.deepcopy(on)
    x = torch.randn(32, 8)
    optimizer = torch.optim.Adam([*on.parameters(), *pr.parameters()])
    def step():
        a = F.normalize(pr(on(x + 0.1 * torch.randn_like(x))), dim=1)
        with torch.no_grad():
            b = F.normalize(tg(x + 0.1 * torch.randn_like(x)), dim=1)
        return 2 - 2 * (a * b).sum(1).mean()
""",
)
healthy(
    "a diffusion model that starts at zero",
    """
    class Net(nn.Module):
        def __init__(s):
            super().__init__()
            s.t = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
            s.i = nn.Conv2d(1, 16, 3, padding=1)
            s.n = nn.GroupNorm(4, 16)
            s.o = nn.Conv2d(16, 1, 3, padding=1)
            nn.init.zeros_(s.o.weight)
            nn.init.zeros_(s.o.bias)
        def forward(s, x, t):
            e = torch.exp(-math.log(1e4) * torch.arange(4) / 4)
            a = t[:, None] * e
            h = s.i(x) + s.t(torch.cat([a.sin(), a.cos()], 1))[:, :, None, None]
            return s.o(F.silu(s.n(h)))
    net = Net()
    x = torch.randn(4, 1, 8, 8)
    t = torch.randint(0, 1000, (4,)).float()
    eps = torch.randn_like(x)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return (net(0.5 * x + 0.8 * eps, t) - eps).pow(2).mean()
""",
)
healthy(
    "weight norm and spectral norm",
    """
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)),
        nn.ReLU(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 1)),
    )
    x = torch.randn(8, 8)
    optimizer = torch.optim.Adam(net.parameters())
    def step():
        return net(x).pow(2).mean()
""",
)
healthy(
    "attention of one token",
    """
    att = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(4, 1, 8)
    optimizer = torch.optim.Adam(att.parameters())
    def step():
        return att(x, x, x)[0].pow(2).mean()
""",
)
healthy(
    "a masked language model with tied weights",
    """
    class LM(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(50, 16, padding_idx=0)
            s.p = nn.Embedding(12, 16)
            s.t = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
                2,
                enable_nested_tensor=False,
            )
            s.h = nn.Linear(16, 50, bias=False)
            s.h.weight = s.e.weight
        def forward(s, x):
            return s.h(s.t(s.e(x) + s.p(torch.arange(x.shape[1])), src_key_padding_mask=x == 0))
    lm = LM()
    x = torch.randint(1, 50, (4, 12))
    x[1, 6:] = 0
    y = x.clone()
    y[:, ::2] = -100
    optimizer = torch.optim.AdamW(lm.parameters())
    def step():
        return F.cross_entropy(lm(x).flatten(0, 1), y.flatten(), ignore_index=-100)
""",
)
