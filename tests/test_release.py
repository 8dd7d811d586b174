"""Memory is given back, and deep graphs are freed without a crash, in whatever order."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest
import torch
from programs import MultiplyAdd

from gradwalk import GraphWidget, capture, release


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
    observer = widget._observer  # kept alive, so that a hook left behind would reach it
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


@pytest.mark.parametrize("order", ["close first", "delete first", "leave open"])
@pytest.mark.parametrize("threaded", [False, True], ids=["main", "worker"])
def test_a_hundred_thousand_deep_chain_is_freed_without_a_crash(order, threaded):
    code = _DEEP.format(depth=100_000, order=order, threaded=threaded)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reached the end" in done.stdout


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reached the end" in done.stdout
