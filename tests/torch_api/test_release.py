"""Memory is given back, and deep graphs are freed without a crash, in whatever order."""

from __future__ import annotations

import functools
import gc
import threading
import weakref

import pytest
import torch
from fresh import run
from programs import Fails, MultiplyAdd
from torch.multiprocessing.reductions import StorageWeakRef

from gradwalk import GraphWidget, capture, make_dot, record, watch
from gradwalk.graph.adjacency import collector_paused


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
    observer = widget._source._passes.observer  # kept: a hook left behind would reach it
    widget.close()
    y.backward()
    assert observer.runs == 0
    assert observer.last is None


def look_not(output):
    pass


def look_with_a_widget(output):
    GraphWidget(output, names={}).close()


def look_while_watching(output):
    with watch():
        capture(output * 2)


LOOKS = [capture, record, make_dot, look_with_a_widget, look_while_watching]


@pytest.mark.parametrize("operations", [3, 1_000])
@pytest.mark.parametrize("look", LOOKS)
def test_a_graph_is_gone_as_soon_as_its_output_is(look, operations):
    x = torch.ones(3, requires_grad=True)
    lowest = y = x.exp()
    for _ in range(operations):
        y = y * lowest
    y = y.sum()
    saved = weakref.ref(lowest)
    gc.disable()
    try:
        look(y)
        del lowest, y
        assert saved() is None
    finally:
        gc.enable()
    x.data, x.grad = torch.ones(5), None  # torch remembers a shape as long as a graph lives
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 5


@pytest.mark.parametrize("operations", [3, 1_000])
def test_a_part_that_is_still_held_lives_on_and_nothing_else(operations):
    def some(y):
        for _ in range(operations):
            y = y * 1.0
        return y

    x = torch.ones(1, requires_grad=True)
    low = x.exp()
    middle = some(low * low)
    high = middle.exp()
    y = some(high * high)
    capture(y)
    low, high = weakref.ref(low), weakref.ref(high)
    del y
    assert (low() is None, high() is None) == (False, True)
    middle.backward()
    assert torch.isfinite(x.grad)
    del middle
    assert low() is None


class Notes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.notes = {}
        Notes.last = ctx
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def in_a_hook(y):
    node = y.grad_fn
    node.register_hook(lambda *_: node and None)
    return y


def in_a_context(y):
    y = Notes.apply(y)
    Notes.last.notes["out"] = y
    del Notes.last
    return y


@pytest.mark.parametrize("operations", [3, 1_000])
@pytest.mark.parametrize("cycle", [in_a_hook, in_a_context])
@pytest.mark.parametrize("look", [look_not, *LOOKS])
def test_a_graph_in_a_reference_cycle_is_collected(look, cycle, operations):
    def made():
        x = torch.ones(3, requires_grad=True)
        y = x
        for _ in range(operations):
            y = y * 1.0
        look(cycle(y.sum()))
        return weakref.ref(x)

    x = made()
    gc.collect()
    gc.collect()
    assert x() is None


_DEEP = """
import gc, threading, weakref
from gradwalk import make_dot
look, kind, depth = {look!r}, {kind!r}, {depth}

class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, grad): return grad

class Stop(BaseException): pass

def chain(y):
    for _ in range(depth):
        y = Same.apply(y) if kind == "function" else y * 1.0
    return y

def run():
    x = torch.ones(1, requires_grad=True)
    lowest = x.exp()
    y = lowest * lowest
    saved = weakref.ref(lowest)
    del lowest
    if look == "watch":
        with watch():
            y = chain(y)
    else:
        y = chain(y)
    gc.disable()
    if look == "capture":
        capture(y)
    elif look == "record":
        record(y)
    elif look == "make_dot":
        make_dot(y)
    elif look == "widget closed":
        GraphWidget(y, names={{}}, max_nodes=None).close()
    elif look == "widget closed last":
        widget = GraphWidget(y, names={{}}, max_nodes=None)
        y.backward()
        del y
        y = None
        widget.close()
        del widget
    elif look == "exception":
        from gradwalk.graph import capture as file
        walk = file._walk
        def half(graph, ids, most):
            walk(graph, ids, depth * 9 // 10)
            raise Stop
        file._walk = half
        try:
            capture(y)
        except Stop:
            print("stopped")
    elif look == "collector":
        cycle = [y]
        cycle.append(cycle)
        capture(y)
        del y, cycle
        y = None
        gc.collect()
    elif look == "exit":
        globals().update(kept=y, widget=GraphWidget(y, names={{}}, max_nodes=None))
        return
    del y
    assert saved() is None

if {stack}:
    threading.stack_size({stack} * 1024)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
else:
    run()
print("reached the end")
"""


