"""What an update shows and sends, beside a new widget of an equal graph: nothing may be stale."""

from __future__ import annotations

import functools
import re
from concurrent.futures import ThreadPoolExecutor

import ipywidgets
import pytest
import torch
from test_update import Heard
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, interact, watch
from gradwalk.schema.columns import decode
from gradwalk.widget import graph_controllers

pytestmark = pytest.mark.one_python

TOLD = {
    "model",
    "_dtypes",
    "state",
    "_steps",
    "run",
    "transport",
    "_number_inputs",
    "_openable",
    "_fault",
}
"""What tells of the graph; the rest of a widget's state is how it is looked at."""


def in_a_thread(test):
    """Run a test in a thread of its own: `watch` marks only so many nodes for each."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(test, *args, **kwargs).result()

    return run


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Without a limit, so that nothing depends on how fast a test runs."""
    monkeypatch.setattr(graph_controllers, "AT_MOST_EVERY", 0)


def plain(value):
    return decode(bytes(value)) if isinstance(value, (bytes, memoryview)) else value


def told(widget):
    return {name: plain(value) for name, value in widget.get_state().items() if name in TOLD}


def received(heard, begun):
    """What a page knows that was there from the beginning: of what was sent, the last of each."""
    known = dict(begun)
    for message in heard.sent:
        known.update({name: plain(value) for name, value in message.items()})
        if message.get("_values") is not None:
            nodes = zip(known["model"]["nodes"], message["_values"], strict=True)
            known["model"] = {
                **known["model"],
                "nodes": [{**node, "value": value} for node, value in nodes],
            }
    return {name: known[name] for name in TOLD}


def everything(widget):
    """All that can be asked of it."""
    shown = told(widget)
    widget._handle({"kind": "memory"})
    shown["memory"] = widget._memory
    shown["findings"] = [str(each) for each in widget.diagnose(names={})]
    shown["json"] = re.sub(r'"sequence_nr": \d+', "", widget.to_json())
    shown["text"] = str(widget)
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        shown[f"details of {node}"] = widget.details
    widget.selected = None
    return shown


def sliders(values):
    return {
        name: ipywidgets.FloatSlider(value, min=-5.0, max=5.0, step=0.25)
        for name, value in values.items()
    }


