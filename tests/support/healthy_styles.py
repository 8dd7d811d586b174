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
