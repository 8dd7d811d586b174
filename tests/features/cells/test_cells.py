"""Cells of an IPython shell after ``%load_ext gradwalk``, and what they do as without it."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from notebook_cells import open_notebook

import gradwalk
from gradwalk import capture

SETUP = """
import asyncio, threading
import torch
from torch import nn
import gradwalk
from gradwalk import GraphWidget, capture, last_failure
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
def modes():
    return [type(mode).__name__ for mode in _get_current_function_mode_stack()]
class Mine(TorchFunctionMode):
    def __torch_function__(self, function, types, given=(), named=None):
        return function(*given, **(named or {}))
w = torch.tensor([4.0], requires_grad=True)
x = torch.tensor([3.0])
"""
WATCHED = ["_Watcher"]


@pytest.fixture
def notebook(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with open_notebook(tmp_path, monkeypatch) as made:
        made.run(SETUP)
        yield made


def where(tensor: torch.Tensor) -> list[int | None]:
    """The lines of the operations of a graph; None for one that was not watched."""
    nodes = capture(tensor).nodes(data=True)
    sources = [data.get("source") for _, data in nodes if data["kind"] == "op"]
    return [source and int(source.rpartition(":")[2]) for source in sources]


def test_cells_run_watched_until_it_is_unloaded(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run(
        "net = nn.Sequential(nn.Linear(1, 2), nn.Tanh())",
        "y = net(w * x)",
        "loss = y.sum()",
    )
    widget = notebook.run("GraphWidget(loss)")
    nodes = widget.model["nodes"]
    by_op = {node["op"]: node for node in nodes}
    assert where(notebook["loss"]) == [3, *[2] * 6]
    assert by_op["MulBackward0"]["value"] == [12.0]
    assert by_op["TanhBackward0"]["namespace"] == "1"
    assert {node["name"] for node in nodes} >= {"loss", "y", "w"}
    notebook.run("%unload_ext gradwalk")
    notebook.run("plain = w * x")
    assert where(notebook["plain"]) == [None]
    assert notebook.run("modes()") == []


def test_a_widget_of_the_same_cell_is_that_of_a_later_one(notebook):
    """The watch has not ended yet when the widget is made."""
    program = "net = nn.Linear(1, 2); made = net((w * x).exp().detach() + w).sum()"

    def shown(widget):
        found = [widget.model]
        for node in widget.model["nodes"]:
            widget.selected = node["id"]
            found.append({**widget.details, "source": None})
        return re.sub(r"In\[\d+\]|<ipython-input\S+>|'line': \d", "", str(found))

    notebook.run("%load_ext gradwalk")
    with_it = [
        notebook.run("torch.manual_seed(0)", program, "widget = GraphWidget(made)", "made = None"),
        shown(notebook["widget"]),
    ]
    notebook.run("%unload_ext gradwalk")
    notebook.run("torch.manual_seed(0)", "with gradwalk.watch():", f"  {program}", "")
    notebook.run("widget = GraphWidget(made)", "made = None")
    assert with_it[1] == shown(notebook["widget"])


def test_it_says_so_once(notebook, capsys):
    notebook.run("%load_ext gradwalk")
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "%unload_ext gradwalk" in said
    notebook.run("%reload_ext gradwalk")
    notebook.run("%unload_ext gradwalk")
    notebook.run("%load_ext gradwalk")
    assert capsys.readouterr().out == ""


def test_a_cell_that_loads_or_unloads_it_is_watched_in_part(notebook):
    notebook.run("before = w * x", "%load_ext gradwalk", "after = w * x")
    assert (where(notebook["before"]), where(notebook["after"])) == ([None], [3])
    notebook.run("before = w * x", "%unload_ext gradwalk", "after = w * x")
    assert (where(notebook["before"]), where(notebook["after"])) == ([1], [None])
    notebook.run("%load_ext gradwalk", "%unload_ext gradwalk", "%reload_ext gradwalk", "y = w * x")
    assert where(notebook["y"]) == [4]


def test_loaded_twice_it_watches_once(notebook, capsys):
    events = notebook.shell.events.callbacks
    before = {name: len(calls) for name, calls in events.items()}
    notebook.run("%load_ext gradwalk")
    once = {name: [*calls] for name, calls in events.items()}
    notebook.run("%load_ext gradwalk")
    assert "already loaded" in capsys.readouterr().out
    gradwalk.load_ipython_extension(notebook.shell)
    notebook.run("%reload_ext gradwalk")
    assert {name: [*calls] for name, calls in events.items()} == once
    assert notebook.run("modes()") == WATCHED
    notebook.run("%unload_ext gradwalk")
    gradwalk.unload_ipython_extension(notebook.shell)
    assert len(events["pre_run_cell"]) <= before["pre_run_cell"] + 2
    assert notebook.run("modes()") == []


def test_a_magic_watches_one_cell(notebook, capsys):
    notebook.run("%load_ext gradwalk")
    notebook.run("%unload_ext gradwalk")
    notebook.run("%%watch", "y = w * x")
    assert where(notebook["y"]) == [2]
    notebook.run("y = w * x")
    assert where(notebook["y"]) == [None]
    notebook.run("%%watch", "await asyncio.sleep(0)", "y = w * x")
    assert where(notebook["y"]) == [3]
    notebook.run("%%watch", "%%time", "y = w * x")
    assert where(notebook["y"]) == [1]
    notebook.shell.run_cell_magic("watch", "", "y = w * x")
    assert where(notebook["y"]) == [2]
    notebook.run("%%watch", "", "1 / 0", fails=True)
    assert "-> 3 1 / 0" in capsys.readouterr().out
    notebook.run("%%watch fast", "y = w * x", fails=True)
    assert "takes no arguments" in "".join(capsys.readouterr())
    notebook.run("%%watch")
    for code, status in (("%%watch\nx = 1", "incomplete"), ("%%watch", "incomplete")):
        assert notebook.shell.input_transformer_manager.check_complete(code)[0] == status


FAILING = {
    "an operation": ["a = torch.ones(3, requires_grad=True)", "a * 2 + torch.ones(4)"],
    "a module": [
        "nn.Sequential(nn.Sequential(nn.Linear(3, 3)), nn.Linear(4, 5))(torch.ones(2, 3))"
    ],
    "a function in Python": ["nn.functional.cross_entropy(torch.ones(3, 4), torch.ones(5).long())"],
    "a cause": [
        "try:",
        "  w @ torch.ones(2, 2)",
        "except Exception as e:",
        "  raise KeyError from e",
    ],
    "no torch": ["1 / 0"],
    "no Python": ["1 +"],
    "a name": ["nothing"],
    "an await": ["await asyncio.sleep(0)", "w + torch.ones(2, 2, 2).T @ w"],
    "an interrupt": ["raise KeyboardInterrupt"],
    "a timed line": ["%time w @ torch.ones(2, 2)"],
    "gradwalk": ["GraphWidget(x)"],
}


@pytest.mark.parametrize("kind", FAILING)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_traceback_is_that_of_the_same_cell_without_it(notebook, capsys, kind):
    def run():
        # IPython 7 shows an error of %time, and goes on.
        notebook.run(*FAILING[kind], fails=None if "%" in FAILING[kind][0] else True)
        shown = "".join(capsys.readouterr())
        text = re.sub(r"\x1b\[[\d;]*m|In\[\d+\]|ipython-input-\S+|(CPU|Wall) time.*", "", shown)
        frames, traceback = [], sys.last_traceback
        while traceback is not None:
            frames.append(traceback.tb_frame.f_code)
            traceback = traceback.tb_next
        return text, [(Path(code.co_filename).parent.name, code.co_name) for code in frames]

    plain = run()
    notebook.run("%load_ext gradwalk")
    capsys.readouterr()
    watched = run()
    assert watched[1] == plain[1]
    if kind != "a module":  # if there are hooks, torch calls its forward from another line
        assert watched[0] == plain[0]
    assert notebook.run("modes()") == WATCHED


def test_a_failing_cell_can_be_asked_about_in_the_next(notebook, capsys):
    notebook.run("%load_ext gradwalk")
    notebook.run("a = w * torch.ones(3)", "b = a + torch.ones(4)", fails=True)
    notebook.run("last_failre()", fails=True)
    notebook.run("1 +", fails=True)
    failure = notebook.run("import gradwalk", "gradwalk.last_failure()")
    assert (failure.call, failure.code) == ("add", "b = a + torch.ones(4)")
    assert [each.name for each in failure.inputs] == ["a", None]
    assert notebook.run("last_failure()").call == "add"
    notebook.run("nn.Linear(2, 3)(torch.ones(4))", fails=True)
    assert notebook.run("last_failure()").module == "Linear"
    assert notebook.run("with gradwalk.watch():", "  pass", "last_failure()") is None
    capsys.readouterr()


def test_a_block_in_a_cell_has_its_own_failure(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run("w + torch.ones(2) + torch.ones(3)", fails=True)
    failure = notebook.run(
        "try:", "  with gradwalk.watch():", "    w @ torch.ones(2, 2)", "except RuntimeError:",
        "  found = last_failure()", "found",
    )  # fmt: skip
    assert failure.call == "matmul"
    assert notebook.run("y = w * x", "with gradwalk.watch():", "  z = w * x", "u = w * x") is None
    assert [where(notebook[name]) for name in "yzu"] == [[1], [3], [4]]


@pytest.mark.parametrize(
    "lines",
    [
        ["%time y = w * x"],
        ["%timeit -n1 -r1 y = w * x", "y = w * x"],
        ["found = %timeit -o -q -n1 -r1 w * x", "y = w * x"],
        ["%%timeit -n1 -r1", "global y", "y = w * x"],
        ["%%time", "y = w * x"],
        ["%prun -q y = w * x"],
    ],
)
def test_what_is_measured_is_the_program_alone(notebook, lines):
    notebook.run("%load_ext gradwalk")
    notebook.run("y = w * x")
    assert where(notebook["y"]) == [1]
    notebook.run(*lines)
    assert where(notebook["y"]) in ([None], [1 if "global y" in lines else None])
    notebook.run("y = w * x")
    assert where(notebook["y"]) == [1]


def test_cells_that_await(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run("async def task(times):", "  for _ in range(times):", "    await asyncio.sleep(0)")
    notebook.run("y = w * x", "await task(3)", "z = w * y")
    assert where(notebook["z"]) == [3, 1]
    notebook.run("async with asyncio.Lock():", "  y = w * x")
    assert where(notebook["y"]) == [2]
    notebook.run("await task(3)", "1 / 0", fails=True)
    notebook.run("await asyncio.wait_for(asyncio.sleep(10), 0.01)", fails=True)
    assert notebook.run("await asyncio.sleep(0)", "modes()") == WATCHED
    notebook.run("%unload_ext gradwalk")
    assert notebook.run("await asyncio.sleep(0)", "modes()") == []


def test_a_task_keeps_its_own_mode(notebook):
    """It begins in one cell, or between them, and ends in another."""
    notebook.run(
        "seen = []",
        "async def task(times):",
        "  with Mine():",
        "    for _ in range(times):",
        "      await asyncio.sleep(0)",
        "      seen.append(modes())",
        "  seen.append(modes())",
        "def start(times):",
        "  return asyncio.get_running_loop().create_task(task(times))",
    )
    notebook.run("%load_ext gradwalk")
    notebook.run("one = start(4)", "await asyncio.sleep(0)", "await asyncio.sleep(0)")
    assert notebook["seen"][0] == [*WATCHED, "Mine"]
    assert notebook.run("here = modes()", "await one", "(here, modes())") == (
        [*WATCHED, "Mine"],
        WATCHED,
    )
    notebook.run("one = start(6)", "await asyncio.sleep(0)")
    assert [type(each).__name__ for each in torch.overrides._get_current_function_mode_stack()] == [
        "Mine"
    ]
    notebook.run("await one")
    assert notebook["seen"][-1] == WATCHED
    assert torch.overrides._get_current_function_mode_stack() == []


def test_modes_that_last_longer_than_a_cell(notebook):
    notebook.run("%load_ext gradwalk")
    assert notebook.run("mode = Mine()", "mode.__enter__()", "modes()") == [*WATCHED, "Mine"]
    assert notebook.run("y = w * x", "modes()") == [*WATCHED, "Mine"]
    assert where(notebook["y"]) != [None]
    assert notebook.run("mode.__exit__(None, None, None)", "modes()") == WATCHED
    try:
        notebook.run("torch.set_default_device('meta')")
        assert notebook.run("modes()") == ["DeviceContext", *WATCHED]
        assert notebook.run("torch.ones(2).device.type") == "meta"
        notebook.run("torch.set_default_device('cpu')")
    finally:
        torch.set_default_device(None)
    assert notebook.run("modes()") == WATCHED
    notebook.run("block = gradwalk.watch()", "block.__enter__()", "%unload_ext gradwalk")
    notebook.run("block.__exit__(None, None, None)")
    assert notebook.run("modes()") == []


def test_cells_inside_cells(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run("get_ipython().run_cell('y = w * x; 1 / 0')", "z = w * x", "modes()")
    assert where(notebook["z"]) == [2]
    notebook.run("%%capture out", "print('hidden'); y = w * x; 1 / 0")
    assert "hidden" in notebook["out"].stdout
    assert where(notebook["y"]) == [1]
    notebook.run("%%capture out", "%time y = w * x")
    assert where(notebook["y"]) == [None]


def test_scripts_that_are_run(notebook, tmp_path):
    (tmp_path / "script.py").write_text("y = w * x\n\nz = w @ torch.ones(2, 2)\n")
    notebook.run("%load_ext gradwalk")
    notebook.run("%run -i script.py", "u = w * x")
    assert where(notebook["y"]) == [1]
    assert where(notebook["u"]) == [2]


def test_threads_of_a_cell_are_not_watched(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run(
        "def run():",
        "  global y",
        "  y = w * torch.ones(7, 5)",
        "thread = threading.Thread(target=run)",
        "thread.start(); thread.join()",
    )
    assert where(notebook["y"]) == [None]


def test_cells_of_another_thread(notebook):
    """JupyterLab runs cells of its subshells so, also while a cell of the main thread runs."""
    notebook.run("%load_ext gradwalk")
    notebook.run("started, go = threading.Event(), threading.Event()")
    other = threading.Thread(
        target=notebook.shell.run_cell,
        args=("inner = modes(); y = w * x; started.set(); go.wait()",),
    )
    other.start()
    assert notebook["started"].wait(60)
    notebook.run("z = w * x", "go.set()")
    other.join()
    assert where(notebook["z"]) == [1]
    assert where(notebook["y"]) == [1]
    assert notebook["inner"] == WATCHED


def test_cells_that_define_things_only(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run("")
    notebook.run("   \n")
    notebook.run("# only a comment")
    notebook.run("class Net(nn.Module):", "  def forward(self, a):", "    return a * 2")
    notebook.run("%who_ls")
    notebook.run("%%writefile written.txt", "text")
    notebook.run("y = Net()(w)")
    assert where(notebook["y"]) == [3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_programs_give_what_they_give_without_it(notebook):
    program = (
        "torch.manual_seed(0)",
        "a = torch.randn(3, 3, requires_grad=True)",
        "net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))",
        "made = [net(a), torch.func.vmap(torch.func.grad(lambda t: (t**3).sum()))(a) * a,",
        "        torch.jit.trace(lambda t: t.sin() * 2, a.detach())(a)]",
        "grads = torch.autograd.grad(sum(each.sum() for each in made), a)",
        "state = torch.get_rng_state()",
        "[*made, *grads, state]",
    )
    plain = notebook.run(*program)
    notebook.run("%load_ext gradwalk")
    for ours, theirs in zip(notebook.run(*program), plain, strict=True):
        assert torch.equal(ours, theirs)


def test_compiled_programs_are_compiled_once_for_all_cells(notebook, compiles_anew):
    notebook.run(
        "from torch._dynamo.utils import counters",
        "net = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend='aot_eager')",
        "double = torch.compile(lambda t: t.sin() * 2, backend='aot_eager', fullgraph=True)",
        "def use():",
        "  net(torch.ones(2, 3)).sum().backward(); double(w).sum().backward()",
        "  return counters['frames']['total']",
        "def quiet():",
        "  import warnings",
        "  with warnings.catch_warnings(record=True) as caught: use()",
        "  return [str(each.message) for each in caught]",
    )
    notebook.run("%load_ext gradwalk")
    first = notebook.run("use()")
    assert [notebook.run("use()") for _ in range(3)] == [first] * 3
    assert notebook.run("quiet()") == []
    notebook.run("%unload_ext gradwalk")
    without = notebook.run("use()")
    notebook.run("%load_ext gradwalk")
    assert notebook.run("use()") == without


def test_nothing_is_kept_alive(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run("import weakref", "a = torch.ones(3, requires_grad=True)", "b = (a * 2).exp()")
    notebook.run("kept = [weakref.ref(each) for each in (a, b)];")
    gc.collect()
    gc.disable()
    try:
        notebook.run("del a, b")
        assert [each() for each in notebook["kept"]] == [None] * 2
        notebook.run("a = torch.ones(3, requires_grad=True); b = a + torch.ones(4)", fails=True)
        held = weakref.ref(notebook["a"])
        notebook.run("del a")
        notebook.run("1 / 0", fails=True)  # IPython keeps the traceback of the latest error
        notebook.run("w + torch.ones(2) + torch.ones(3)", fails=True)
    finally:
        gc.enable()
    gc.collect()
    assert held() is None


def calls_of(notebook, code):
    """How many functions of Python a cell calls."""
    count = 0

    def profile(frame, event, _):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        notebook.shell.run_cell(code)
    finally:
        sys.setprofile(None)
    return count


def test_it_costs_the_same_few_calls_in_each_cell(notebook):
    codes = [
        "1",
        "for i in range(3000): str(i)",
        "y = [str(i) for i in range(50)]; y.sort(key=len)",
    ]
    notebook.run("many = [w * i for i in range(2000)]")
    plain = [calls_of(notebook, code) for code in codes for _ in range(2)][1::2]
    notebook.run("%load_ext gradwalk")
    notebook.run("many = [w * i for i in range(2000)]")  # as many tensors as are watched
    watched = [calls_of(notebook, code) for code in codes for _ in range(2)][1::2]
    more = [ours - theirs for ours, theirs in zip(watched, plain, strict=True)]
    assert max(more) - min(more) < 20
    assert max(more) < 250


def test_it_costs_what_the_watch_costs(notebook):
    lines = "for _ in range(500): y = w * x"
    notebook.run("%load_ext gradwalk")
    notebook.run(lines)
    by_itself = calls_of(notebook, lines)
    notebook.run("%unload_ext gradwalk")
    in_a_block = calls_of(notebook, f"with gradwalk.watch():\n  {lines}")
    assert by_itself - in_a_block < 250


def test_debuggers(notebook):
    notebook.run(
        "import io, pdb, sys",
        "def debugger(typed):",
        "  said = io.StringIO()",
        "  return pdb.Pdb(stdin=io.StringIO(typed), stdout=said, nosigint=True), said",
    )
    notebook.run("%load_ext gradwalk")
    notebook.run("stop, said = debugger('p modes()\\nn\\nc\\n')", "stop.set_trace()", "y = w * x")
    assert "['_Watcher']" in notebook["said"].getvalue()
    assert where(notebook["y"]) == [3]
    notebook.run("nn.Linear(2, 3)(torch.ones(4))", fails=True)
    notebook.run(
        "stop, said = debugger('where\\nq\\n')",
        "stop.reset(); stop.interaction(None, sys.last_traceback)",
    )
    assert "F.linear(input" in notebook["said"].getvalue()
    assert "gradwalk" not in notebook["said"].getvalue()


def test_calls_of_widgets_are_not_watched(notebook):
    notebook.run("%load_ext gradwalk")
    notebook.run(
        "import ipywidgets",
        "slider, seen = ipywidgets.IntSlider(), []",
        "slider.observe(lambda change: seen.append(modes()), 'value')",
        "slider.value = 3",
    )
    notebook["slider"].set_state({"value": 5})  # as a message from the page does
    assert notebook["seen"] == [WATCHED, []]


def test_modules_that_are_reloaded(notebook, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "reloaded_module.py").write_text("def f(a, b):\n    return a * b\n")
    notebook.run("%load_ext autoreload", "%autoreload 2", "%load_ext gradwalk")
    notebook.run("from reloaded_module import f", "y = f(w, x)")
    assert where(notebook["y"]) == [2]
    (tmp_path / "reloaded_module.py").write_text("def f(a, b):\n\n    return a * b + 1\n")
    notebook.run("y = f(w, x)")
    assert where(notebook["y"]) == [3, 3]


def test_a_cell_whose_end_nobody_said(notebook):
    """Whoever calls `run_cell_async` has to trigger `post_run_cell`."""
    notebook.run("%load_ext gradwalk")
    notebook.run("%autoawait off")
    coroutine = notebook.shell.run_cell_async("y = w * x", transformed_cell="y = w * x")
    with pytest.raises(StopIteration):
        coroutine.send(None)
    assert len(torch.overrides._get_current_function_mode_stack()) == 1
    notebook.run("%autoawait on")
    assert notebook.run("modes()") == WATCHED
    assert torch.overrides._get_current_function_mode_stack() == []


def test_what_cannot_be_watched_is_said_once(notebook, monkeypatch, capsys):
    monkeypatch.setattr("gradwalk.tracing.watch.watch", lambda: 1 / 0)
    notebook.run("%load_ext gradwalk")
    for _ in range(2):
        notebook.run("y = w * x")
    said = capsys.readouterr().out
    assert said.count("gradwalk cannot watch cells. ZeroDivisionError") == 1
    assert where(notebook["y"]) == [None]


def test_the_functions_for_ipython_are_not_in_the_public_api():
    for name in ("load_ipython_extension", "unload_ipython_extension"):
        assert callable(getattr(gradwalk, name))
        assert name not in gradwalk.__all__
