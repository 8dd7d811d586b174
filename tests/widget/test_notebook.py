"""In a notebook: names from its namespace, freshness after each cell, cells that are run again."""

from __future__ import annotations

import builtins
import gc
import sys
import warnings
import weakref
from typing import Any

import ipywidgets
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from gradwalk import GraphWidget
from gradwalk.hosts import host, ipython


class Cells:
    """A real IPython shell, told which cell runs, as a notebook's kernel is told."""

    def __init__(self):
        self.shell: Any = InteractiveShell.instance(
            config=Config(HistoryManager={"enabled": False})
        )
        self.shell.get_parent = lambda: self.parent
        self.parent = {}

    def run(self, cell, code, *, fails=False):
        self.parent = {"metadata": {"cellId": cell}}
        done = self.shell.run_cell(code, store_history=True)
        assert done.success is not fails, done
        vars(done)  # makes its dict an object of its own, as it always is in Python 3.10

    def __getitem__(self, name):
        return self.shell.user_ns[name]


@pytest.fixture
def cells(monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell makes its own
    monkeypatch.setattr(ipython, "_made_in", {})
    monkeypatch.delattr(builtins, "_", raising=False)  # which doctests leave, and IPython minds
    ipywidgets.Widget.close_all()  # those that other tests have left open
    made = Cells()
    made.run("setup", SETUP)
    yield made
    for widget in list(host.open_widgets().values()):
        widget.close()
    made.shell.reset(new_session=False)
    InteractiveShell.clear_instance()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)  # of cells that failed


def opened():
    """The GraphWidgets that were not closed, oldest first, by their id: this holds none of them."""
    widgets = host.open_widgets().items()
    return [key for key, widget in widgets if isinstance(widget, GraphWidget)]


SETUP = """
import torch
from gradwalk import GraphWidget
from IPython.display import display
w = torch.tensor([4.0], requires_grad=True)
x = torch.tensor([1.0], requires_grad=True)
h = w * x
"""


def names_in(widget):
    return [node["name"] for node in widget.model["nodes"] if node["kind"] in {"op", "leaf"}]


def test_names_come_from_the_notebook(cells):
    cells.run("a", "widget = GraphWidget(h)")
    assert names_in(cells["widget"]) == ["h", "w", "x"]


def test_names_come_from_the_notebook_inside_a_function_of_another_module(cells):
    # A helper in a module does not see the notebook's variables, and yet they name the leaves.
    helper = {"GraphWidget": GraphWidget, "__name__": "helper"}
    exec("def show(loss):\n    return GraphWidget(loss)", helper)
    cells.shell.user_ns["show"] = helper["show"]
    cells.run("a", "widget = show(h)")
    assert names_in(cells["widget"]) == ["loss", "w", "x"]


def test_the_tenth_open_widget_of_one_run_is_told_of(cells):
    with pytest.warns(UserWarning, match=r"made 10 gradwalk widgets.*call widget.close\(\)"):
        cells.run("a", "for _ in range(12): GraphWidget(w * x)")
    assert len(opened()) == 12


def test_a_loop_that_closes_its_widgets_is_told_nothing(cells):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        cells.run("a", "for _ in range(30): GraphWidget(w * x).close()")
    assert opened() == []


def test_results_of_earlier_cells_give_no_names(cells):
    cells.run("a", "w * 5")
    cells.run("b", "widget = GraphWidget(_)")
    assert names_in(cells["widget"]) == [None, "w"]


def test_the_end_of_a_cell_sends_what_changed(cells):
    cells.run("a", "widget = GraphWidget(h); h.backward(); widget.selected = 1")
    sent = []
    cells["widget"].observe(lambda change: sent.append(change["new"]), "details")
    cells.run("b", "w.grad = None")
    assert len(sent) == 1
    assert sent[0]["grad"] is None


def test_a_closed_widget_is_told_of_no_more_cells(cells):
    told = cells.shell.events.callbacks["post_run_cell"]
    before = len(told)
    cells.run("a", "widget = GraphWidget(h)")
    assert len(told) == before + 1
    cells.run("b", "widget.close()")
    assert len(told) == before


def test_running_a_cell_again_closes_the_widget_that_it_showed(cells):
    seen = []
    for _ in range(4):
        cells.run("a", "GraphWidget(h)")
        seen += opened()
    assert len(seen) == len(set(seen)) == 4


def test_the_replaced_graph_is_freed_although_history_showed_it(cells):
    #   u ─┬─► u * u      the product saves its input, this very tensor
    #      └──┘
    code = "u = w.exp()\nref = weakref.ref(u)\nrefs.append(ref)\nv = u * u\ndel u\nGraphWidget(v)"
    cells.run("setup", "import weakref\nrefs = []")
    for _ in range(3):
        cells.run("a", code)
    gc.collect()
    assert [ref() is None for ref in cells["refs"]] == [True, True, False]


