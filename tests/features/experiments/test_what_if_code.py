"""What `what_if(...).code` says is done: the changed program is run, and gives the numbers."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest
import torch

from gradwalk import GraphWidget, capture, watch, what_if

NEURON = """\
h = w0 * x
r = torch.tanh(w1 * h)
out = h + w2 * r
loss = (out - 2) ** 2
"""
LINES = """\
h = (w0 * x).exp() * w0
y = h * h.sin() + h * w1 - h / (h + 2)
z = torch.addcmul(y, h, w2).relu() @ y - (y ** 2 @ h)
for _ in range(2):
    z = z * w1.sum() + z
loss = z.sin() + h.sum()
"""


def variables() -> dict[str, Any]:
    torch.manual_seed(0)
    values = {
        name: torch.rand(3, dtype=torch.double, requires_grad=True) for name in ("w0", "w1", "w2")
    }
    return {"torch": torch, "x": torch.rand(3, dtype=torch.double), **values}


def scalars() -> dict[str, Any]:
    found = variables()
    for name in ("w0", "w1", "w2", "x"):
        found[name] = found[name][0].detach().requires_grad_(name != "x")
    return found


def ran(program: str, given: dict[str, Any], file: str = "<program>") -> dict[str, Any]:
    linecache.cache[file] = len(program), None, program.splitlines(keepends=True), file
    exec(compile(program, file, "exec"), given)
    return given


def changed(program: str, code: str) -> tuple[str, str]:
    """The program with the lines that the code names changed, and what comes after it."""
    lines, helpers, after = program.splitlines(), [], []
    for part in re.split(r"\n(?=#|def )", code.strip()):
        said, *body = part.split("\n")
        where = re.match(r"# .*:(\d+), instead of", said)
        behind = re.match(r"# after .*:(\d+): ", said)
        text = "\n".join(body)
        if where:
            lines[int(where[1]) - 1] = text
        elif behind:
            lines[int(behind[1]) - 1] += "\n" + text
        elif said.startswith("def "):
            helpers.append(part)
        elif said == "# before it is used":
            helpers.append(text)
        else:
            after.append(part)
    return "\n".join(helpers + lines), "\n".join(after)


@pytest.mark.parametrize(("program", "make"), [(NEURON, scalars), (LINES, variables)])
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("kind", ["cut", "scale", "replace", "all"])
def test_running_it_gives_the_numbers(program: str, make: Any, watched: bool, kind: str):
    def given() -> dict[str, Any]:
        if not watched:
            return ran(program, make())
        with watch():
            return ran(program, make())

    edges = sorted(edges_of(given()["loss"]))
    for at in [*edges, "h", "w1", "w2", "loss"]:
        here = {**given(), "what_if": what_if, "clipped": clipped}
        here["asked"] = {
            "cut": {"cut": [at]},
            "scale": {"scale": {at: 0.5}},
            "replace": {"replace": {at: clipped}},
            "all": {"scale": {at: 0.5}, "replace": {"h": clipped}, "cut": [edges[-1]]},
        }[kind]
        # In the program's own place, so that its variables give the names.
        exec("found = what_if(loss, **asked, inputs=[w0, w1, w2])", here)
        found = here["found"]
        start = make()
        leaves = [start[name] for name in ("w0", "w1", "w2")]
        text, after = changed(program, found.code)
        again = ran(text, {**start, "clipped": clipped}, "<changed>")
        exec(after, again)
        if again["loss"].requires_grad:
            again["loss"].backward()
        for leaf, expected in zip(leaves, found.after.values(), strict=True):
            if expected is None or leaf.grad is None:
                assert expected is None or not expected.any(), (at, found.code)
                assert leaf.grad is None or not leaf.grad.any(), (at, found.code)
            else:
                torch.testing.assert_close(
                    leaf.grad, expected, msg=lambda said, code=found.code: f"{said}\n{code}"
                )


def clipped(grad: Any) -> Any:
    return grad.clamp(-0.1, 0.1)


def edges_of(loss: Any) -> list[tuple[int, int]]:
    graph = capture(loss)
    return [
        (u, d["input_nr"])
        for u, v, d in graph.edges(data=True)
        if graph.nodes[v]["kind"] in {"op", "leaf"}
    ]


def test_it_changes_the_line_that_uses_it():
    program = scalars()
    with watch():
        ran(NEURON, program, "<neuron>")
    w0, h, r, out, loss = (program[name] for name in ("w0", "h", "r", "out", "loss"))
    assert all(each is not None for each in (w0, h, r, out))
    assert "out = h.detach() + w2 * r" in what_if(loss, cut=[(2, 0)]).code
    assert "h = h.detach()" in what_if(loss, cut="h").code
    assert "out = h + (w2 * r).detach()" in what_if(loss, cut=[(2, 1)]).code
    assert "h.register_hook(lambda grad: grad * 3)" in what_if(loss, scale={"h": 3}).code
    both = what_if(loss, cut=[(2, 0), (4, 1)], scale={(2, 1): 2}).code
    assert "out = h.detach() + with_hook(w2 * r.detach(), lambda grad: grad * 2)" in both


@pytest.mark.parametrize(
    "name",
    ["0", "0.weight", "\n", "w\n", "a\nraise SystemExit", "a\rb", "f(x)", "w; h", "None", "<b>"],
)
@pytest.mark.parametrize("edge", [[0, 0], "name"])
def test_whatever_a_tensor_is_called_the_code_runs(name: str, edge: Any):
    leaf, other = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    output = leaf * other
    widget = GraphWidget(output, names={name: leaf, "other": other})
    for edit, expected in [({"kind": "cut"}, None), ({"kind": "scale", "value": 3.0}, 15.0)]:
        widget.edits = [{**edit, "edge": name if edge == "name" else edge}]
        assert widget.what_if is not None
        assert widget.what_if["failed"] is None
        code = widget.what_if["code"]
        compile(code, "<change>", "exec")
        if expected is not None:
            exec(code, {"output": output})
            output.backward(retain_graph=True)
            assert leaf.grad == expected
    widget.close()
