"""Custom Functions in the panel: the source of their backward, and what it ran in a pass."""

from __future__ import annotations

import contextlib
import json
import linecache
import pickle
import subprocess
import sys
import zlib

import pytest
import torch
from checkpointed import program
from fresh import fresh
from own_functions import Many
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk import GraphWidget, capture, check, explain_grad, record, watch
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.panel.neighbours import MOST_LISTED as MOST
from gradwalk.torch_api.nodes import is_gone


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return torch.log1p((x * scale).exp())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # source-canary
        (x,) = ctx.saved_tensors
        slope = torch.sigmoid(x * ctx.scale)
        return grad * slope * ctx.scale, None


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        grad.neg()
        raise ArithmeticError("no")


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def details_of(widget, op):
    widget.selected = next(n["id"] for n in widget.model["nodes"] if n["op"] == op)
    assert widget.details["failed"] == []
    return widget.details


def test_the_panel_has_the_source_of_a_backward():
    x = torch.rand(3, requires_grad=True)
    found = details_of(GraphWidget(Smooth.apply(x, 2.0)), "SmoothBackward")
    function = found["function"]
    assert function["method"] == "Smooth.backward"
    assert "slope = torch.sigmoid" in function["code"]
    place = function["place"]
    assert place["file"].endswith("test_custom_functions.py")
    assert linecache.getline(__file__, place["line"]).strip() == "@staticmethod"
    assert found["formula"] == []


def test_torchs_own_functions_show_none():
    x = torch.rand(3, requires_grad=True)
    compiled = torch.compile(lambda a: a.sin() * a, backend="aot_eager")
    for y, op in (
        (checkpoint(torch.sin, x, use_reentrant=True), "CheckpointFunctionBackward"),
        (compiled(x), "CompiledFunctionBackward"),
        (x.sin(), "SinBackward0"),
    ):
        assert details_of(GraphWidget(y), op)["function"] is None


def test_a_source_that_is_not_known_is_a_sentence():
    space = {"torch": torch}
    exec(
        "class Made(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x: x * 1)\n"
        "    backward = staticmethod(lambda ctx, grad: grad)\n",
        space,
    )
    y = space["Made"].apply(torch.rand(2, requires_grad=True))
    function = details_of(GraphWidget(y), "MadeBackward")["function"]
    assert (function["code"], function["place"]) == ("", None)
    assert "was not found" in function["note"]


def test_files_leave_the_source_out_when_asked(tmp_path):
    widget = GraphWidget(Smooth.apply(torch.rand(3, requires_grad=True), 2.0))
    for source in (True, False):
        gradwalk.save(widget, tmp_path / f"{source}.gw", source=source)
        text = zlib.decompress((tmp_path / f"{source}.gw").read_bytes(), 31).decode()
        assert ("source-canary" in text) == source
        assert ("test_custom_functions.py" in text) == source
        opened = gradwalk.load(tmp_path / f"{source}.gw")
        function = details_of(opened, "SmoothBackward")["function"]
        assert (function["code"] != "") == source
        assert (function["note"] is None) == source


@pytest.mark.parametrize("start", ["widget", "record"])
def test_a_recorded_pass_notes_what_a_custom_backward_ran(start):
    x = torch.rand(3, requires_grad=True)
    with watch():
        y = Smooth.apply(x * 2, 3.0).sum()
    if start == "widget":
        widget = GraphWidget(y)
        widget.backward()
    else:
        widget = GraphWidget(record(y))
    found = details_of(widget, "SmoothBackward")
    with Seen() as seen, torch.no_grad():
        slope = torch.sigmoid(x * 2 * 3.0)  # one multiplication more than backward
        true = torch.ones(3) * slope * 3.0
    assert [each["called"] for each in found["operations"]] == [
        name for name in seen.calls[1:] if "ones" not in name
    ]
    assert found["operation_count"] == 4
    assert torch.allclose(torch.tensor(found["operations"][-1]["gave"]["values"]), true)
    assert found["operations"][-1]["gave"]["values"] == found["grad_input"][0]["values"]
    widget.cursor = 1  # before it has run
    assert widget.details["operations"] == []


def test_without_watching_nothing_is_noted():
    y = Smooth.apply(torch.rand(3, requires_grad=True), 3.0).sum()
    widget = GraphWidget(y)
    widget.backward()
    assert details_of(widget, "SmoothBackward")["operations"] == []


@pytest.mark.parametrize("times", [1, 1_000, 20_000])
def test_of_many_operations_the_first_are_listed(times):
    Many.times = times
    with watch():
        y = Many.apply(torch.rand(1, requires_grad=True))
    widget = GraphWidget(y)
    widget.backward()
    found = details_of(widget, "ManyBackward")
    assert found["operation_count"] == times
    assert len(found["operations"]) == min(times, MOST)


def test_a_reentrant_region_tells_its_inner_pass():
    with watch():
        output, truth = program("blocks", "reentrant")
    widget = GraphWidget(output)
    calls = truth.calls
    widget.backward()
    assert truth.calls == calls + 3  # once each, as in any pass
    found = details_of(widget, "CheckpointFunctionBackward")["operations"]
    forward = [each["called"] for each in found if each["behind"] is None]
    assert [name for name in forward if "addmm" in name or "gelu" in name] == [
        "aten.addmm.default",
        "aten.gelu.default",
        "aten.addmm.default",
    ]
    inner = list(dict.fromkeys(each["behind"] for each in found if each["behind"]))
    assert "NativeLayerNormBackward0" in inner
    assert inner.index("GeluBackward0") < inner.index("NativeLayerNormBackward0")