def test_what_was_closed_is_not_in_the_history_either(cells):
    cells.run("a", "GraphWidget(h)")
    ref = weakref.ref(cells["_"])
    cells.run("a", "GraphWidget(h)")
    cells.run("b", "[Out.get(n) for n in Out], _, __, ___")
    gc.collect()
    assert ref() is None


KEEPS = {
    "a variable": "kept = _",
    "a list": "kept = [_]",
    "a dict": "kept = {'graph': _}",
    "a set in a tuple": "kept = ({_},)",
    "an attribute": "class Kept: pass\nkept = Kept()\nkept.graph = _",
    "a slot": "class Kept: __slots__ = ('graph',)\nkept = Kept()\nkept.graph = _",
    "a default": "def kept(graph=_): return graph",
    "a closure": "def close_over(graph): return lambda: graph\nkept = close_over(_)",
    "a generator": "def wait(graph):\n    yield\n    graph\nkept = wait(_)\nnext(kept)",
    "a box": "import ipywidgets\nkept = ipywidgets.VBox([_])",
}


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_a_widget_that_the_user_still_has_stays_open(cells, keep):
    cells.run("a", "GraphWidget(h)")
    (first,) = opened()
    cells.run("b", keep)
    for _ in range(3):
        cells.run("a", "GraphWidget(h)")
        assert len(opened()) == 2
        assert opened()[0] == first


def test_a_widget_is_closed_once_the_user_has_let_it_go(cells):
    cells.run("a", "GraphWidget(h)")
    (first,) = opened()
    cells.run("b", "kept = [_]")
    cells.run("a", "GraphWidget(h)")
    cells.run("c", "del kept")
    cells.run("a", "GraphWidget(h)")
    assert first not in opened()
    assert len(opened()) == 1


def test_a_variable_that_the_cell_sets_again_keeps_one_graph_longer_at_most(cells):
    # While the cell runs, g is still the widget before.
    for _ in range(4):
        cells.run("a", "g = GraphWidget(h)\ng")
    assert len(opened()) == 2
    assert opened()[-1] == cells["g"].model_id


def test_the_widgets_of_one_run_do_not_close_each_other(cells):
    code = "for i in range(3): display(GraphWidget(h))\nGraphWidget(h)"
    cells.run("a", code)
    first = opened()
    assert len(first) == 4
    cells.run("a", code)
    assert len(opened()) == 4
    assert not set(first) & set(opened())


def test_cells_do_not_close_each_others_widgets(cells):
    cells.run("a", "GraphWidget(h)")
    cells.run("b", "GraphWidget(h)")
    in_a, in_b = opened()
    cells.run("a", "GraphWidget(h)")
    assert in_a not in opened()
    assert in_b in opened()


def test_a_run_that_fails_before_its_widget_closes_nothing(cells):
    code = "if fails: raise ValueError('not today')\nGraphWidget(h)"
    cells.run("b", "fails = False")
    cells.run("a", code)
    first = opened()
    cells.run("b", "fails = True")
    cells.run("a", code, fails=True)
    assert opened() == first
    cells.run("b", "fails = False")
    cells.run("a", code)
    assert len(opened()) == 1
    assert opened() != first


def test_a_widget_of_a_run_that_failed_is_replaced_too(cells):
    for _ in range(3):
        cells.run("a", "display(GraphWidget(h))\nraise ValueError('not today')", fails=True)
        assert len(opened()) == 1


def test_a_cell_without_an_id_closes_nothing(cells):
    # In a terminal nobody runs a cell again, and some notebooks do not tell their kernel.
    for parent in ({}, None, {"metadata": {}}):
        cells.parent = parent
        assert cells.shell.run_cell("GraphWidget(h)", store_history=True).success
    assert len(opened()) == 3


def test_plain_python_closes_nothing(monkeypatch):
    monkeypatch.setattr(ipython, "_made_in", {})
    assert ipython.shell() is None
    y = torch.ones(1, requires_grad=True) * 2
    widgets = [GraphWidget(y) for _ in range(2)]
    assert len(opened()) == 2
    assert ipython._made_in == {}
    for widget in widgets:
        widget.close()


def test_without_ipython_there_is_no_shell(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython")
    assert ipython.shell() is None
    y = torch.ones(1, requires_grad=True) * 2
    widget = GraphWidget(y)
    assert names_in(widget)[0] == "y"
    widget.close()
