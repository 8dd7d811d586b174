"""Classic examples of backpropagation, as they stand in the gallery (`tools/gallery.py`).

Every program is what a user would write, and is run by the tests as well: with a widget, and, as
what the widget is compared with, in torch alone.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget, watch

Show = Callable[..., Any]
"""Called with the outputs of a program, before its backward."""


@dataclass(frozen=True)
class Example:
    """A program with what it teaches.

    Attributes:
        name: Of the function and of its pictures.
        title: Its headline.
        says: What to look at.
        run: The program. It gives what its `show` gave.
        is_scalar: Whether every operation in its graph is a call in the program that gave a single
            number. What autograd computes by itself, with `create_graph=True`, is no such call.
    """

    name: str
    title: str
    says: str
    run: Callable[[Show], Any]
    is_scalar: bool

    def shown(self, watched: bool) -> GraphWidget:
        """The widget, after the program has ended."""
        with watch() if watched else nullcontext():
            return self.seeded(GraphWidget)

    def seeded(self, show: Show) -> Any:
        """Run the program; two runs compute the same."""
        torch.manual_seed(0)
        return self.run(show)

    def code(self) -> str:
        """The program as a reader types it."""
        lines = inspect.getsource(self.run).rstrip().split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("def ")) + 1
        assert lines[-1] == "    return graph"
        body = textwrap.dedent("\n".join(lines[start:-1]))
        return re.sub(r"\bshow\(", "GraphWidget(", body)


EXAMPLES: dict[str, Example] = {}


def example(
    title: str, says: str, *, is_scalar: bool = False
) -> Callable[[Callable[[Show], Any]], Callable[[Show], Any]]:
    """Enter a program into the gallery."""

    def enter(run: Callable[[Show], Any]) -> Callable[[Show], Any]:
        EXAMPLES[run.__name__] = Example(run.__name__, title, says, run, is_scalar)
        return run

    return enter


@example(
    "A neuron",
    "The square passes 2 × (pred − y) = −12 on; w gets it times x, b gets it as it is.",
    is_scalar=True,
)
def neuron(show: Show) -> Any:
    w = torch.tensor(-3.0, requires_grad=True)
    b = torch.tensor(1.0, requires_grad=True)
    x, y = torch.tensor(2.0), torch.tensor(1.0)
    pred = w * x + b
    loss = (pred - y) ** 2
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "micrograd's expression",
    "From micrograd's README: a is used five times, and its gradient has five shares.",
    is_scalar=True,
)
def micrograd(show: Show) -> Any:
    a = torch.tensor(-4.0, requires_grad=True)
    b = torch.tensor(2.0, requires_grad=True)
    c = a + b
    d = a * b + b**3
    c = c + c + 1
    c = 1 + c + c + (-a)
    d = d + d * 2 + (b + a).relu()
    d = d + 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g = g + 10.0 / f
    graph = show(g)
    graph.backward()
    return graph


@example(
    "One tensor, used twice",
    "What arrives along both ways is added: −4 and 8 make 4.",
    is_scalar=True,
)
def used_twice(show: Show) -> Any:
    x = torch.tensor(3.0, requires_grad=True)
    y1 = x + 1
    y2 = 2 * x
    loss = (y1 - y2) ** 2
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Accumulation",
    "The 4 is from an earlier backward. Without zero_grad(), 12 is added to it.",
    is_scalar=True,
)
def accumulation(show: Show) -> Any:
    w = torch.tensor(2.0, requires_grad=True)
    (w**2).backward()
    loss = w**3
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "A sum in a loop",
    "Every turn adds an operation; the graph is what ran, not what is written.",
    is_scalar=True,
)
def loop(show: Show) -> Any:
    c = torch.tensor(0.5, requires_grad=True)
    total = torch.tensor(0.0)
    for k in range(1, 5):
        total = total + c**k
    graph = show(total)
    graph.backward()
    return graph


@example(
    "Logistic regression",
    "The gradient of every weight is the mean of (probability − label) × input.",
)
def logistic_regression(show: Show) -> Any:
    x = torch.tensor([[0.5, 1.0], [-1.0, 2.0], [1.5, -0.5]])
    label = torch.tensor([1.0, 0.0, 1.0])
    w = torch.tensor([0.2, -0.4], requires_grad=True)
    b = torch.tensor(0.1, requires_grad=True)
    logits = x @ w + b
    loss = F.binary_cross_entropy_with_logits(logits, label)
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Softmax by hand",
    "All the detours end in logits.grad = probabilities − one-hot label.",
)
def softmax(show: Show) -> Any:
    logits = torch.tensor([2.0, 1.0, 0.1], requires_grad=True)
    shifted = logits - logits.max().detach()
    exps = shifted.exp()
    probs = exps / exps.sum()
    loss = -probs[0].log()
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "A network with tanh",
    "Two layers; each box is a module with its parameters.",
)
def mlp(show: Show) -> Any:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.tensor([[0.5, -1.0], [1.0, 2.0]])
    y = torch.tensor([[1.0], [0.0]])
    loss = F.mse_loss(model(x), y)
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Batch norm by hand",
    "x reaches the result along three ways: itself, through the mean, and through the variance.",
)
def batch_norm(show: Show) -> Any:
    x = torch.randn(4, 2, requires_grad=True)
    gamma = torch.ones(2, requires_grad=True)
    beta = torch.zeros(2, requires_grad=True)
    mean = x.sum(0) / 4
    centred = x - mean
    variance = (centred**2).sum(0) / 3
    inverse = (variance + 1e-5) ** -0.5
    out = gamma * (centred * inverse) + beta
    loss = (out**3).mean()
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "A recurrent network of five steps",
    "One weight, used five times: each step adds its share.",
    is_scalar=True,
)
def rnn(show: Show) -> Any:
    w = torch.tensor(0.9, requires_grad=True)
    u = torch.tensor(0.5, requires_grad=True)
    h = torch.tensor(0.0)
    for x in (1.0, -1.0, 0.5, 2.0, 0.0):
        h = torch.tanh(w * h + u * x)
    loss = (h - 1) ** 2
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Attention",
    "x goes in three times, as queries, keys and values.",
)
def attention(show: Show) -> Any:
    x = torch.randn(3, 2, requires_grad=True)
    wq, wk, wv = (torch.randn(2, 2, requires_grad=True) for _ in range(3))
    q, k, v = x @ wq, x @ wk, x @ wv
    weights = (q @ k.T / 2**0.5).softmax(-1)
    loss = (weights @ v).square().mean()
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "A convolutional network",
    "Of every window max pooling passes the gradient on to the largest number alone.",
)
def cnn(show: Show) -> Any:
    model = nn.Sequential(
        nn.Conv2d(1, 1, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2)
    )
    image = torch.randn(2, 1, 6, 6)
    loss = F.cross_entropy(model(image), torch.tensor([0, 1]))
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "where",
    "Each number goes through one branch; the other one gets a zero there.",
)
def where(show: Show) -> Any:
    x = torch.tensor([-2.0, 3.0], requires_grad=True)
    low, high = x * 0.1, x**2
    y = torch.where(x > 0, high, low)
    loss = y.sum()
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "In place",
    "Writing into a part of h cuts that part off from what was there before: its gradient is 0.",
)
def in_place(show: Show) -> Any:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = x * 2
    h[0] = 10.0
    h.mul_(3)
    loss = (h**2).sum()
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Frozen, and under no_grad",
    "No gradient goes to a frozen parameter, and none through what was computed under no_grad.",
    is_scalar=True,
)
def frozen(show: Show) -> Any:
    x = torch.tensor(2.0, requires_grad=True)
    w = torch.tensor(3.0, requires_grad=True)
    w.requires_grad_(False)
    with torch.no_grad():
        h = x * 5
    loss = (w * x + h) ** 2
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Keeping the gradient of an intermediate result",
    "h is not a leaf; retain_grad() makes it keep its gradient.",
    is_scalar=True,
)
def retain_grad(show: Show) -> Any:
    x = torch.tensor(0.5, requires_grad=True)
    h = x.exp()
    h.retain_grad()
    loss = h.sin() * x
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "A derivative of a derivative",
    "With create_graph=True a derivative has a graph of its own, and backward goes through it.",
)
def double_backward(show: Show) -> Any:
    x = torch.tensor(2.0, requires_grad=True)
    y = x**3
    (dy,) = torch.autograd.grad(y, x, create_graph=True)
    graph = show(y, dy)
    dy.backward()
    return graph


@example(
    "A row of the Hessian",
    "The gradient of the first number of a gradient is the first row of the Hessian.",
)
def hessian(show: Show) -> Any:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f = x[0] ** 2 * x[1] + x[1] ** 3
    (gradient,) = torch.autograd.grad(f, x, create_graph=True)
    graph = show(gradient)
    graph.backward(torch.tensor([1.0, 0.0]))
    return graph


@example(
    "The discriminator of a GAN",
    "detach() keeps the discriminator's loss from reaching the generator.",
)
def gan(show: Show) -> Any:
    G, D = nn.Linear(2, 1), nn.Linear(1, 1)
    noise, real = torch.randn(3, 2), torch.randn(3, 1) + 4
    fake = G(noise)
    loss_D = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    graph = show(loss_D)
    graph.backward()
    return graph


@example(
    "A target network",
    "The target of the network comes from a copy that does not learn.",
)
def target_network(show: Show) -> Any:
    online, target = nn.Linear(2, 2), nn.Linear(2, 2)
    target.load_state_dict(online.state_dict())
    state, following = torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 0.0]])
    with torch.no_grad():
        aim = 1.0 + 0.9 * target(following).max()
    loss = (online(state)[0, 0] - aim) ** 2
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Tied weights",
    "One matrix looks words up and scores them: its gradient has a share of both.",
)
def tied_weights(show: Show) -> Any:
    embedding, head = nn.Embedding(4, 2), nn.Linear(2, 4, bias=False)
    head.weight = embedding.weight
    words, following = torch.tensor([0, 2]), torch.tensor([2, 3])
    loss = F.cross_entropy(head(embedding(words)), following)
    graph = show(loss)
    graph.backward()
    return graph


@example(
    "Clipping",
    "After backward .grad was scaled to a norm of 1: it is not what had flowed into w any more.",
)
def clipping(show: Show) -> Any:
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    loss = (w**2).sum()
    graph = show(loss)
    graph.backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    return graph
