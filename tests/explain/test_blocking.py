"""What is said to let no gradient through lets none through: against torch's own backward."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operator_corpus import Unit, everything
from torch.utils._pytree import tree_map

from gradwalk.explain.zero_derivatives import Blocking
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.nodes import leaf_tensor

pytestmark = pytest.mark.one_python

# What is done to every input: most rules speak of inputs that lie all on one side, or are zero.
EXTREMES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda t: t,
    "zero": torch.zeros_like,
    "far below": lambda t: -1e3 - t.abs(),
    "far above": lambda t: 1e3 + t.abs(),
}


def pushed(value: Any, how: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.is_nested:
        return value
    if value.layout is not torch.strided:
        return value
    return how(value.detach()).requires_grad_(value.requires_grad)


def calls(
    unit: Unit, samples: list[Any], how: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[torch.Tensor]:
    for sample in samples:
        given = (sample.input, sample.args, sample.kwargs)
        first, args, kwargs = tree_map(lambda each: pushed(each, how), given)
        try:
            found = unit.info(first, *args, **kwargs)
        except Exception:  # torch refuses these numbers
            continue
        if isinstance(found, torch.Tensor) and found.grad_fn is not None:
            yield found


def claims(out: torch.Tensor) -> int:
    """How many leaves are said to get nothing but zeros; each of them must."""
    captured = capture_nodes(read_outputs((out,), "capture"), Names())
    leaves = {
        node: leaf
        for node, each in enumerate(captured.nodes)
        if (leaf := leaf_tensor(each)) is not None
    }
    blocking = Blocking(captured)
    said = {n for _, nodes in blocking.leaves(list(leaves)).by_block for n in nodes}
    assert said == {node for node in leaves if blocking.before(node).found}
    if not said:
        return 0
    seed = torch.rand(out.shape, dtype=out.dtype) + 0.5
    wanted = [leaves[node] for node in said]
    for grad in torch.autograd.grad(out, wanted, seed, allow_unused=True):
        # What came was NaN or Inf, and zero times that is NaN; a normalisation rounds.
        assert grad is None or (grad.nan_to_num(0, 0, 0).abs() < 1e-9).all(), out.grad_fn
    return len(said)


UNITS = {each.name: each for each in everything() if each.dtype == torch.float64 and not each.way}
SHARE = [name for i, name in enumerate(UNITS) if i % 29 == 0]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in set(SHARE) else [pytest.mark.full]) for n in UNITS],
)
def test_operators_at_their_ends(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unit = UNITS[name]
        drawn = unit.info.sample_inputs("cpu", unit.dtype, requires_grad=True)
        samples = list(itertools.islice(drawn, 6))
        for how in EXTREMES.values():
            for out in calls(unit, samples, how):
                claims(out)
