"""Stepping through what is inside of open nodes."""

from __future__ import annotations

import random

import pytest
import torch
from compiled_zoo import ZOO, compiled_loss
from test_html import held
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx import Interpreter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, load, save, watch
from gradwalk.schema.columns import decode, encode
from gradwalk.widget.inner_steps import InnerSteps

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.usefixtures("compiles_anew"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*global hooks on modules.*:UserWarning"),
]


class Swish(torch.autograd.Function):
    """A custom Function whose backward notes in which order its operations ran."""

    ran: list[str] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with Ordered() as order:
            s = x.sigmoid()
            found = grad * (s + x * s * (1 - s))
        Swish.ran = order.ran
        return found


class Ordered(TorchDispatchMode):
    """Every operation of torch's that runs, in order."""

    def __init__(self):
        super().__init__()
        self.ran = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ran.append(str(func))
        return func(*args, **(kwargs or {}))


def swish():
    x = torch.tensor([3.0, -1.0], requires_grad=True)
    with watch():
        return Swish.apply(x * 2).square().sum()


def reentrant():
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    with watch():
        return checkpoint(lambda x: (x.tanh() * x).exp(), x * 2, use_reentrant=True).sum()


def compiled(name="mlp"):
    return compiled_loss(name, "aot_eager")


PROGRAMS = {"compiled": compiled, "custom Function": swish, "reentrant checkpoint": reentrant}


def opened(loss, **given):
    """A widget with all open that can be, at the start."""
    widget = GraphWidget(loss, **given)
    widget.backward()
    for node in widget._openable:
        widget.expand(node)
    widget.reset()
    return widget


def inner_of(widget):
    """The calls inside of each open node, by the order in which the graph has them."""
    found = {}
    for node in widget.model["nodes"]:
        if node["kind"] == "call":
            found.setdefault(node["inside"], []).append(node["id"])
    return found


def walked(widget):
    """(cursor, inner, what runs) of every place, step by step to the end."""
    found = []
    while (widget.cursor, widget.inner) != (len(widget.steps), 0):
        widget.step()
        details = widget.details
        found.append((widget.cursor, widget.inner, None if details is None else details["id"]))
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_go_through_what_is_inside_before_the_node_passes_on(program):
    widget = opened(PROGRAMS[program]())
    inner = inner_of(widget)
    assert inner
    expected = []
    for step in widget.steps:
        calls = inner.get(step.node, [])
        expected += [(step.step, i, call) for i, call in enumerate(calls, 1)]
        expected.append((step.step, 0, step.node))
    expected[-1] = (*expected[-1][:2], None)  # all is over
    assert walked(widget) == expected
    back = [(widget.cursor, widget.inner)]
    while back[-1] != (0, 0):
        widget.step_back()
        back.append((widget.cursor, widget.inner))
    assert back[-2::-1] == [each[:2] for each in expected]


def test_the_order_inside_is_that_in_which_the_program_really_ran():
    ran = []

    class Noting(Interpreter):
        def run_node(self, n):
            ran.append(n)
            return super().run_node(n)

    def noting(module, _):
        return make_boxed_func(lambda *args: Noting(module).run(*args))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))
    plain = lambda module, _: make_boxed_func(module.forward)  # noqa: E731
    backend = aot_autograd(fw_compiler=plain, bw_compiler=noting)
    widget = opened(torch.compile(model, backend=backend)(torch.randn(5, 3)).square().mean())
    really = [n.name for n in ran if n.op == "call_function" and "getitem" not in n.name]
    assert len(really) > 10
    assert names_stepped_through(widget) == really


def test_the_order_inside_of_a_function_is_that_in_which_its_backward_ran():
    widget = opened(swish())
    assert len(Swish.ran) == 6
    ops = {node["id"]: node["op"] for node in widget.model["nodes"]}
    stepped = [ops[node] for _, inner, node in walked(widget) if inner]
    assert stepped == Swish.ran


def names_stepped_through(widget):
    found = []
    while (widget.cursor, widget.inner) != (len(widget.steps), 0):
        widget.step()
        if widget.inner:
            found.append(widget.details["forward"].partition(" = ")[0])
    return found


