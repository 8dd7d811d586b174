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
