"""Which calls of compiled code run in one kernel, beside what the backend's program really does."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from compiled_zoo import ZOO, compiled_loss

from gradwalk import GraphWidget, capture, compare
from gradwalk.graph import kernels as naming
from gradwalk.graph.compiled import (
    CannotOpenError,
    compiled_backward,
    is_compiled,
    kernels_of,
    program_arguments,
)
from gradwalk.graph.inductor_text import (
    UnknownKernelsError,
    is_view,
    operation,
    read_program,
    read_written,
)
from gradwalk.graph.kernels import kernels

pytestmark = [
    pytest.mark.usefixtures("compiles_anew"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

QUICK = ("mlp", "experts")
EVERY = [
    *QUICK,
    *(pytest.param(name, marks=pytest.mark.full) for name in ZOO if name not in QUICK),
]


def compiled_nodes(loss):
    found, waiting = [], [loss.grad_fn]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if is_compiled(node):
            found.append(node)
        new = [each for each, _ in node.next_functions if each is not None and each not in seen]
        seen.update(new)
        waiting += new
    return found


def after_backward(name):
    """The compiled nodes of a program, with what came to each and what it gives call by call."""
    with torch._functorch.config.patch(donated_buffer=False, enable_autograd_cache=False):
        loss = compiled_loss(name, "inductor")
        nodes = compiled_nodes(loss)
        opened = [compiled_backward(node) for node in nodes]
        came = {}
        for place, node in enumerate(nodes):
            node.register_prehook(lambda grads, place=place: came.setdefault(place, grads))
        loss.backward(retain_graph=True)
    return [
        (node, program_arguments(node, program, came[place]), program)
        for place, (node, program) in enumerate(zip(nodes, opened, strict=True))
    ]


class _Noting(torch.fx.Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.given = {}

    def run_node(self, n):
        given = super().run_node(n)
        if isinstance(given, torch.Tensor):
            self.given[n.name] = given.clone()
        return given

    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten.view.default:  # after a library gave another layout
            target = torch.ops.aten.reshape.default
        return super().call_function(target, args, kwargs)


def copied(values):
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in values]


def held_in_buffers(written, arguments, names):
    """Runs what Inductor wrote; after each call of a kernel or library, the buffers by name."""
    space, found, last = {}, [], None
    exec(compile(written, "<written>", "exec"), space)
    lines = written.splitlines()

    def trace(frame, event, _):
        nonlocal last
        if frame.f_code.co_filename != "<written>" or frame.f_code.co_name != "call":
            return None
        if event in ("line", "return"):
            called = "" if last is None else lines[last - 1].strip().split("(")[0]
            if called.rpartition(" = ")[2] in names:
                tensors = frame.f_locals.items()
                found.append(
                    {name: t.clone() for name, t in tensors if isinstance(t, torch.Tensor)}
                )
            last = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with torch.no_grad():
            space["call"](copied(arguments))
    finally:
        sys.settrace(before)
    return found


def is_the_same(one, other):
    """Whether two tensors have the same numbers, whatever their layout."""
    one, other = (each.double().flatten().sort().values for each in (one, other))
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.one_python
@pytest.mark.parametrize("name", EVERY)
def test_buffers_hold_what_they_are_named_after(name, monkeypatch):
    for node, arguments, program in after_backward(name):
        made = node._forward_cls.compiled_bw
        interpreter = _Noting(torch.fx.GraphModule(program.module, program.graph))
        with torch.no_grad():
            interpreter.run(*copied(arguments))
        names = {}
        reader = "gradwalk.graph.inductor_text._Reader._write"

        def write(self, name, made, names=names):
            names[made] = name
            self._now[name] = made
            self._written.add(name)

        monkeypatch.setattr(reader, write)
        nodes, outputs = read_program(made.inductor_post_grad_graph_str)
        calls, given = read_written(made.source_code)
        naming._name_outputs(nodes, outputs, given)
        naming._name_libraries(nodes, calls)
        naming._name_between(nodes, calls, {call.node for call in calls if call.is_library})
        held = held_in_buffers(made.source_code, arguments, {call.name for call in calls})
        assert len(held) == len(calls)
        checked = 0
        for call, buffers in zip(calls, held, strict=True):
            for version in call.gives:
                expected = interpreter.given.get(version.node)
                if expected is not None and names[version] in buffers:
                    assert is_the_same(buffers[names[version]], expected), version.node
                    checked += 1
        assert checked >= 2


@pytest.mark.one_python
@pytest.mark.parametrize("name", EVERY)
def test_every_call_is_in_a_kernel_that_has_what_it_does(name):
    done = {"erf": r"erf\(", "exp": r"exp\(", "tanh": r"tanh\(", "log": r"log\(", "cos": r"cos\("}
    for node, _, _ in after_backward(name):
        made = node._forward_cls.compiled_bw
        nodes, _ = read_program(made.inductor_post_grad_graph_str)
        found = kernels_of(node)
        texts = dict(
            re.findall(
                r"(?ms)^(\w+) = async_compile\.cpp_pybinding\(.*?r'''(.*?)'''\)", made.source_code
            )
        )
        own = [each for each in found if not each.is_library]
        called = re.findall(r"(?m)^        (cpp_\w+)\(", made.source_code)
        assert [each.name.partition(" (")[0] for each in own] == called
        for kernel in own:
            text = texts[kernel.name.partition(" (")[0]]
            for op, written in done.items():
                if op in kernel.calls.values():
                    assert re.search(written, text), (op, kernel)
        computed = {
            name
            for name, each in nodes.items()
            if each.target not in ("placeholder", "size", "getitem") and not is_view(nodes, each)
        }
        placed = {name for kernel in found for name in kernel.calls}
        assert placed <= computed
        assert len(placed) >= 0.75 * len(computed)
        libraries = [each for each in found if each.is_library]
        for each in libraries:
            (op,) = each.calls.values()
            assert op == operation(each.name)


def step(x, w):
    return torch.tanh(torch.sin(x) @ w).exp().sum()


def compiled_step(backend="inductor"):
    x, w = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
    x.requires_grad_()
    with torch._functorch.config.patch(enable_autograd_cache=False):
        return torch.compile(step, backend=backend)(x, w), step(x, w)


def test_is_told_in_the_panel_in_capture_and_beside_the_eager_graph():
    loss, eager = compiled_step()
    before = capture(loss, opened=True)
    calls = [data for _, data in before.nodes(data=True) if data["kind"] == "call"]
    assert {data["kernels"] for data in calls} == {None}
    widget = GraphWidget(loss)
    (node,) = (each["id"] for each in widget.graph["nodes"] if "Compiled" in each["op"])
    widget.expand(node)
    ids = [each["id"] for each in widget.graph["nodes"] if each["kind"] == "call"]
    widget.selected = ids[0]
    assert "is not known yet: the backend makes them when backward runs" in widget.details["about"]
    loss.backward(retain_graph=True)
    after = capture(loss, opened=True)
    told = {data["op"]: data for _, data in after.nodes(data=True) if data["kind"] == "call"}
    (kernel,) = told["aten.cos.default"]["kernels"]
    assert kernel.startswith("cpp_fused_")
    assert told["aten.mm.default"]["kernels"] == []
    said = []
    for i in ids:
        widget.selected = i
        said.append(widget.details["about"])
    assert any(f"It is fused with mul into one kernel: {kernel}." in each for each in said)
    assert any("It is no part of a kernel: extern_kernels.mm runs it." in each for each in said)
    widget.close()
    found = compare({"eager": eager, "compiled": loss}, opened=True)
    (model,) = found.compiled
    assert re.search(r"\d+ of its \d+ run in (one|\d+) kernel", model["said"])
    assert any("into cpp_fused_" in each["said"] for each in model["operations"])
    mms = [each for each in model["operations"] if each["label"] == "MmBackward0"]
    assert all("extern" not in each["said"] for each in mms)
    found.close()


def test_what_is_open_learns_it_with_the_first_pass():
    loss, eager = compiled_step()
    widget = GraphWidget(loss)
    (node,) = (each["id"] for each in widget.graph["nodes"] if "Compiled" in each["op"])
    widget.expand(node)
    found = compare({"eager": eager, "compiled": loss}, opened=True)
    assert not any(each["kernels"] for each in widget.graph["nodes"])
    assert "is not known" in found.compiled[0]["said"]
    found.backward()
    assert any(each["kernels"] for each in widget.graph["nodes"])
    assert re.search(r"run in (one|\d+) kernel", found.compiled[0]["said"])
    assert any("into cpp_fused_" in each["said"] for each in found.compiled[0]["operations"])
    widget.close()
    found.close()


def test_nothing_is_told_where_the_backend_makes_no_kernels():
    loss, eager = compiled_step("aot_eager")
    loss.backward(retain_graph=True)
    (node,) = compiled_nodes(loss)
    assert kernels_of(node) == []
    graph = capture(loss, opened=True)
    calls = [data for _, data in graph.nodes(data=True) if data["kind"] == "call"]
    assert {data["kernels"] for data in calls} == {None}
    found = compare({"eager": eager, "compiled": loss}, opened=True)
    assert "which of them run as one is not known" in found.compiled[0]["said"]
    found.close()


PROGRAM = """
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[4][1]cpu", w: "f32[4][1]cpu"):
        sin: "f32[4][1]cpu" = torch.ops.aten.sin.default(x);  x = None
        mul: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(sin, w);  w = None
        cos: "f32[4][1]cpu" = torch.ops.aten.cos.default(sin);  sin = None
        return (mul, cos)