@pytest.mark.parametrize("name", [name for name in ZOO if name in ("graph break", "dropout")])
def test_every_call_of_a_model_is_stepped_through_once(name):
    widget = opened(compiled(name))
    inner = inner_of(widget)
    stepped = [node for _, inner, node in walked(widget) if inner]
    assert sorted(stepped) == sorted(call for calls in inner.values() for call in calls)


@pytest.mark.parametrize("program", PROGRAMS)
def test_going_anywhere_in_any_order_stays_in_bounds_and_moves_no_grad(program):
    loss = PROGRAMS[program]()
    widget = opened(loss)
    openable = list(widget._openable)
    leaves = [one for one in widget._open().accumulated() if one.is_leaf]
    grads = []
    for cursor in range(len(widget.steps) + 1):
        widget.cursor = cursor
        grads.append([None if leaf.grad is None else leaf.grad.clone() for leaf in leaves])
    chance = random.Random(0)
    before = torch.get_rng_state()
    for _ in range(150):
        turn = chance.randrange(9)
        if turn < 3:
            widget.step(chance.choice([0, 1, 2, 50]))
        elif turn < 6:
            widget.step_back(chance.choice([0, 1, 2, 50]))
        elif turn == 6:
            widget.cursor = chance.randint(0, len(widget.steps))
        elif turn == 7:
            chance.choice([widget.expand, widget.collapse])(chance.choice(openable))
        else:
            inner = inner_of(widget).get(ran_at(widget), [])
            widget.inner = chance.randint(0, len(inner))
        inner = inner_of(widget).get(ran_at(widget), [])
        assert 0 <= widget.cursor <= len(widget.steps)
        assert 0 <= widget.inner <= len(inner)
        at, calls = widget._inner  # what the browser is told never says something else
        assert (calls if at == widget.cursor else 0) == widget.inner
        for leaf, grad in zip(leaves, grads[widget.cursor], strict=True):
            assert leaf.grad is None if grad is None else torch.equal(leaf.grad, grad)
        running = inner[widget.inner - 1] if widget.inner else ran_at(widget)
        is_over = widget.cursor == len(widget.steps) and not widget.inner
        assert (widget.details or {}).get("id") == (None if is_over else running)
    assert torch.equal(torch.get_rng_state(), before)


def ran_at(widget):
    return widget.steps[widget.cursor - 1].node if widget.cursor else None


def test_closing_what_we_are_inside_of_goes_back_to_the_node_itself():
    widget = opened(swish())
    (node,) = inner_of(widget)
    while not widget.inner:
        widget.step()
    widget.step(2)
    assert widget.inner == 3
    cursor = widget.cursor
    widget.collapse(node)
    assert (widget.cursor, widget.inner, widget.details["id"]) == (cursor, 0, node)
    widget.expand(node)
    assert (widget.cursor, widget.inner) == (cursor, 0)
    widget.step_back()
    assert (widget.cursor, widget.inner) == (cursor, 6)


def test_whoever_goes_elsewhere_is_not_inside_when_coming_back():
    widget = opened(swish())
    widget.step(5)
    cursor, inner = widget.cursor, widget.inner
    assert inner
    for leave in (widget.reset, lambda: setattr(widget, "cursor", cursor + 1), widget.backward):
        widget.cursor, widget.inner = cursor, inner
        leave()
        assert widget.inner == 0
        widget.cursor = cursor
        assert widget.inner == 0


def test_what_is_closed_is_one_step():
    widget = opened(compiled())
    (node,) = inner_of(widget)
    widget.collapse(node)
    assert [place[:2] for place in walked(widget)] == [(step.step, 0) for step in widget.steps]


def test_run_to_goes_to_a_call_and_to_the_node_around_it():
    widget = opened(swish())
    ((node, calls),) = inner_of(widget).items()
    widget.run_to(calls[2])
    assert (widget.inner, widget.details["id"]) == (3, calls[2])
    cursor = widget.cursor
    widget.run_to(node)
    assert (widget.cursor, widget.inner, widget.details["id"]) == (cursor, 0, node)