def same(one, other, at=""):
    """Compare at every depth, so that a failure says where."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), at
        one, other = one.items(), other.items()
        for (name, mine), (_, its) in zip(sorted(one), sorted(other), strict=True):
            same(mine, its, f"{at}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (mine, its) in enumerate(zip(one, other, strict=True)):
            same(mine, its, f"{at}[{i}]")
    else:
        assert (type(one), one) == (type(other), other), at


def branches():
    def function(w, b):
        if w > 1:
            h = (w * 2.0).tanh()
        elif w > 0:
            h = (w * 2.0).tanh()  # the same, in another line
        else:
            other = torch.relu(w * 2.0)
            h = other + b
        return (h - 1) ** 2

    return function


def constants():
    known = torch.tensor([3.0, 4.0])

    def function(w, b):
        kept = torch.zeros(()).fill_(float(w.detach()))
        scale = round(w.item())
        shift = torch.tensor([1.0, 2.0]) * w.detach()
        return ((w * scale + kept) * b / 4 + shift * known).sum() ** (2 if b > 0 else 3)

    return function


def cuts_and_grads():
    def function(w, b):
        h = w * b
        if w > 1:
            h = h.detach() * w
        elif w > 0:
            with torch.no_grad():
                held = h * 2
            h = held * w
        else:
            h.retain_grad()
            h.register_hook(lambda grad: grad * 2)
            h = h * w
        inner = w * 2
        inner.mul_(b.detach())
        return h + inner

    return function


def sizes():
    def function(w, b):
        many = torch.arange(1.0, 2 + abs(round(w.item() * 2)))
        out = many * w
        for _ in range(round(abs(b.item()))):
            out = (out + b).sin()
        return out.double().sum() if w < 0 else out.sum()

    return function


def numbers():
    def function(w, b):
        return torch.sqrt(w) / torch.where(b > 0, b - b, b) + torch.exp(w * 40)

    return function


def names():
    def function(w, b):
        if w > 0:
            first = w * b
            return first + 1
        second = w * b
        return second + 1

    return function


def modules():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), nn.ReLU())
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    other = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), nn.ReLU())

    def function(w, b):
        taken = other if w < 0 else model
        taken.train(bool(b > 0))
        taken[0].bias.requires_grad_(bool(b < 2))
        nn.init.constant_(taken[0].weight, w.item())
        x = torch.ones(2, 3) * w
        return nn.functional.dropout(taken(x), 0.0, taken.training).mean() * b

    return function


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def functions():
    def function(w, b):
        def inner(x):
            return x.sin() * b

        y = checkpoint(inner, w, use_reentrant=False) if w > 0 else inner(w)
        y = Twice.apply(y) if b > 0 else y * 2
        if w > 1:
            (y,) = torch.autograd.grad(y, w, create_graph=True)
            y = y + w
        return y, {"second": y * w}

    return function


PROGRAMS = [branches, constants, cuts_and_grads, sizes, numbers, names, modules, functions]
MOVES = [
    *(("w", 1.5), ("w", 1.25), ("w", 0.75), ("w", -1.0), ("w", -1.5), ("b", 2.5), ("b", -1.0)),
    *(("w", 0.25), ("w", 2.0), ("b", 0.0), ("w", 0.0), ("b", 3.0)),
]


@pytest.mark.parametrize("make", PROGRAMS)
@in_a_thread
def test_each_move_of_a_slider_shows_and_sends_what_a_new_picture_would(make):
    values = {"w": 0.5, "b": 0.5}
    box = interact(make(), **sliders(values))
    begun = told(box.widget)
    heard = Heard(box.widget)
    for turn, (name, value) in enumerate(MOVES):
        box.controls[name].value = values[name] = value
        fresh = interact(make(), **sliders(values))
        same(received(heard, begun), told(fresh.widget))
        if turn % 4 == 3:
            same(everything(box.widget), everything(fresh.widget))
        fresh.close()
    box.close()


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("make", PROGRAMS)
@in_a_thread
def test_each_update_of_a_loop_shows_and_sends_what_a_new_picture_would(make, is_watched):
    function = make()

    def loss_of(w, b):
        leaves = {
            "w": torch.tensor(w, requires_grad=True),
            "b": torch.tensor(b, requires_grad=True),
        }
        if not is_watched:
            return function(**leaves), leaves
        with watch():
            return function(**leaves), leaves

    values = {"w": 0.5, "b": 0.5}
    loss, leaves = loss_of(**values)
    widget = GraphWidget(loss, names=leaves)
    begun = told(widget)
    heard = Heard(widget)
    for turn, (name, value) in enumerate(MOVES):
        values[name] = value
        loss, leaves = loss_of(**values)
        widget.update(loss, names=leaves)
        fresh = GraphWidget(loss, names=leaves)
        same(told(widget), told(fresh))
        outputs = [loss] if isinstance(loss, torch.Tensor) else [loss[0], loss[1]["second"]]
        torch.autograd.backward(outputs, retain_graph=value > 0)
        if turn % 4 == 1:
            same(everything(widget), everything(fresh))
        same(received(heard, begun), told(fresh))
        fresh.close()
    widget.close()


def as_tensor(value):
    """Numbers as they are sent: NaN and infinities are words."""
    return torch.tensor(
        [as_tensor(each).tolist() for each in value] if isinstance(value, list) else float(value)
    )


def operations_of(output):
    """The kinds of the nodes of torch's own graph."""
    waiting = [output.grad_fn]
    for node in waiting:
        after = (each for each, _ in node.next_functions)
        waiting += [each for each in after if each is not None and each not in waiting]
    return sorted(node.name().rpartition("::")[2] for node in waiting)


@pytest.mark.parametrize("make", [branches, constants, cuts_and_grads, numbers, names, modules])
@in_a_thread
def test_each_move_of_a_slider_sends_what_torch_computes(make):
    """Beside a new picture what is missing in both would not be missed."""
    values = {"w": 0.5, "b": 0.5}
    box = interact(make(), **sliders(values))
    begun, function = told(box.widget), make()
    heard = Heard(box.widget)
    for name, value in MOVES:
        box.controls[name].value = values[name] = value
        known = received(heard, begun)
        leaves = {name: torch.tensor(at, requires_grad=True) for name, at in values.items()}
        out = function(**leaves)
        out.backward()
        drawn = {node["name"]: node for node in known["model"]["nodes"] if node["kind"] == "leaf"}
        sent = {each["node"]: each["values"] for each in known["run"]["grads"]}
        used = {name: leaf for name, leaf in leaves.items() if leaf.grad is not None}
        assert drawn.keys() & leaves.keys() == used.keys()
        (root,) = (known["model"]["nodes"][each["node"]] for each in known["model"]["roots"])
        both = [(root["value"], out.detach())]
        for of, leaf in used.items():
            both.append((drawn[of]["value"], leaf.detach()))
            both.append((sent[drawn[of]["id"]], leaf.grad))
        for of_page, of_torch in both:
            torch.testing.assert_close(
                as_tensor(of_page), of_torch, rtol=1e-6, atol=0, equal_nan=True
            )
        ops = [node["op"] for node in known["model"]["nodes"] if node["kind"] in {"op", "leaf"}]
        assert sorted(ops) == operations_of(out)
        assert known["state"]["reached"] == list(range(len(ops)))
        assert len(known["_steps"]) == len(ops)
    box.close()
