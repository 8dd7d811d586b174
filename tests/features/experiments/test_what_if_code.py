"""What `what_if(...).code` says is done: the changed program is run, and gives the numbers."""

from __future__ import annotations

import linecache
import random
import re
import sys
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
        below = re.match(r"# .*:(\d+), after", said)
        text = "\n".join(body)
        if where:
            old = lines[int(where[1]) - 1]
            lines[int(where[1]) - 1] = old[: len(old) - len(old.lstrip())] + text
        elif below:
            lines[int(below[1]) - 1] += f"; {text}"
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
        (u, d["arg_nr"])
        for u, v, d in graph.edges(data=True)
        if graph.nodes[v]["kind"] in {"op", "leaf"} and d["arg_nr"] is not None
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not know columns")
def test_it_changes_the_line_that_uses_it():
    program = scalars()
    with watch():
        ran(NEURON, program, "<neuron>")
    w0, h, r, out, loss = (program[name] for name in ("w0", "h", "r", "out", "loss"))
    assert all(each is not None for each in (w0, h, r, out))
    assert "out = h.detach() + w2 * r" in what_if(loss, cut=[(2, 0)]).code
    assert "h = (w0 * x).detach()" in what_if(loss, cut="h").code
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
        assert widget.effect is not None
        assert widget.effect["failed"] is None
        code = widget.effect["code"]
        compile(code, "<change>", "exec")
        if expected is not None:
            exec(code, {"output": output})
            output.backward(retain_graph=True)
            assert leaf.grad == expected
    widget.close()


PRELUDE = """\
from gradwalk import watch
F = torch.nn.functional
def block(z):
    z = z * 2
    return torch.tanh(z)
def twice(z, w0):
    return (w0 * z) + z
"""
LINES_OF_KINDS = [
    "{a} = {b} + {c}",
    "{a} = {b} * {c} - {b}",
    "{a} = 2 * {b}",
    "{a} = {b} / 3 + 1.5 * {c}",
    "{a} = {b} * x",
    "{a} = x * {b}",
    "{a} = k * {b} - {c} * k",
    "{a} = 1 - {b}",
    "{a} = 2 / (1 + {b} ** 2)",
    "{a} = {b}.sin() * {c}.cos()",
    "{a} = torch.sin({b}) + F.relu({c})",
    "{a} = torch.where({b} > 0, {b}, {c})",
    "{a} = F.kl_div(F.log_softmax({b}, -1), x * x, reduction='batchmean') * {c}",
    "{a} = block({b})",
    "{a} = twice({b}, {c})",
    "{a} = relu({b})",
    "{a} = F.layer_norm({b}, (3,), w0) * {c}",
    "{a} = torch.stack([{b}, {c}]).sum(0)",
    "{a} = {b}.unbind(0)[1] * {c}",
    "{a} = torch.slogdet(torch.outer({b}, {c}) + torch.eye(3)).sign + {c}",
    "{a} = [each * {b} for each in ({b}, {c})][-1]",
    "for _ in range(2): {a} = {a} * {b} + {c}",
    "{a} = {b} if {b}.sum() > 100 else {c} * {b}",
    "{a} = ({b} * 3).view(-1); {a}[0] = 0.5",
    "{a} = {b} * 1; {a}.mul_({c})",
    "d, = torch.autograd.grad({b}.sum(), w0, create_graph=True, allow_unused=True)",
    "{a} = torch.utils.checkpoint.checkpoint(block, {b}, use_reentrant=False)",
    "{a} = {b}.expand(2, 3).sum(0) * x[0]",
    "{a} = ({b} @ {c}) * {c} + ({b} *\\\n {c})",
]


def random_program(draw: random.Random) -> str:
    """A program of some lines that use each other's tensors; the last one gives `loss`."""
    names = ["w0", "w1", "w2", "a", "b", "c", "d"]
    lines = ["a, b, c, d = w0 * 1, w1 + w2, w2 * w0, w1.exp()"]
    for _ in range(draw.randint(3, 7)):
        kind = draw.choice(LINES_OF_KINDS)
        b, c = draw.choice(names), draw.choice(names)
        lines.append(kind.format(a=draw.choice("abcd"), b=b, c=c))
    both = " + ".join(f"({name} * {name}).sum()" for name in draw.sample(names, 4))
    return "\n".join([*PRELUDE.splitlines(), *lines, f"loss = {both} + (w0 + w1 + w2).sum()", ""])