def run_deep(look, kind, depth, stack):
    return run(_DEEP.format(look=look, kind=kind, depth=depth, stack=stack))


def what_is_freed(look, kind, depth, stack):
    done = run_deep(look, kind, depth, stack)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr  # an exception that Python could only ignore
    return done.stdout


@functools.cache
def freed_by_torch_alone(kind, depth, stack):
    """A depth that needs no help.

    Python 3.13 overflows a small stack when it frees some 2,000 functions of the user's in a row.
    """
    while depth and run_deep("nothing", kind, depth, stack).returncode != 0:
        depth //= 4
    return depth


_WAYS = (
    "capture",
    "record",
    "watch",
    "make_dot",
    "widget closed",
    "widget closed last",
    "exception",
    "collector",
    "exit",
)


_ON = {
    "main": ("operation", 100_000, 0),
    # Without help some 2,000 in a row overflow it, and some 40,000 the one above.
    "small stack": ("operation", 8_000, 512),
    "functions on a small stack": ("function", 8_000, 512),
}
_ALWAYS_ON_MAIN = "widget closed last"


@pytest.mark.parametrize(
    ("look", "kind", "depth", "stack"),
    [
        pytest.param(
            *(look, *deep),
            id=f"{where}-{look}",
            marks=[pytest.mark.full] if where == "main" and look != _ALWAYS_ON_MAIN else [],
        )
        for where, deep in _ON.items()
        for look in _WAYS
    ],
)
def test_a_deep_graph_is_freed_at_once_and_without_a_crash(look, kind, depth, stack):
    if kind == "function" and look in ("watch", "exception"):  # which leave nodes as they were
        depth = freed_by_torch_alone(kind, depth, stack)
        assert depth > 200
    assert "reached the end" in what_is_freed(look, kind, depth, stack)


@pytest.mark.full
def test_six_hundred_thousand_in_a_row():
    assert "reached the end" in what_is_freed("capture", "operation", 600_000, 0)


class Holder:
    pass


@pytest.mark.parametrize("look", [look_not, capture, record, look_with_a_widget])
def test_the_users_garbage_is_collected_while_gradwalk_is_called_in_a_loop(look):
    x = torch.ones(3, requires_grad=True)
    alive = weakref.WeakSet()
    most = 0
    usual = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # what Python counts up to is not the same in all versions
    gc.collect()
    try:
        for _ in range(1_200):
            holder = Holder()
            holder.me = holder
            alive.add(holder)
            look((x * 2).sum())
            _ = [[i] for i in range(300)]
            most = max(most, len(alive))
    finally:
        gc.set_threshold(*usual)
    assert most < 600


def interrupted():
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise KeyboardInterrupt


def test_the_collector_is_as_it_was_whatever_happens_within():
    before = gc.get_threshold()
    for was in (True, False):
        (gc.enable if was else gc.disable)()
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted()
            assert gc.isenabled() == was
        finally:
            gc.enable()
    assert gc.get_threshold() == before


def test_threads_that_pause_the_collector_leave_it_on():
    together = threading.Barrier(8)

    def run():
        together.wait()
        for _ in range(200):
            with collector_paused():
                assert not gc.isenabled()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()
