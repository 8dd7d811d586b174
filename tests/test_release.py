"""Memory is given back, and deep graphs are freed without a crash, in whatever order."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest
import torch
from programs import Fails, MultiplyAdd
from torch.multiprocessing.reductions import StorageWeakRef

from gradwalk import GraphWidget, capture
from gradwalk.graph import release


def test_after_close_and_del_tensors_and_nodes_are_gone():
    x = torch.ones(3, requires_grad=True)
    saved = x.exp()
    made = MultiplyAdd.apply(2.0, saved, x)
    loss = (made * saved).sum()
    widget = GraphWidget(loss, names={})
    widget.selected = 0
    loss.backward()
    refs = [weakref.ref(saved), weakref.ref(made.grad_fn), weakref.ref(loss)]
    widget.close()
    del saved, made, loss, widget
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_an_open_widget_keeps_the_graph_and_closing_it_frees():
    x = torch.ones(3, requires_grad=True)
    saved = x.exp()
    widget = GraphWidget((saved * saved).sum(), names={})
    ref = weakref.ref(saved)
    del saved
    assert ref() is not None  # the graph saved it
    widget.close()
    gc.collect()
    assert ref() is None


def test_a_closed_widget_that_is_still_referred_to_holds_no_graph():
    x = torch.ones(3, requires_grad=True)
    saved = x.exp()
    widget = GraphWidget((saved * saved).sum(), names={"saved": saved})
    widget.selected = 1
    ref = weakref.ref(saved)
    widget.close()
    del saved
    gc.collect()
    assert ref() is None
    assert "closed" in repr(widget)


def test_a_widget_whose_backward_failed_lets_go_too():
    x = torch.ones(3, requires_grad=True)
    saved = x.exp()
    loss = (Fails.apply(saved) * saved).sum()
    widget = GraphWidget(loss, names={})
    with pytest.raises(ValueError, match="no gradient today"):
        loss.backward()
    ref = weakref.ref(saved)
    widget.close()
    del saved, loss
    gc.collect()
    assert ref() is None


def test_widgets_made_in_a_loop_are_gone_too():
    gc.collect()
    held = len(release._held)
    refs = []
    for _ in range(3):
        x = torch.ones(100, requires_grad=True)
        y = x.exp()
        loss = (y * y).sum()
        widget = GraphWidget(loss)  # looks for names among the variables here
        widget.selected = 1
        loss.backward()
        assert widget.details["grad_output"] is not None
        refs += [weakref.ref(y), weakref.ref(widget)]
        widget.close()
    del x, y, loss, widget
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6
    assert len(release._held) == held


def test_the_gradients_seen_are_freed_with_the_widget():
    x = torch.ones(500, requires_grad=True)
    middle = x * 2
    flowed = []
    middle.register_hook(lambda grad: flowed.append(StorageWeakRef(grad.untyped_storage())))
    loss = (middle * torch.ones(500)).sum()
    widget = GraphWidget(loss, names={})
    loss.backward()
    gc.collect()
    assert not flowed[0].expired()  # shown when it is asked for, so kept until then
    widget.close()
    gc.collect()
    assert flowed[0].expired()


def test_a_capture_does_not_keep_the_graph():
    x = torch.ones(3, requires_grad=True)
    saved = x.exp()
    graph = capture((saved * saved).sum())
    ref = weakref.ref(saved)
    del saved
    gc.collect()
    assert ref() is None
    assert len(graph) == 4


def test_closing_removes_every_hook():
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).sum()
    widget = GraphWidget(y, names={})
    observer = widget._subject._observer  # kept alive, so that a hook left behind would reach it
    widget.close()
    y.backward()
    assert observer.runs == 0
    assert observer.last is None


def test_nothing_is_held_once_everything_is_gone():
    gc.collect()
    before = len(release._held)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        y = MultiplyAdd.apply(2.0, x * x, x)
        capture(y, (x * 3).sum())
        del x, y
    gc.collect()
    assert len(release._held) == before


def test_an_intermediate_that_lives_on_keeps_only_its_own_part():
    gc.collect()
    before = len(release._held)
    y = x = torch.ones(1, requires_grad=True)
    for i in range(10):
        y = y * 1.0
        if i == 4:
            middle = y
    capture(y)
    assert len(release._held) == before + 11
    del y
    gc.collect()
    assert len(release._held) == before + 6  # five multiplications and the leaf
    del middle, x
    gc.collect()
    assert len(release._held) == before


_DEEP = """
import gc, sys, threading, torch
from gradwalk import GraphWidget, capture

def chain(depth):
    y = x = torch.ones(1, requires_grad=True)
    for _ in range(depth):
        y = y * 1.0
    return x, y

def run(order):
    x, y = chain({depth})
    graph = capture(y)
    widget = GraphWidget(y, names={{}})
    y.backward()
    widget.selected = 3
    assert widget.details["grad_output"][0]["values"] == [1.0]
    assert x.grad.item() == 1.0
    if order == "close first":
        widget.close(); del widget; del y
    elif order == "delete first":
        del y; widget.close(); del widget
    elif order == "leave open":
        globals().update(y=y, widget=widget)
    gc.collect()

if {threaded}:
    thread = threading.Thread(target=run, args=({order!r},))
    thread.start(); thread.join()
else:
    run({order!r})
print("reached the end")
"""


def in_another_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr  # an exception that Python could only ignore
    return done.stdout


@pytest.mark.parametrize("order", ["close first", "delete first", "leave open"])
@pytest.mark.parametrize("threaded", [False, True], ids=["main", "worker"])
def test_a_hundred_thousand_deep_chain_is_freed_without_a_crash(order, threaded):
    code = _DEEP.format(depth=100_000, order=order, threaded=threaded)
    assert "reached the end" in in_another_process(code)


_PARTS = """
import gc, threading, torch
from gradwalk import capture
from gradwalk.graph import release

def leaf():
    return torch.ones(1, requires_grad=True)

def chain(start):
    for _ in range(20_000):
        start = start * 1.0
    return start

def the_middle_outlives_the_end():
    #   x ─► 20,000 ─► middle ─┬─► 20,000 ─► y
    #                          └─► 20,000 ─► again, which nobody captured yet
    middle = chain(x := leaf())
    y = chain(middle)
    capture(y)
    del y
    again = chain(middle)
    capture(middle)
    del middle
    capture(again)
    again.mul_(2.0)  # one more node, which Python never touched
    del x, again

def only_the_collector_frees_the_end():
    cycle = [chain(leaf())]
    cycle.append(cycle)
    capture(cycle[0])
    del cycle
    gc.collect()

def a_node_is_all_that_was_given():
    y = chain(leaf())
    capture(y.grad_fn)
    del y

threading.stack_size(512 * 1024)  # as on macOS
parts = the_middle_outlives_the_end, only_the_collector_frees_the_end, a_node_is_all_that_was_given
for part in parts:
    thread = threading.Thread(target=part)
    thread.start()
    thread.join()
gc.collect()
print("held:", len(release._held))
"""


def test_deep_chains_of_which_a_part_lives_on():
    assert in_another_process(_PARTS).strip() == "held: 0"


def test_a_deep_chain_of_custom_functions():
    code = """
import gc, torch
from gradwalk import capture
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, grad): return grad
y = torch.ones(1, requires_grad=True)
for _ in range(30_000): y = Same.apply(y)
capture(y)
del y
gc.collect()
print("reached the end")
"""
    assert "reached the end" in in_another_process(code)