def edited_programs(seed: int) -> int:
    """Compare some edits of one random program with their code; return how many."""
    draw = random.Random(seed)
    program = random_program(draw)

    def given() -> dict[str, Any]:
        relu = torch.nn.PReLU(dtype=torch.double)
        return {**variables(), "k": 2.5, "relu": relu, "clipped": clipped}

    try:
        with watch():
            first = ran(program, given(), f"<random {seed}>")
        torch.autograd.grad(first["loss"], [first[f"w{i}"] for i in range(3)], retain_graph=True)
    except (RuntimeError, AttributeError, TypeError):  # torch refuses it, or a derivative is None
        return 0
    edges = edges_of(first["loss"])
    places = [*edges, *edges, *(n for n in ("w0", "w1", "a", "b", "c") if in_graph(first, n))]
    for _ in range(5):
        asked: dict[str, Any] = {"cut": [], "scale": {}, "replace": {}}
        for place in draw.sample(places, min(len(places), draw.choice([1, 1, 1, 2, 3]))):
            kind = draw.choice(["cut", "scale", "replace"])
            if kind == "cut":
                asked["cut"].append(place)
            else:
                asked[kind][place] = draw.choice([0.5, -2, 0]) if kind == "scale" else clipped
        here = {**first, "what_if": what_if, "asked": asked}
        exec("found = what_if(loss, **asked, inputs=[w0, w1, w2])", here)
        found = here["found"]
        start = given()
        text, after = changed(program, found.code)
        again = ran(text, start, "<changed>")
        exec(after, again)
        if again["loss"].requires_grad:
            again["loss"].backward()
        for name, expected in zip(("w0", "w1", "w2"), found.after.values(), strict=True):
            zero = torch.zeros(3, dtype=torch.double)
            torch.testing.assert_close(
                zero if start[name].grad is None else start[name].grad,
                zero if expected is None else expected,
                equal_nan=True,
                msg=f"{seed} {asked}\n{found.code}\n{program}",
            )
    return 5


def in_graph(given: dict[str, Any], name: str) -> bool:
    graph = capture(given["loss"], names={key: given[key] for key in (name,)})
    return any(each == name for _, each in graph.nodes(data="name"))


def test_the_code_of_random_edits_gives_the_numbers():
    assert sum(edited_programs(seed) for seed in range(16)) >= 50


@pytest.mark.full
def test_the_code_of_a_thousand_random_edits_gives_the_numbers():
    assert sum(edited_programs(seed) for seed in range(100, 340)) >= 1000


SEVERAL = {
    "topk": "v, i = w0.topk(2)",
    "max over a dimension": "v, i = w0.max(0)",
    "aminmax": "v, u = torch.aminmax(w0)",
    "split": "v, u = w0.split([2, 1])",
    "unbind": "v, *u = w0.unbind()",
    "chunk": "u, v = w0.chunk(2)",
    "several targets": "both = (v, u) = torch.std_mean(w0)",
    "one of them": "v = w0.sort()[0]",
    "by attribute": "v = w0.sort().values",
    "a list": "[v, u] = torch.frexp(w0)[0], 1",
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("watched", [True, False])
def test_one_output_of_several_is_cut(name: str, watched: bool):
    program = f"{SEVERAL[name]}\nh = v.sum() * w1\nloss = (h * w0).sum() + v.sum()\n"
    if watched:
        with watch():
            given = ran(program, variables())
    else:
        given = ran(program, variables())
    v, loss, w0 = given["v"], given["loss"], given["w0"]
    done = what_if(loss, cut=[v])
    again, after = changed(program, done.code)
    new = ran(again, variables())
    exec(after, new)
    new["loss"].backward()
    expected = done.after["w0"]
    assert torch.equal(new["w0"].grad, torch.zeros(3) if expected is None else expected), w0


def test_code_for_one_output_names_it():
    with watch():
        given = ran("v, i = w0.topk(2)\nloss = v.sum()\n", variables())
    v, loss = given["v"], given["loss"]
    code = what_if(loss, cut=[v]).code
    assert code.endswith("after: v, i = w0.topk(2)\nv = v.detach()\n")
