"""Work over a second shows how far it has come; in a pipe it shows nothing."""

from __future__ import annotations

import contextlib
import importlib
import io
import threading
import types

import IPython.display
import pytest
import torch

import gradwalk
from gradwalk.backward import run_backward
from gradwalk.export import contents
from gradwalk.features.plan import run_step
from gradwalk.hosts import host, ipython, progress

load = importlib.import_module("gradwalk.comparison.load")


class Terminal(io.StringIO):
    """A stream that may be a terminal."""

    is_terminal = True

    def isatty(self):
        return self.is_terminal


@pytest.fixture
def stream(monkeypatch):
    found = Terminal()
    monkeypatch.setattr(host, "sys", types.SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "_BEFORE", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.001)
    return found


def wait_for(text, stream):
    for _ in range(2000):
        if text in stream.getvalue():
            return
        threading.Event().wait(0.005)
    raise AssertionError(stream.getvalue())


def test_a_terminal_has_a_line_which_is_cleared(stream):
    with progress.progress("save", lambda: 300, 1200):
        wait_for("save: 300 of 1,200 nodes, 0 s (25%)", stream)
        with progress.progress("inner", lambda: 1):
            assert threading.active_count() >= 2
    assert stream.getvalue().endswith("\r\033[K")
    assert "inner" not in stream.getvalue()
    assert not any(each.name == "gradwalk" for each in threading.enumerate())


def test_an_interrupt_ends_it(stream):
    def work():
        with progress.progress("plan"):
            wait_for("plan: 0 s", stream)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert stream.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize("why", ["pipe", "small", "thread"])
def test_nothing_is_shown(stream, why):
    stream.is_terminal = why != "pipe"

    def work():
        with progress.progress("save", lambda: 1, 3 if why == "small" else None):
            assert not any(each.name == "gradwalk" for each in threading.enumerate())

    if why == "thread":
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    assert not stream.getvalue()


def test_a_count_that_fails_ends_the_line_alone(stream):
    with progress.progress("save", lambda: 1 // 0):
        pass
    assert not stream.getvalue()


def test_a_notebook_has_a_bar(stream, monkeypatch):
    bars = []

    def display(shown, display_id):
        assert display_id
        bars.append(shown.data)
        return types.SimpleNamespace(update=lambda shown: bars.append(shown.data))

    notebook = ipython.IPython(types.SimpleNamespace(kernel=object()))
    monkeypatch.setattr(ipython, "runs_cell", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    write = notebook.progress_writer()
    write("load <1>", 0.5)
    write(None, None)
    assert bars == ['<progress value="0.5000"></progress> load &lt;1&gt;', ""]
    monkeypatch.setattr(ipython, "runs_cell", lambda: False)
    assert notebook.progress_writer() is None
    assert not stream.getvalue()


def test_long_work_shows_it(monkeypatch, tmp_path):
    seen = []

    @contextlib.contextmanager
    def noted(what, done=None, total=None, unit="nodes"):
        yield
        seen.append((what, done and done(), total, unit))

    for module in (run_backward, contents, load, run_step):
        monkeypatch.setattr(module, "progress", noted)
    x = torch.ones((), requires_grad=True)
    recording = gradwalk.record(x.sin().exp())
    gradwalk.save(recording, tmp_path / "run.gw")
    gradwalk.load(tmp_path / "run.gw")
    gradwalk.plan(torch.nn.Linear(3, 3), torch.ones(2, 3), loss=torch.sum)
    *counted, (what, operations, total, unit) = seen
    assert counted == [
        ("backward", 3, 3, "nodes"),
        ("details of nodes", 3, 3, "nodes"),
        ("load", None, None, "nodes"),
    ]
    assert (what, total, unit) == ("plan", None, "operations")
    assert operations > 0
