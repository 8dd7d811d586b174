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
script(
    "two views of one image",
    """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.project = nn.Linear(10, 16), nn.Linear(16, 8)
        def forward(self, x):
            return F.normalize(self.project(F.relu(self.body(x))), dim=-1)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(25):
        x = torch.randn(12, 10)
        one, two = model(x + 0.1 * torch.randn_like(x)), model(x + 0.1 * torch.randn_like(x))
        logits = one @ two.T / 0.1
        loss = F.cross_entropy(logits, torch.arange(12))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    (
        "one view is compared with itself",
        "logits = one @ two.T / 0.1",
        "logits = one.detach() @ two.detach().T / 0.1 + model.project.bias.sum() * x[:, :1]  # HERE",
        "no-gradient",
        "body.weight",
    ),
    (
        "a temperature near zero in half precision",
        "logits = one @ two.T / 0.1",
        "logits = ((one @ two.T).half() / 1e-6).float()",
        "nan",
        "body.weight",
    ),
    (
        "hidden units that are all negative",
        "F.relu(self.body(x))",
        "F.relu(self.body(x) - 100)",
        "dead",
        "",
    ),
    (
        "a projection that is not used",
        "F.normalize(self.project(F.relu(self.body(x))), dim=-1)",
        "F.normalize(F.relu(self.body(x)), dim=-1)",
        "unused",
        "project.weight",
    ),
)
script(
    "a policy gradient",
    """
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1, self.action, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)
        def forward(self, x):
            x = F.relu(self.affine1(x))
            return F.softmax(self.action(x), dim=-1), self.value(x)
    model = Policy()
    optimizer = torch.optim.Adam(model.parameters(), 3e-2)
    for step in range(25):
        states, rewards = torch.randn(10, 4), torch.rand(10)
        probs, values = model(states)
        m = torch.distributions.Categorical(probs)
        log_prob = m.log_prob(m.sample())
        advantage = rewards - values.squeeze(-1).detach()
        loss = (-log_prob * advantage).mean() + F.smooth_l1_loss(values.squeeze(-1), rewards)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    (
        "the value is detached in its own loss",
        "F.smooth_l1_loss(values.squeeze(-1), rewards)",
        "F.smooth_l1_loss(values.detach().squeeze(-1), rewards)  # HERE",
        "no-gradient",
        "value.weight",
    ),
    (
        "the chosen action as the policy",
        "log_prob = m.log_prob(m.sample())",
        "log_prob = probs.argmax(-1).float()  # HERE",
        "no-gradient",
        "action.weight",
    ),
    (
        "the log of a probability of zero",
        "log_prob = m.log_prob(m.sample())",
        "log_prob = (probs[:, 0] * 0).log()  # HERE",
        "nan",
        "",
    ),
    (
        "advantages that are all zero",
        "advantage = rewards - values.squeeze(-1).detach()",
        "advantage = rewards - rewards",
        "zero",
        "action.weight",
    ),
)
script(
    "a graph convolution",
    """
    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.w2 = nn.Parameter(torch.randn(6, 8) * 0.3), nn.Parameter(torch.randn(8, 3) * 0.3)
        def forward(self, x, adjacency):
            return adjacency @ F.elu(adjacency @ x @ self.w1) @ self.w2
    x, adjacency = torch.randn(10, 6), torch.rand(10, 10).softmax(-1)
    labels = torch.randint(0, 3, (10,))
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(25):
        optimizer.zero_grad()
        out = model(x, adjacency)
        loss = F.cross_entropy(out[:5], labels[:5])
        loss.backward()
        optimizer.step()
    """,
    (
        "data of the first layer",
        "F.elu(adjacency @ x @ self.w1)",
        "F.elu((adjacency @ x @ self.w1).data)",
        "no-gradient",
        "w1",
    ),
    (
        "a division by a degree of zero",
        "optimizer = torch.optim.Adam",
        "adjacency = (adjacency - adjacency) / (adjacency - adjacency).sum(-1)\n"
        "optimizer = torch.optim.Adam",
        "nan",
        "",
    ),
    (
        "a parameter that is set anew",
        "optimizer = torch.optim.Adam(model.parameters(), 1e-2)",
        "optimizer = torch.optim.Adam(model.parameters(), 1e-2)\n"
        "model.w2 = nn.Parameter(torch.randn(8, 3))",
        "optimizer",
        "w2",
    ),
    (
        "no label in the selection",
        "F.cross_entropy(out[:5], labels[:5])",
        "F.cross_entropy(out[:0], labels[:0])  # HERE",
        "nan",
        "",
    ),
)
script(
    "a sequence to sequence model",
    """
    class Seq(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8), nn.Linear(8, 1)
        def forward(self, x):
            h1 = c1 = h2 = c2 = torch.zeros(x.shape[0], 8)
            outputs = []
            for part in x.split(1, dim=1):
                h1, c1 = self.lstm1(part, (h1, c1))
                h2, c2 = self.lstm2(h1, (h2, c2))
                outputs.append(self.linear(h2))
            return torch.cat(outputs, 1)
    model = Seq()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    x = torch.sin(torch.arange(24.0)).reshape(3, 8)
    for step in range(25):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x[:, :-1]), x[:, 1:])
            loss.backward()
            return loss
        optimizer.step(closure)
    """,
    (
        "the state is detached between the layers",
        "self.lstm2(h1, (h2, c2))",
        "self.lstm2(h1.detach(), (h2, c2))  # HERE",
        "no-gradient",
        "lstm1.weight_ih",
    ),
    (
        "the second layer is skipped",
        "            h2, c2 = self.lstm2(h1, (h2, c2))\n            outputs.append(self.linear(h2))",
        "            outputs.append(self.linear(h1))",
        "unused",
        "lstm2.weight_ih",
    ),
    (
        "a loss divided by zero",
        "loss = F.mse_loss(model(x[:, :-1]), x[:, 1:])",
        "loss = F.mse_loss(model(x[:, :-1]), x[:, 1:]) / torch.zeros(())  # HERE",
        "nan",
        "lstm1.weight_ih",
    ),
    (
        "outputs of numbers",
        "outputs.append(self.linear(h2))",
        "outputs.append(torch.tensor(h2.tolist()) @ self.linear.weight.T)  # HERE",
        "no-gradient",
        "lstm1.weight_ih",
    ),
)
script(
    "a student and its teacher",
    """
    def net(width):
        return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
    teacher, student = net(32), net(8)
    teacher.requires_grad_(False).eval()
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for step in range(25):
        x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
        with torch.no_grad():
            wanted = teacher(x)
        out = student(x)
        soft = F.kl_div(F.log_softmax(out / 2, -1), F.softmax(wanted / 2, -1), reduction="batchmean")
        loss = 4 * soft + F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    (
        "the student without grad mode",
        "    out = student(x)",
        "    with torch.no_grad(): hidden = student[:2](x)  # HERE\n    out = student[2](hidden)",
        "no-gradient",
        "0.weight",
    ),
    (
        "the log of a hard target",
        'F.softmax(wanted / 2, -1), reduction="batchmean")',
        "F.softmax(wanted / 2, -1)); soft = soft + (out * 0).relu().log().mean()  # HERE",
        "nan",
        "",
    ),
    (
        "the optimizer of the teacher",
        "SGD(student.parameters(), 0.1)",
        "SGD([*student[2].parameters()], 0.1)",
        "optimizer",
        "0.weight",
    ),
    (
        "a learning rate that rounds away",
        "SGD(student.parameters(), 0.1)",
        "SGD(student.parameters(), 1e-12)",
        "unchanged",
        "0.weight",
    ),
)
script(
    "a segmentation with skips",
    """
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.middle = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
            self.up, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 2, 1)
        def forward(self, x):
            skip = F.relu(self.down(x))
            deep = F.relu(self.middle(F.max_pool2d(skip, 2)))
            joined = torch.cat([self.up(deep), skip], 1)
            return self.out(joined)
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(25):
        x, y = torch.randn(2, 1, 8, 8), torch.randint(0, 2, (2, 8, 8))
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    """,
    (
        "the deep part is left out",
        "torch.cat([self.up(deep), skip], 1)",
        "torch.cat([skip, skip], 1)",
        "unused",
        "middle.weight",
    ),
    (
        "the deep part is detached",
        "torch.cat([self.up(deep), skip], 1)",
        "torch.cat([self.up(deep).detach(), skip], 1)  # HERE",
        "no-gradient",
        "middle.weight",
    ),
    (
        "the deep part times zero",
        "torch.cat([self.up(deep), skip], 1)",
        "torch.cat([self.up(deep) * 0, skip], 1)",
        "zero",
        "middle.weight",
    ),
    (
        "labels that are all ignored",
        "F.cross_entropy(model(x), y)",
        "F.cross_entropy(model(x), y * 0 - 100)  # HERE",
        "nan",
        "",
    ),
)
script(
    "an image transformer",
    """
    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Linear(16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, 16))
            self.position = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
            self.norm, self.attention = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.head = nn.Linear(16, 3)
        def forward(self, x):
            x = self.patch(x.unfold(1, 4, 4).unfold(2, 4, 4).reshape(x.shape[0], 4, 16))
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            normed = self.norm(x)
            x = x + self.attention(normed, normed, normed, need_weights=False)[0]
            x = x + self.mlp(x)
            return self.head(x[:, 0])
    model = ViT()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
    for step in range(25):
        x, y = torch.randn(4, 8, 8), torch.randint(0, 3, (4,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    """,
    (
        "the token is not added",
        "torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position",
        "torch.cat([x[:, :1], x], 1) + self.position",
        "unused",
        "token",
    ),
    (
        "attention of detached values",
        "self.attention(normed, normed, normed, need_weights=False)[0]",
        "self.attention(normed, normed, normed, need_weights=False)[0].detach()  # HERE",
        "no-gradient",
        "attention.in_proj_weight",
    ),
    (
        "positions as data",
        "+ self.position",
        "+ self.position.data",
        "no-gradient",
        "position",
    ),
    (
        "a head of the wrong optimizer",
        "AdamW(model.parameters(), 1e-3)",
        "AdamW([p for n, p in model.named_parameters() if 'head' not in n], 1e-3)",
        "optimizer",
        "head.weight",
    ),
)
