"""Who holds a graph: named, with what is freed when it lets go."""

from __future__ import annotations

import ctypes
import gc
import types
import weakref

import pytest
import torch
from fresh import fresh
from leaks import LEAKS, one
from torch.autograd.graph import Node
from torch.multiprocessing.reductions import StorageWeakRef

from gradwalk import GraphWidget, held, record, watch
from gradwalk.result import make
from gradwalk.results import HeldGraph


def alive():
    """Every storage that a tensor or a node uses: a weak reference, and its bytes."""
    gc.collect()
    found, known = {}, set()
    objects = [each for each in gc.get_objects() if issubclass(type(each), (torch.Tensor, Node))]
    tensors = [each for each in objects if isinstance(each, torch.Tensor)]
    tensors += [each.grad for each in tensors if each.is_leaf and each.grad is not None]
    waiting = [each for each in objects if not isinstance(each, torch.Tensor)]
    waiting += [each.grad_fn for each in tensors]
    del objects
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        waiting += [child for child, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_"):
                try:
                    value = getattr(node, name)
                except RuntimeError:  # freed
                    continue
                tensors += [value] if isinstance(value, torch.Tensor) else []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
    return found


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_named_and_freed(name):
    gc.collect()
    box = types.SimpleNamespace()
    expected, let_go = LEAKS[name](box)
    storages = alive()
    graphs = [each for each in held() if expected in str(each)]
    assert len(graphs) == 1, [str(each) for each in held()]
    said = graphs[0].bytes
    assert said > 0
    let_go()
    gc.collect()
    freed = sum(size for storage, size in storages.values() if storage.expired())
    # A recording has gradients besides the graph, a widget has copies of small saved tensors.
    if name in {"a_recording", "an_open_widget"}:
        assert freed > said
    else:
        assert freed == said
    assert not [each for each in held() if expected in str(each)]


class Trainer:
    def __init__(self) -> None:
        self.callback, self.loss = self.end, one()

    def end(self) -> None:
        pass


class Itself:
    def __init__(self) -> None:
        self.me, self.loss = self, one()


def caught() -> None:
    loss = one()  # noqa: F841  the traceback's frame holds it
    try:
        raise ValueError("caught")
    except ValueError as error:
        known = error  # noqa: F841


@pytest.mark.parametrize("make_garbage", [Trainer, Itself, caught])
def test_garbage_in_a_cycle_waits_for_the_collector(make_garbage):
    gc.collect()
    before = len(held())
    gc.disable()
    try:
        make_garbage()
        (found,) = (each for each in held() if "in a cycle" in str(each))
        assert "gc.collect() frees them" in str(found)
    finally:
        gc.enable()
    gc.collect()
    assert len(held()) == before


def test_a_cycle_that_something_unseen_holds_is_not_called_garbage():
    cycle = Itself()
    unseen = ctypes.py_object(cycle)
    ctypes.pythonapi.Py_IncRef(unseen)  # as C++ code does
    del cycle, unseen
    try:
        assert not [each for each in held() if "in a cycle" in str(each)]
    finally:
        (found,) = (each for each in gc.get_objects() if type(each) is Itself)
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(found))
        del found
    gc.collect()


def test_there_are_enough_leaks():
    assert len(LEAKS) >= 30


def test_the_graph_of_one_tensor():
    history = [one(i) for i in range(3)]
    found = held(history[1])
    assert found == make(
        HeldGraph,
        graphs=1,
        bytes=412,
        holders=["history[1] (list, local of test_the_graph_of_one_tensor())"],
        line=None,
        advice="Keep `loss.item()` or `loss.detach()` there instead.",
    )
    assert str(found) == (
        "1 graph, 412 bytes: history[1] (list, local of test_the_graph_of_one_tensor()). "
        "Keep `loss.item()` or `loss.detach()` there instead."
    )


def test_a_notebook_shows_a_bar_for_each(monkeypatch):
    losses = {"<small>": one(0)}
    large = (torch.ones(100_000, requires_grad=True) * 2).exp().sum()
    found = held()
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(found) >= 2
    assert f"<b>{sum(each.graphs for each in found)} graphs keep" in shown
    assert "&lt;small&gt;" in shown
    assert "<small>" not in shown
    assert found[0]._repr_html_().count("<tr>") == 1
    assert "width:160px;height:12px;background" in found[0]._repr_html_()
    del losses, large
    monkeypatch.setattr("gradwalk.features.held.held.held_graphs", lambda _: [])
    assert "No autograd graph is alive" in held()._repr_html_()


def test_the_line_is_known_under_watch():
    weight = torch.ones(3, requires_grad=True)
    with watch():
        loss = (weight * 2).sum()
    assert "test_held.py:" in held(loss).line
    assert f"; computed at {held(loss).line}. " in str(held(loss))


def test_each_variable_and_each_container_is_named_once():
    loss = one()
    alias = loss
    history, table = [loss], {"loss": loss}
    assert [each.split(" ")[0] for each in held(loss).holders] == [
        *("loss", "alias", "history[0]", "table['loss']")
    ]
    del alias, history, table


