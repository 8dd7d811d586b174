"""What small changes do at one node, against the function itself and torch's own forward mode."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gradwalk.features.experiments.replay import Replay
from gradwalk.features.numerics.first_order import change_of_output, passed_on
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs

torch.manual_seed(0)
SHAPES = {
    "product": (lambda a, b: a @ b, [(3, 4), (4, 5)]),
    "broadcast": (lambda a, b: a * b, [(3, 4), (4,)]),
    "softmax": (lambda a: F.softmax(a, -1), [(3, 4)]),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (4,), w, b), [(3, 4), (4,), (4,)]),
    "convolution": (F.conv2d, [(1, 2, 5, 5), (3, 2, 3, 3), (3,)]),
    "attention": (F.scaled_dot_product_attention, [(2, 3, 6, 4)] * 3),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        [(2, 3, 6, 4)] * 3,
    ),
    "masked attention": (
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.arange(36).reshape(6, 6) % 5 != 1
        ),
        [(2, 3, 6, 4)] * 3,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_changes_are_those_of_the_function(name):
    function, shapes = SHAPES[name]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    changes = [torch.randn_like(each) for each in inputs]
    out = function(*inputs)
    replay = Replay(capture_nodes(read_outputs((out,), "capture"), Names()))
    assert out.grad_fn is replay.captured.nodes[0]
    found = replay.beside(lambda: change_of_output(replay, 0, dict(enumerate(changes))))
    step = 1e-6
    with torch.no_grad():
        above, below = (
            function(*(x + sign * step * d for x, d in zip(inputs, changes, strict=True)))
            for sign in (1, -1)
        )
    torch.testing.assert_close(found, (above - below) / (2 * step), rtol=1e-6, atol=1e-7)
    one = replay.beside(lambda: change_of_output(replay, 0, {0: changes[0]}))
    with torch.no_grad():
        other = function(inputs[0] + step * changes[0], *inputs[1:])
    torch.testing.assert_close(one, (other - out) / step, rtol=1e-3, atol=1e-4)


def test_nothing_else_changes():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    seen = []
    h = x.exp()
    h.register_hook(seen.append)
    replay = Replay(capture_nodes(read_outputs((h,), "capture"), Names()))
    arrived = torch.tensor([1.0, 10.0])
    (grad,) = replay.beside(lambda: passed_on(replay, 0, [arrived]))
    assert torch.equal(grad, arrived * x.exp())
    replay.beside(lambda: change_of_output(replay, 0, {0: torch.ones(2)}))
    assert x.grad is None
    assert not seen
    h.sum().backward()
    assert len(seen) == 1


def test_half_precision_tells_of_changes_that_it_could_not_hold():
    x = torch.tensor([0.5, 2.0], dtype=torch.float16, requires_grad=True)
    replay = Replay(capture_nodes(read_outputs((x.exp(),), "capture"), Names()))
    small = torch.tensor([1e-12, -3e-10])
    found = replay.beside(lambda: change_of_output(replay, 0, {0: small}))
    torch.testing.assert_close(found, small * x.detach().float().exp(), rtol=1e-2, atol=0)
    (grad,) = replay.beside(lambda: passed_on(replay, 0, [small]))
    torch.testing.assert_close(grad, small * x.detach().float().exp(), rtol=1e-2, atol=0)
