"""More training scripts in the style of public examples: for other tasks than labels and words."""

from __future__ import annotations

from training_scripts import script

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