def test_the_nodes_are_afterwards_as_before():
    with watch():
        y = Smooth.apply(torch.rand(3, requires_grad=True), 3.0)
        z = Raises.apply(y).sum()
    nodes = [y.grad_fn, z.grad_fn.next_functions[0][0]]
    before = [dict(node.__dict__) for node in nodes]
    widget = GraphWidget(z)
    with pytest.raises(ArithmeticError):
        widget.backward()
    assert [dict(node.__dict__) for node in nodes] == before
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


@pytest.mark.parametrize("name", ["with_custom_function", "blocks", "with_dropout"])
def test_noting_changes_no_gradient(name):
    found = []
    for watched in (False, True):
        with watch() if watched else torch.enable_grad():
            output, _ = program(name, "reentrant")
        leaves = [t for _, t in capture_nodes(read_outputs((output,), "test"), Names()).leaves()]
        if watched:
            GraphWidget(output).backward()
        else:
            output.backward()
        found.append([leaf.grad for leaf in leaves] + [torch.get_rng_state()])
    assert pickle.dumps([g.tolist() for g in found[0]]) == pickle.dumps(
        [g.tolist() for g in found[1]]
    )


def test_a_mode_of_the_users_sees_what_it_would_see_anyway():
    found = []
    for watched in (False, True):
        x = torch.ones(3, requires_grad=True)
        with watch() if watched else torch.enable_grad():
            y = Smooth.apply(x, 3.0).sum()
        widget = GraphWidget(y) if watched else None
        with Seen() as seen:
            if widget is None:
                torch.autograd.backward(y, retain_graph=True)
            else:
                widget.backward()
        found.append(seen.calls)
    # The gradient of a leaf is handed over rather than copied, where somebody sees what torch does.
    assert [name for name in found[1] if "detach" not in name] == [
        name for name in found[0] if "detach" not in name
    ]


def test_no_line_of_another_program_is_shown_for_a_text_that_was_run():
    """Python 3.13 knows the text of ``python -c``, and takes it for that of every other text."""
    text = (
        "import torch\n"
        "class Twice(torch.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x: x * 2)\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad * 2\n"
        "def run(x):\n"
        "    return Twice.apply(x).exp() if x.requires_grad else x\n"
    )
    program = (
        "import json\n"
        "import torch\n"
        "from gradwalk import GraphWidget, watch\n"
        "from gradwalk.panel.details import written_backward\n"
        "inner = {}\n"
        f"exec({text!r}, inner)\n"
        "with watch():\n"
        "    y = inner['run'](torch.ones(2, requires_grad=True)) if inner else None\n"
        "widget = GraphWidget(y)\n"
        "seen = [str(written_backward(inner['Twice']))]\n"
        "for widget.selected in range(2):\n"
        "    seen.append(json.dumps([widget.details['source'], widget.details['forward']]))\n"
        "print(json.dumps(seen))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    own, *nodes = json.loads(done.stdout)
    assert own == "None"
    for shown in nodes:
        assert "<string>" in shown
        assert not any(line and line in shown for line in program.split("\n"))


@pytest.mark.parametrize(
    "loss",
    [
        "Double.apply(x)",
        "Double.apply(x * 3).clone()",
        "torch.compile(lambda a: a.sin().sum(), backend='aot_eager')(x)",
        "checkpoint(lambda a: (a * a).sum(), x, use_reentrant=True)",
    ],
)
def test_whoever_shows_a_graph_keeps_it_though_nobody_has_its_output(loss):
    """torch up to 2.12 frees the node of a custom Function with its output; reading it crashes."""
    found = fresh(
        f"""
        from torch.utils.checkpoint import checkpoint
        class Double(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: (ctx.save_for_backward(x), (x * x).sum())[1])
            backward = staticmethod(lambda ctx, grad: grad * 2 * ctx.saved_tensors[0])
        x = torch.rand(3, requires_grad=True)
        true = torch.autograd.grad({loss.replace("use_reentrant=True", "use_reentrant=False")}, x)
        shown = GraphWidget({loss})
        shown.step(1)
        shown.step(9)
        print(torch.equal(x.grad, true[0]))
        x.grad = None
        recorded = record({loss})
        print(torch.equal(x.grad, true[0]))
        for each in (shown, GraphWidget(recorded)):
            for node in each.model["nodes"]:
                each.selected = node["id"]
                print(each.details["failed"] == [])
        """
    )
    assert set(found.split()) == {"True"}, found


def test_a_node_that_torch_has_freed_is_a_sentence():
    x = torch.rand(3, requires_grad=True)
    node = Smooth.apply(x, 2.0).grad_fn
    edge = torch.autograd.graph.get_gradient_edge(x.exp() * 1)
    assert not is_gone(edge.node)
    assert len(capture(edge)) == 3
    for look in (capture, GraphWidget, record, lambda at: explain_grad(x, at), check):
        if is_gone(node):  # as torch up to 2.12 does
            with pytest.raises(ValueError, match="SmoothBackward, a node that torch has freed"):
                look(node)
        else:
            with contextlib.suppress(ValueError):  # of other shapes than one number
                look(node)
    assert check(node, x, 2.0).agrees
    y = Smooth.apply(x, 2.0)
    assert not is_gone(y.grad_fn)
    assert len(capture(y.grad_fn)) == 2
