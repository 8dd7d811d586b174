"""A private name of torch that moves costs one feature: here each is gone once, and raises once."""

from __future__ import annotations

import ast
import json

import pytest
from fresh import fresh
from private_names import declared, trees, undeclared

START = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.export, torch.func, torch.fx, torch.utils.checkpoint, torch.utils.flop_counter
import anywidget, IPython.display, networkx, numpy, traitlets
import removal
removal.prepare()
"""

UNWATCHED = "watch() records nothing"
UNREAD = "Saved tensors are not read"
UNRECORDED = "The steps of backward passes are not recorded"

SAID = {
    "Function._forward_cls": "Which custom Function made a node is unknown",
    "Function._raw_saved_tensors": UNREAD,
    "Node._input_metadata": "The shapes of operations are unknown",
    "Node._raw_saved_*": UNREAD,
    "Node._saved_*": UNREAD,
    "Node._sequence_nr()": "The order in which operations ran is inferred from the graph",
    "SavedTensor.unpack_hook": UNREAD,
    "Tensor._base": UNWATCHED,
    "Tensor._version": "Recorded values count as changed",
    "torch._C._current_autograd_node": UNRECORDED,
    "torch._C._current_graph_task_id": UNRECORDED,
    "torch._C._is_tracing": UNWATCHED,
    "torch.autograd._get_sequence_nr": UNWATCHED,
    "torch.overrides._get_current_function_mode": UNWATCHED,
    "torch.overrides._pop_mode": UNWATCHED,
    "torch.overrides._push_mode": UNWATCHED,
    "torch.utils.checkpoint._CheckpointFrame": "Checkpointed parts are not recognised",
}
"""The start of a sentence that a user then finds below the picture and in ``diagnose()``."""


def lost_without(name: str, how: str) -> list[str]:
    """What is said to be lost once a name is taken away: see `removal.without`."""
    found: list[str] = json.loads(fresh(f"removal.without({name!r}, {how!r})", START))
    assert any(each.startswith(SAID.get(name, "")) for each in found or [""]), found
    return found


def test_nothing_is_lost_with_this_torch():
    assert lost_without("none", "there") == []


def test_all_names_are_known():
    print(f"{len(declared())} private names")
    assert len(declared()) == 107, "Say here how many private names of torch there are."
    assert set(SAID) <= set(declared())


@pytest.mark.parametrize("name", declared())
def test_it_works_without(name):
    lost_without(name, "gone")


@pytest.mark.full
@pytest.mark.parametrize("name", declared())
def test_it_works_if_it_raises(name):
    lost_without(name, "raises")


def test_each_private_name_of_torch_is_declared_in_torch_api():
    assert not undeclared(trees())


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import torch\ntorch._C._new()", "torch._C._new"),
        ("import torch._C", "torch._C"),
        ("from torch._C import new", "torch._C.new"),
        ("from torch.autograd import _new", "torch.autograd._new"),
        ("def f(node):\n    return node._brand_new", "node._brand_new"),
        ("def f(node):\n    return node.first().second._brand_new", ".second._brand_new"),
        ("def f(tensor):\n    return tensor._values()", "tensor._values"),
        ("def f(grad):\n    return grad._version", "grad._version"),
        ("class A:\n    def f(self):\n        return self.tensor._base", "self.tensor._base"),
        ("class A:\n    def f(self):\n        return self._graph._version", "self._graph._version"),
        ("def f(node):\n    return getattr(node, '_brand_new', None)", "_brand_new"),
        ("def f(node, name):\n    return getattr(node, f'_saved_{name}')", "_saved_"),
        ("read = attrgetter('_version')", "_version"),
        ("def f(module):\n    return vars(module)['_parameters']", "_parameters"),
        ("import sys\nsys.modules.get('torch._new')", "torch._new"),
    ],
)
def test_no_private_name_escapes(code, found):
    assert undeclared({"new.py": ast.parse(code)}) == [f"new.py: {found}"]