def test_before_any_pass_the_first_step_goes_in_where_the_first_node_is_open():
    torch.manual_seed(0)
    x = torch.randn(3, requires_grad=True)
    out = torch.compile(lambda x: x.sin().cos().sum(), backend="aot_eager")(x)
    widget = GraphWidget(out)
    widget.expand(0)
    widget.step()
    assert (widget.cursor, widget.inner) == (1, 1)
    assert x.grad is None


def test_a_call_has_no_value_before_it_ran():
    widget = opened(compiled())
    ((_, calls),) = inner_of(widget).items()
    widget.run_to(calls[3])
    widget.selected = calls[3]
    assert widget.details["value"] is not None
    widget.selected = calls[4]
    assert widget.details["value"] is None
    assert "has not run" in widget.details["value_note"]
    widget.step()
    assert widget.details["value"] is not None
    leaf = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "leaf")
    widget.selected = leaf
    assert widget.details["contributions"] == []  # the node has passed nothing on yet
    widget.inner = 0
    assert widget.details["contributions"] != []


@pytest.mark.parametrize(
    ("given", "said"),
    [(7, "are 6 calls. Give it a number of calls, 0 to 6"), (-1, "0 to 6"), (1.5, "0 to 6")],
)
def test_a_place_that_is_not_there_is_refused_in_words(given, said):
    widget = opened(swish())
    widget.run_to(next(iter(inner_of(widget))))
    with pytest.raises((TypeError, ValueError), match=said):
        widget.inner = given
    assert widget.inner == 0


def test_inside_of_what_is_closed_there_is_no_place():
    widget = GraphWidget(swish())
    widget.step()
    with pytest.raises(ValueError, match=r"open it with expand\(\)"):
        widget.inner = 1


@pytest.mark.parametrize("told", [None, "x", [1], [2, 99], [2, -4], [0, 3], [1.5, 2], [2, "1"]])
def test_what_the_browser_says_that_is_no_place_is_none(told):
    widget = opened(swish())
    widget.run_to(next(iter(inner_of(widget))))
    widget.set_state({"_inner": told})
    assert widget.inner == 0
    widget.step_back()
    assert widget.inner == 6


def test_the_browser_moves_both_at_once_or_one_after_the_other():
    widget = opened(swish())
    cursor = next(cursor for cursor, inner, _ in walked(widget) if inner)
    for told in (
        [{"cursor": cursor, "_inner": [cursor, 2]}],
        [{"_inner": [cursor, 2]}, {"cursor": cursor}],
    ):
        widget.reset()
        for state in told:
            widget.set_state(state)
        assert (widget.cursor, widget.inner) == (cursor, 2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_saved_file_and_a_page_are_stepped_through_like_the_widget(program, tmp_path):
    widget = opened(PROGRAMS[program]())
    ((_, calls), *_) = inner_of(widget).items()
    widget.run_to(calls[1])
    other = load(save(widget, tmp_path / "inside.gw"))
    assert (other.cursor, other.inner) == (widget.cursor, 2)
    assert other.details["id"] == calls[1]
    page = decode(held(widget.to_html()))
    assert (page["cursor"], page["inner"]) == (widget.cursor, 2)
    for each in (widget, other):
        each.reset()
    assert walked(other) == walked(widget)


def test_a_file_that_stands_where_nothing_is_is_refused(tmp_path):
    widget = opened(swish())
    path = save(widget, tmp_path / "inside.gw")
    saved = decode(path.read_bytes())
    path.write_bytes(encode({**saved, "inner": 1}))
    with pytest.raises(ValueError, match="the number of completed calls is 1"):
        load(path)


def test_the_order_of_thousands_of_calls_is_made_once(monkeypatch):
    made = []
    begin = InnerSteps.__init__
    monkeypatch.setattr(
        InnerSteps, "__init__", lambda self, *given: made.append(1) or begin(self, *given)
    )

    def long(x):
        for _ in range(300):
            x = x.sin()
        return x.sum()

    x = torch.randn(2, requires_grad=True)
    widget = opened(torch.compile(long, backend="aot_eager")(x))
    made.clear()
    widget.step(400)
    for _ in range(20):
        widget.step()
        widget.step_back(2)
    assert widget.inner > 300
    assert len(made) <= 1