def test_memory_that_something_else_holds_is_not_counted():
    weight = torch.ones(100, requires_grad=True)
    data = torch.ones(100)
    loss = (weight * data).sum()
    assert held(loss).bytes == 4
    del data
    assert held(loss).bytes == 404


def test_graphs_that_share_only_leaves_are_separate():
    weight = torch.ones(100, requires_grad=True)
    first, second = weight.exp().sum(), weight.exp().sum()
    assert held(first).graphs == held(second).graphs == 1
    total = first + second
    assert held(total).bytes == held(first).bytes == 812


def test_nothing_is_kept_alive_and_nothing_is_collected():
    history = [one()]
    tensor, storage = weakref.ref(history[0]), StorageWeakRef(history[0].untyped_storage())
    gc.disable()
    collections = [each["collections"] for each in gc.get_stats()]
    held()
    found = held(history[0])
    assert [each["collections"] for each in gc.get_stats()] == collections
    assert not gc.isenabled()
    gc.enable()
    held()
    assert gc.isenabled()
    history.clear()
    assert tensor() is None
    assert storage.expired()
    assert found.bytes == 412


def test_looking_changes_no_gradient_no_random_state_and_no_attribute():
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    state, grad_mode = torch.get_rng_state(), torch.is_grad_enabled()
    held()
    held(loss)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled() == grad_mode
    assert weight.grad is None
    loss.backward()
    assert weight.grad.tolist() == [2, 2, 2]


def test_an_object_that_refuses_to_be_looked_at_does_no_harm():
    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __eq__(self, other):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

        __hash__ = object.__hash__

    hostile = Hostile()
    hostile.loss = one()
    table = {hostile: hostile.loss}
    found = held(table[hostile]).holders
    assert {each.split(" ")[0] for each in found} == {"hostile.loss", "table[Hostile]"}


def test_deep_graphs_do_not_crash():
    fresh(
        """
        x = torch.ones(1, requires_grad=True)
        for _ in range(50_000):
            x = x + 1
        assert gradwalk.held(x).graphs == 1
        del x
        """
    )


@pytest.mark.parametrize("given", [3, "loss", [None]])
def test_wrong_arguments_get_a_sentence(given):
    with pytest.raises((TypeError, ValueError), match=r"held\(\)"):
        held(given)


def test_a_result_without_grad_has_no_graph():
    with pytest.raises(ValueError, match="requires_grad=False"):
        held(torch.ones(1))


def test_a_wrapper_names_by_its_callers_variables():
    def shown(part, level):
        return held(part, stacklevel=level)

    weight = torch.ones(3, requires_grad=True)
    weight.seen = [one()]
    assert any("weight.seen[0]" in each for each in shown(weight.seen[0], 2).holders)


def test_a_widget_and_a_recording_are_named_beside_a_variable():
    loss = one()
    widget, recording = GraphWidget(loss), record(loss)
    assert [each.split(" ")[0] for each in sorted(held(loss).holders)] == [
        *("loss", "recording", "widget")
    ]
    widget.close()
    del recording
    assert [each.split(" ")[0] for each in held(loss).holders] == ["loss"]


@pytest.mark.full
def test_a_graph_is_found_among_a_million_objects():
    said = fresh(
        """
        class Row:
            def __init__(self, i):
                self.items, self.table = [i], {"k": [i]}
        rows = [Row(i) for i in range(250_000)]
        weight = torch.ones(10, requires_grad=True)
        history = [(weight * i).sum() for i in range(1000)]
        import gc
        assert len(gc.get_objects()) > 1_000_000
        print(gradwalk.held()[0])
        """
    )
    assert "1,000 graphs" in said
    assert "history[0..999]" in said


def test_output_history_is_named(monkeypatch):
    space = {"Out": {3: one()}}
    space["_oh"], space["_3"], space["_"] = space["Out"], space["Out"][3], space["Out"][3]
    host = types.SimpleNamespace(variables=lambda: space)
    monkeypatch.setattr("gradwalk.features.held.referrers.this_host", lambda: host)
    found = held(space["Out"][3])
    assert found.holders == ["Out[3] (dict, variable)"]
    assert "%reset -f out" in found.advice


def test_what_a_notebook_keeps_is_named():
    said = fresh(
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.showtraceback = lambda *_, **__: None
        for cell in (
            "import sys, torch, gradwalk; w = torch.ones(3, requires_grad=True)",
            "(w * 2).sum()",
            "print('|', *gradwalk.held()[0].holders)",
            "def f():\\n    loss = (w * 2).exp().sum()\\n    raise ValueError\\nf()",
            "sys.last_value = get_ipython().last_execution_result.error_in_exec",
            "print('|', *gradwalk.held()[0].holders)",
        ):
            shell.run_cell(cell, store_history=True)
        """
    )
    first, second = [line[2:] for line in said.splitlines() if line.startswith("|")]
    assert first == "Out[2] (dict, variable)"
    assert second.startswith("loss (local of f() at a cell:3, in the traceback of sys.last_value)")
