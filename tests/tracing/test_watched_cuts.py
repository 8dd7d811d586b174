"""What `watch` knows of constants, and of where gradient was cut."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable

import pytest
import torch
from annotation_of import annotation_of
from engine import operations_behind
from programs import leaf
from test_watch import line, seen
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn import functional as F

import gradwalk
from gradwalk.torch_api.nodes import sequence_nr
from gradwalk.tracing import extra_nodes, records
from gradwalk.tracing.annotations import cuts_of
from gradwalk.tracing.watch import watch

CUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "copy": lambda x: x.new_tensor(x),
    "numpy": lambda x: torch.from_numpy(x.numpy(force=True)),
    "integer cast": lambda x: x.long(),
    "integer result": lambda x: x > 0,
    "no_grad": torch.no_grad()(lambda x: x * 2),
    "item": lambda x: torch.tensor(x.sum().item()),
}


MADE: dict[str, Callable[[], Tensor]] = {
    "tensor": lambda: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "ones": lambda: torch.ones(3, requires_grad=True),
    "requires_grad_": lambda: torch.ones(3).requires_grad_(),
    "ones_like": lambda: torch.ones_like(torch.ones(3), requires_grad=True),
    "detach": lambda: (leaf(3) * 2).detach().requires_grad_(),
    "Parameter": lambda: nn.Parameter(torch.ones(3)),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("made", MADE)
def test_a_cut_of_a_leaf_that_was_made_under_watch(how, made):
    with watch():
        w, x = leaf(3), MADE[made]()
        y = w * CUTS[how](x)
    cut = seen(y).cuts[-1]
    assert cut.how == how
    assert [reference() for reference in cut.leaves] == [x]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("how", CUTS)
def test_each_kind_of_cut_is_traced_to_its_source(how):
    w, x = leaf(3), leaf(3)
    with watch():
        y = w * CUTS[how](x)
    (cut,) = seen(y).cuts
    assert cut.how == how
    assert cut.where.text.startswith(f'"{how}": ')
    assert [reference() for reference in cut.leaves] == [x]
    assert how == "item" or cut.source() is x


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("how", CUTS)
def test_cuts_at_one_line_are_told_apart_by_their_tensors(how):
    x, y, w = leaf(3), leaf(3), leaf(3)
    with watch():
        free = [CUTS[how](each) for each in (x, y, x, x)]
        out = w * (free[0] + free[1] + free[2] + free[3])
    cuts = seen(out).cuts
    expected = [x, y, x, x] if how == "item" else [x, y]  # the sum is a new tensor each time
    assert [next(iter(cut.leaves))() is each for cut, each in zip(cuts, expected, strict=True)]
    again = (*cuts, *cuts_of(free[0]))
    del x, y, expected
    assert len(set(again)) == len(cuts)


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_cut_is_traced_through_operations_without_grad(how):
    w, x = leaf(3), leaf(3)
    with watch():
        between = (CUTS[how](x) * 2).reshape(1, -1)[0] + torch.ones(3)
        y = w * between
    (constant,) = seen(y).constants
    assert [cut.how for cut in constant.cuts] == [how]
    assert cuts_of(between) == constant.cuts
    assert constant.tensor() is between
    assert (constant.position, constant.argument, constant.arg_nr) == (1, "other", 1)
    assert y.grad_fn.next_functions[1][0] is None


def test_an_inference_tensor_is_a_cut():
    x = leaf(3)
    with watch():
        with torch.inference_mode():
            y = x * 2
        w = leaf(3) + y
    (cut,) = seen(w).cuts
    assert cut.how == "inference_mode"


def test_a_no_grad_region_is_known_with_the_line_that_opened_it():
    x = leaf(3)
    with watch(), torch.no_grad():
        opened = line() - 1
        y = x * 2
        made = line() - 1
    (cut,) = cuts_of(y)
    assert (cut.region.line, cut.where.line) == (opened, made)


def test_a_number_read_out_of_a_tensor_is_a_constant_with_a_cut():
    w, x = leaf(3), leaf(3)
    with watch():
        y = w * x.sum().item()
        z = w * 2.5
    (constant,) = seen(y).constants
    assert (constant.shape, constant.dtype, constant.values) == ((), "float", x.sum().item())
    assert [cut.how for cut in constant.cuts] == ["item"]
    (own,) = seen(z).constants  # a number of the program's own
    assert (own.values, own.argument, own.cuts) == (2.5, "other", ())


def test_what_takes_only_the_shape_of_a_tensor_is_no_cut():
    x = leaf(3)
    unwatched = torch.ones(3)
    with watch():
        detached, made = x.detach(), torch.ones(3)
        like, integer_like = torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64)
    (cut,) = cuts_of(detached)
    assert (cut.how, cut.shape) == ("detach", (3,))
    assert cuts_of(made) == cuts_of(like) == cuts_of(integer_like) == ()
    assert cuts_of(unwatched) == cuts_of(x) == ()


def test_a_constant_is_described():
    w = leaf(2, 2)
    with watch():
        c = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        y = F.linear(input=c, weight=w)
        z = torch.cat([w, c])
        large = w + torch.ones(5, 2, 2, dtype=torch.float64)
    (constant,) = seen(y).constants
    assert constant.position == constant.argument == "input"
    assert (constant.shape, constant.dtype) == ((2, 2), "torch.float32")
    assert constant.values == c.tolist()
    assert constant.origin.where.line == inspect.findsource(test_a_constant_is_described)[1] + 4
    assert constant.cuts == ()
    (joined,) = seen(z).constants
    assert (joined.position, joined.argument, joined.arg_nr) == ("0[1]", "tensors[1]", 1)
    (summed,) = seen(large).constants
    assert (summed.shape, summed.dtype, summed.values) == ((5, 2, 2), "torch.float64", None)


def test_a_mask_is_no_forward_input_of_the_node():
    x = leaf(3)
    with watch():
        y = torch.where(torch.tensor([True, False, True]), x, 0.0)
    (mask,) = seen(y).constants
    assert (mask.argument, mask.arg_nr) == ("condition", None)


def test_the_source_of_a_cut_is_found_in_its_own_graph_when_the_tensor_is_gone():
    x = leaf(3)
    with watch():
        y = x.exp()
        z = y.detach() * x
        w = y * 3
    (cut,) = seen(z).cuts
    node = y.grad_fn
    assert records.find_source(cut, dict) == (node, 0)
    del y
    assert cut.source() is None
    for tensor, found in [(w, (node, 0)), (z, None)]:
        numbered: dict[int, list[Node]] = {}
        for each in operations_behind(tensor):
            numbered.setdefault(sequence_nr(each), []).append(each)
        assert records.find_source(cut, lambda numbered=numbered: numbered) == found


@pytest.mark.parametrize("steps", [1, 40])
def test_the_nodes_are_numbered_once_for_all_cuts_whose_tensors_are_gone(steps, monkeypatch):
    """A loop that cuts at every step: looking through all nodes for each would be quadratic."""
    numbered = []
    monkeypatch.setattr(extra_nodes, "sequence_nr", lambda n: numbered.append(n) or sequence_nr(n))
    h = w = leaf(1)
    with watch():
        for _ in range(steps):
            t = h * 0.5
            h = t + t.detach()
        del t
        graph = gradwalk.capture(h)
    cuts = [node for node, data in graph.nodes(data=True) if data["kind"] == "cut"]
    began = [source for cut in cuts for source in graph.successors(cut)]
    assert sorted(began) == [i for i, op in graph.nodes(data="op") if op == "MulBackward0"]
    assert len(numbered) <= len(set(numbered)) + 2 * len(cuts)  # a cut compares two nodes
    assert (len(cuts), w.grad) == (steps, None)


def test_the_leaves_behind_a_cut_outlive_the_graph_between():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    with watch():
        loss = (leaf(2) * model(torch.ones(2)).detach()).sum()
    gc.collect()
    (product,) = [node for node in operations_behind(loss) if node.name() == "MulBackward0"]
    (cut,) = annotation_of(product).cuts
    assert cut.source() is None
    assert {reference() for reference in cut.leaves} == set(model.parameters())


def test_detach_in_place_is_a_cut():
    x = leaf(3)
    with watch():
        y = x * 2
        y.detach_()
        z = y * leaf(3)
    (cut,) = seen(z).cuts
    assert cut.how == "detach"
    assert [reference() for reference in cut.leaves] == [x]