"""


def written(*lines, given="buf0, buf1"):
    kernel = "async_compile.cpp_pybinding([], r'''void  kernel(const float* in_ptr0,\n %s)''')"
    texts = "\n".join(
        f"k{i} = " + kernel % ", ".join(f"{name}* {name}" for name in names)
        for i, names in enumerate((("in_ptr1", "out_ptr0"), ("in_out_ptr0",), ("out_ptr0",)))
    )
    body = "\n".join(f"    {line}" for line in ("x, w = args", *lines, f"return ({given}, )"))
    return f"{texts}\ndef call(args):\n{body}\n"


NEW = "buf{0} = empty_strided_cpu((4, ), (1, ), torch.float32)"


def calls_of(*lines, given="buf0, buf1"):
    return [
        (each.name, list(each.calls)) for each in kernels(PROGRAM, written(*lines, given=given))
    ]


def test_a_call_that_two_kernels_work_out_anew_is_in_both():
    found = calls_of(NEW.format(0), "k0(x, w, buf0)", NEW.format(1), "k2(x, buf1)")
    assert found == [("k0", ["sin", "mul"]), ("k2", ["sin", "cos"])]


def test_what_a_kernel_reads_is_not_done_by_it():
    found = calls_of(
        NEW.format(2),
        "k2(x, buf2)",
        NEW.format(0),
        "k0(buf2, w, buf0)",
        NEW.format(1),
        "k2(buf2, buf1)",
    )
    assert [each[1] for each in found] == [["sin"], ["mul"], ["cos"]]
    assert [each[0] for each in found] == ["k2 (call 1 of 2)", "k0", "k2 (call 2 of 2)"]


def test_memory_that_is_used_again_is_read_in_place_alone():
    in_place = calls_of(
        NEW.format(2),
        "k2(x, buf2)",
        NEW.format(0),
        "k0(buf2, w, buf0)",
        "buf1 = buf2; del buf2  # reuse",
        "k1(x, buf1)",
    )
    assert [each[1] for each in in_place][-1] == ["cos"]
    again = calls_of(
        NEW.format(2),
        "k2(x, buf2)",
        NEW.format(0),
        "k0(buf2, w, buf0)",
        "buf1 = buf2; del buf2  # reuse",
        "k2(x, buf1)",
    )
    assert [each[1] for each in again][-1] == ["sin", "cos"]


def test_what_is_not_certain_is_not_said():
    program = PROGRAM.replace("aten.mul.Tensor(sin, w)", "aten.mul.Tensor(neg, w)").replace(
        "        mul:",
        '        neg: "f32[4][1]cpu" = torch.ops.aten.neg.default(sin)\n        mul:',
    )
    lines = (
        NEW.format(2),
        "k2(x, buf2)",
        NEW.format(0),
        "k0(buf2, w, buf0)",
        NEW.format(1),
        "k2(x, buf1)",
    )
    found = kernels(program, written(*lines))
    # buf2 may be sin or neg of it.
    assert [list(each.calls) for each in found] == [[], ["mul"], ["sin", "cos"]]
    assert [each.is_whole for each in found] == [False, False, True]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("with torch.device(0): pass",), "another kind"),
        (("call_me(x)",), "it calls call_me"),
        (("buf0 = triton_fused.run(x)",), "it calls triton_fused.run"),
        (("k0(x)",), "another number of arguments"),
    ],
)
def test_what_is_written_otherwise_is_told(lines, why):
    with pytest.raises(UnknownKernelsError, match=why):
        kernels(PROGRAM, written(*lines))
    with pytest.raises(UnknownKernelsError, match="not laid out"):
        kernels("not a program", written())


def test_what_cannot_be_known_is_a_sentence():
    loss, _ = compiled_step()
    (node,) = compiled_nodes(loss)
    with pytest.raises(CannotOpenError, match="when backward runs for the first time"):
        kernels_of(node)


@pytest.mark.parametrize("count", [1, 2_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_of_long_programs(count):
    kind = '"f32[2, 2][2, 1]cpu"'
    program, lines, last = [], [], ("x", "x")
    for i in range(count):
        program += [
            f"s{i}: {kind} = torch.ops.aten.sin.default({last[0]})",
            f"m{i}: {kind} = torch.ops.aten.mm.default(s{i}, w{i})",
        ]
        lines += [
            f"b{i} = empty_strided_cpu((2, 2), (2, 1), torch.float32)",
            f"k2({last[1]}, b{i})",
            f"n{i} = empty_strided_cpu((2, 2), (2, 1), torch.float32)",
            f"extern_kernels.mm(b{i}, w{i}, out=n{i})",
        ]
        last = f"m{i}", f"n{i}"
    names = ["x", *(f"w{i}" for i in range(count))]
    arguments = ", ".join(f"{name}: {kind}" for name in names)
    body = "\n".join(f"        {line}" for line in [*program, f"return ({last[0]},)"])
    text = written(*lines, given=last[1]).replace("x, w =", f"{', '.join(names)}, =")
    found = kernels(f"class GraphModule:\n    def forward(self, {arguments}):\n{body}", text)
    expected = [[f"{kind}{i}"] for i in range(count) for kind in "sm"]
    assert [list(each.calls) for each in found] == expected
