"""Training scripts in the style of public examples, each with four faults to plant.

A fault replaces one part of the script by another. A line that must be named then ends in
``# HERE``; a parameter that must be named is given with the fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Fault:
    """A fault of a script.

    Attributes:
        name: What is wrong.
        old: The part of the script that goes.
        new: What comes in its place.
        kind: The kind of the finding.
        parameter: A parameter that the finding must name; empty if it is about none.
    """

    name: str
    old: str
    new: str
    kind: str
    parameter: str = ""


@dataclass(frozen=True)
class Script:
    """A script and its faults."""

    source: str
    faults: tuple[Fault, ...]

    def broken(self, fault: Fault) -> str:
        """Return the script with a fault."""
        assert self.source.count(fault.old) == 1, fault
        return self.source.replace(fault.old, fault.new)


SCRIPTS: dict[str, Script] = {}

_HEAD = """\
import copy
import math
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
"""


def script(name: str, source: str, *faults: tuple[str, str, str, str, str]) -> None:
    """Enter a script."""
    SCRIPTS[name] = Script(_HEAD + dedent(source), tuple(Fault(*each) for each in faults))


script(
    "digits with a small CNN",
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
            self.fc1, self.fc2 = nn.Linear(8 * 16, 32), nn.Linear(32, 10)
        def forward(self, x):
            x = F.relu(self.conv2(F.relu(self.conv1(x))))
            x = torch.flatten(F.max_pool2d(x, 2)[:, :, :4, :4], 1)
            x = F.relu(self.fc1(x))
            return F.log_softmax(self.fc2(x), dim=1)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for step in range(25):
        data, target = torch.randn(8, 1, 14, 14), torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
    """,
    (
        "detached features",
        "x = F.relu(self.fc1(x))",
        "x = F.relu(self.fc1(x.detach()))  # HERE",
        "no-gradient",
        "conv1.weight",
    ),
    (
        "only the head in the optimizer",
        "Adadelta(model.parameters(), lr=1.0)",
        "Adadelta(model.fc2.parameters(), lr=1.0)",
        "optimizer",
        "conv1.weight",
    ),
    (
        "cleared before the step",
        "    optimizer.step()",
        "    optimizer.zero_grad(); optimizer.step()",
        "cleared",
        "fc2.weight",
    ),
    (
        "log of a probability of zero",
        "loss = F.nll_loss(output, target)",
        "loss = -torch.log(F.relu(output)).mean()  # HERE",
        "nan",
        "",
    ),
)
script(
    "a language model of an LSTM",
    """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Embedding(20, 16)
            self.rnn = nn.LSTM(16, 16, 1)
            self.decoder = nn.Linear(16, 20)
        def forward(self, tokens, hidden):
            embedded = self.encoder(tokens)
            output, hidden = self.rnn(embedded, hidden)
            return self.decoder(output), hidden
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    hidden = (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))
    for step in range(25):
        tokens = torch.randint(0, 20, (7, 4))
        optimizer.zero_grad()
        hidden = tuple(h.detach() for h in hidden)
        output, hidden = model(tokens[:-1], hidden)
        loss = F.cross_entropy(output.flatten(0, 1), tokens[1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
    """,
    (
        "embeddings without grad mode",
        "        embedded = self.encoder(tokens)",
        "        with torch.no_grad():\n            embedded = self.encoder(tokens)  # HERE",
        "no-gradient",
        "encoder.weight",
    ),
    (
        "a new decoder after the optimizer",
        "hidden = (torch.zeros(1, 4, 16)",
        "model.decoder = nn.Linear(16, 20)\nhidden = (torch.zeros(1, 4, 16)",
        "optimizer",
        "decoder.weight",
    ),
    (
        "clipped after it was cleared",
        "    nn.utils.clip_grad_norm_(",
        "    optimizer.zero_grad()\n    nn.utils.clip_grad_norm_(",
        "cleared",
        "rnn.weight_ih_l0",
    ),
    (
        "a loss made anew",
        "    loss.backward()",
        "    loss = torch.tensor(loss.item(), requires_grad=True); loss.backward()  # HERE",
        "no-gradient",
        "encoder.weight",
    ),
)
script(
    "a transformer that classifies",
    """
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(30, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(16, 3)
        def forward(self, tokens, mask=None):
            hidden = self.encoder(self.embed(tokens), mask=mask)
            pooled = hidden.mean(1)
            return self.head(pooled)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    mask = torch.triu(torch.full((6, 6), -math.inf), 1)
    for step in range(25):
        tokens, labels = torch.randint(0, 30, (4, 6)), torch.randint(0, 3, (4,))
        logits = model(tokens, mask)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    (
        "pooled as numbers",
        "pooled = hidden.mean(1)",
        "pooled = torch.tensor(hidden.mean(1).tolist())  # HERE",
        "no-gradient",
        "embed.weight",
    ),
    (
        "a mask of infinities times zero",
        "mask = torch.triu(torch.full((6, 6), -math.inf), 1)",
        "mask = torch.full((6, 6), -math.inf) * torch.ones(6, 6).triu(1)",
        "nan",
        "",
    ),
    (
        "softmax before the loss",
        "F.cross_entropy(logits, labels)",
        "F.cross_entropy(logits.softmax(-1), labels)  # HERE",
        "softmax-twice",
        "",
    ),
    (
        "the encoder frozen by mistake",
        "optimizer = torch.optim.AdamW",
        "model.encoder.requires_grad_(False)\noptimizer = torch.optim.AdamW",
        "frozen",
        "encoder.layers.0.self_attn.in_proj_weight",
    ),
)
script(
    "adapters in a frozen model under checkpoints",
    """
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(16, 16).requires_grad_(False)
            self.a, self.b = nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)
            nn.init.zeros_(self.b.weight)
        def forward(self, x):
            return self.base(x) + self.b(self.a(x))
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 16).requires_grad_(False)
            self.blocks = nn.ModuleList(Adapted() for _ in range(3))
            self.head = nn.Linear(16, 20)
        def forward(self, tokens):
            x = self.embed(tokens).requires_grad_()
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=True)
            return self.head(x)
    net = Net()
    trainable = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, 1e-2)
    for step in range(25):
        tokens = torch.randint(0, 20, (8,))
        loss = F.cross_entropy(net(tokens), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    (
        "inputs that require no grad",
        "x = self.embed(tokens).requires_grad_()",
        "x = self.embed(tokens)",
        "no-gradient",
        "blocks.0.a.weight",
    ),
    (
        "both factors start at zero",
        "nn.init.zeros_(self.b.weight)",
        "nn.init.zeros_(self.b.weight); nn.init.zeros_(self.a.weight)",
        "zero",
        "blocks.0.a.weight",
    ),
    (
        "the adapter is not added",
        "return self.base(x) + self.b(self.a(x))",
        "self.b(self.a(x)); return self.base(x)",
        "unused",
        "blocks.0.a.weight",
    ),
    (
        "adapters that the optimizer does not hold",
        "AdamW(trainable, 1e-2)",
        "AdamW(net.head.parameters(), 1e-2)",
        "optimizer",
        "blocks.0.b.weight",
    ),
)
script(
    "mixed precision with accumulation",
    """
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(100):
        x, y = torch.randn(8, 8), torch.randint(0, 4, (8,))
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y) / 4
        scaler.scale(loss).backward()
        if step % 4 == 3:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """,
    (
        "the optimizer steps without the scaler",
        "        scaler.unscale_(optimizer)\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "        scaler.step(optimizer)\n        scaler.update()",
        "        optimizer.step()",
        "scaled",
        "",
    ),
    (
        "cleared in every micro-batch",
        "    scaler.scale(loss).backward()",
        "    optimizer.zero_grad(); scaler.scale(loss).backward()",
        "cleared",
        "0.weight",
    ),
    (
        "weights in bfloat16",
        "nn.Linear(16, 4))\noptimizer",
        "nn.Linear(16, 4))\nfor p in model.parameters(): p.data = p.data.bfloat16() + 4\noptimizer",
        "unchanged",
        "0.weight",
    ),
    (
        "a detached loss of its own number",
        "F.cross_entropy(model(x), y) / 4",
        "F.cross_entropy(model[2](model[:2](x).detach()), y) / 4  # HERE",
        "no-gradient",
        "0.weight",
    ),
)
script(
    "a variational autoencoder",
    """
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.mean, self.logvar = nn.Linear(12, 16), nn.Linear(16, 3), nn.Linear(16, 3)
            self.fc3, self.fc4 = nn.Linear(3, 16), nn.Linear(16, 12)
        def forward(self, x):
            hidden = F.relu(self.fc1(x))
            mean, logvar = self.mean(hidden), self.logvar(hidden)
            std = torch.exp(0.5 * logvar)
            z = mean + torch.randn_like(std) * std
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(25):
        x = torch.rand(16, 12)
        optimizer.zero_grad()
        recon, mean, logvar = model(x)
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        (bce + kld).backward()
        optimizer.step()
    """,
    (
        "sampled instead of reparametrised",
        "z = mean + torch.randn_like(std) * std",
        "z = torch.normal(mean.detach(), std.detach())",
        "dominated",
        "",
    ),
    (
        "no term for the variance",
        "            mean, logvar = self.mean(hidden), self.logvar(hidden)".replace(
            " " * 12, " " * 8
        ),
        "        mean, logvar = self.mean(hidden), self.logvar(hidden).detach()  # HERE",
        "no-gradient",
        "logvar.weight",
    ),
    (
        "a decoder of integers",
        "recon, x, reduction",
        "recon.round() * 0.9 + 0.05, x, reduction",
        "zero",
        "fc4.weight",
    ),
    (
        "a root at zero",
        "(bce + kld).backward()",
        "(bce + kld + (mean - mean).pow(2).sum().sqrt()).backward()  # HERE",
        "nan",
        "mean.weight",
    ),
)
script(
    "a generator and its critic",
    """
    G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh())
    D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    optimizer_d = torch.optim.Adam(D.parameters(), 2e-4)
    optimizer_g = torch.optim.Adam(G.parameters(), 2e-4)
    real, fakes = torch.ones(8, 1), torch.zeros(8, 1)
    for step in range(25):
        optimizer_d.zero_grad()
        fake = G(torch.randn(8, 4))
        loss = F.binary_cross_entropy_with_logits(D(torch.randn(8, 8)), real)
        loss = loss + F.binary_cross_entropy_with_logits(D(fake.detach()), fakes)
        loss.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(D(fake), real)
        loss_g.backward()
        optimizer_g.step()
    """,
    (
        "the generator sees detached fakes",
        "D(fake), real)",
        "D(fake.detach()), real)  # HERE",
        "no-gradient",
        "0.weight",
    ),
    (
        "the generator is cleared after its backward",
        "    optimizer_g.step()",
        "    optimizer_g.zero_grad(); optimizer_g.step()",
        "cleared",
        "0.weight",
    ),
    (
        "fakes of an integer image",
        "fake = G(torch.randn(8, 4))",
        "fake = G(torch.randn(8, 4)).round()  # HERE",
        "zero",
        "0.weight",
    ),
    (
        "a generator of frozen layers",
        "optimizer_d = torch",
        "G[0].requires_grad_(False)\noptimizer_d = torch",
        "frozen",
        "0.weight",
    ),
)
script(
    "pairs of images",
    """
    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
            self.embed = nn.Linear(4 * 36, 8)
        def forward(self, one, two):
            one, two = (self.embed(self.body(x).flatten(1)) for x in (one, two))
            return one, two
    model = Siamese()
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
    for step in range(25):
        one, two, same = torch.randn(8, 1, 8, 8), torch.randn(8, 1, 8, 8), torch.rand(8).round()
        a, b = model(one, two)
        distance = F.pairwise_distance(a, b)
        loss = (same * distance.pow(2) + (1 - same) * (1 - distance).clamp(min=0).pow(2)).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    """,
    (
        "distances as an array",
        "distance = F.pairwise_distance(a, b)",
        "distance = torch.from_numpy(F.pairwise_distance(a, b).detach().numpy()) * model.embed.bias.sum()"
        "  # HERE",
        "no-gradient",
        "body.0.weight",
    ),
    (
        "a distance of a branch to itself",
        "a, b = model(one, two)",
        "a, b = model(one, one); b = a",
        "zero",
        "body.0.weight",
    ),
    (
        "a root of a sum of zeros",
        "distance = F.pairwise_distance(a, b)",
        "distance = (a - a).pow(2).sum(1).sqrt()  # HERE",
        "nan",
        "body.0.weight",
    ),
    (
        "the body is missing in the optimizer",
        "RMSprop(model.parameters(), 1e-3)",
        "RMSprop(model.embed.parameters(), 1e-3)",
        "optimizer",
        "body.0.weight",
    ),
)
