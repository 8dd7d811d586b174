"""The change of a program that does for real what was changed about its gradients, as Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FunctionType

import torch

from ...graph.attributes import Place
from ...tracing.annotations import Annotation
from ...tracing.source_line import SourceLine
from .change import Edit, Edits
from .experiment import Experiment
from .places import place_name
from .replay import Replay

_WITH_HOOK = """\
def with_hook(tensor, hook):  # the same tensor, for one use alone
    alias = tensor.view_as(tensor)
    if alias.requires_grad:
        alias.register_hook(hook)
    return alias
"""

_OPERATORS: dict[str, type[ast.operator]] = {
    "AddBackward0": ast.Add,
    "SubBackward0": ast.Sub,
    "MulBackward0": ast.Mult,
    "DivBackward0": ast.Div,
    "MmBackward0": ast.MatMult,
    "MvBackward0": ast.MatMult,
    "DotBackward0": ast.MatMult,
    "PowBackward0": ast.Pow,
    "PowBackward1": ast.Pow,
}
"""Nodes whose inputs are the left and the right side of an operator."""

_BARE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def program_change(
    annotations: Mapping[int, Annotation], experiment: Experiment, edits: list[Edit]
) -> str:
    """Return Python code that makes the changes in the program, with comments that say where.

    Under `gradwalk.watch` an edge is changed in the line that uses the tensor. Where no line is
    known, or it ran several times, the change is made on the graph, between forward and backward.

    Args:
        annotations: The annotations of the nodes, from `watch`.
        experiment: The graph.
        edits: The changes.

    Returns:
        Python; empty for no changes.
    """
    replay = experiment.replay
    cut = Edits(edits)
    edits = [
        edit
        for edit in edits
        if edit.kind == "cut" or not (edit.edge in cut.cut_edges or edit.place in cut.cut_places)
    ]
    parts: dict[object, str | None] = {}
    uses: dict[SourceLine, list[tuple[ast.expr, Edit]]] = {}
    for number, edit in enumerate(edits):
        found = _use(annotations, replay, edit)
        if found is None:
            parts[number] = _by_name(annotations, replay, edit)
        else:
            uses.setdefault(found[0], []).append((found[1], edit))
            parts[found[0]] = ""  # one line for all its changes
    if None in parts.values():  # code that finds nodes from the output needs an unchanged graph
        return "\n".join(_on_the_graph(replay, edit) for edit in edits)
    parts |= {line: _rewritten(line, changed) for line, changed in uses.items()}
    written = list(filter(None, parts.values()))
    helper = [_WITH_HOOK] if any("with_hook(" in part for part in written) else []
    return "\n".join([*helper, *written])


def _hook(edit: Edit) -> str:
    """The function of the gradient that a hook is."""
    if edit.kind == "cut":
        return "lambda grad: grad * 0"
    if edit.kind == "scale":
        return f"lambda grad: grad * {_number(edit.value)}"
    if isinstance(edit.value, torch.Tensor):
        return "lambda grad: replacement"
    is_named = isinstance(edit.value, FunctionType) and edit.value.__qualname__.isidentifier()
    return edit.value.__name__ if is_named else "replacement"


def _number(value: object) -> object:
    return value.item() if isinstance(value, torch.Tensor) else value


def _about(edit: Edit) -> str:
    return "# replacement: what you gave for it\n" if "replacement" in _hook(edit) else ""


def _use(
    annotations: Mapping[int, Annotation], replay: Replay, edit: Edit
) -> tuple[SourceLine, ast.expr] | None:
    """The line, and what in it is used, of one edge; None where that is not certain."""
    seen = None if edit.edge is None else annotations.get(edit.edge[0])
    tree = None if seen is None or seen.source is None else _parsed(seen.source.text)
    if edit.edge is None or seen is None or seen.source is None or tree is None:
        return None
    used = _operand(annotations, replay, edit.edge, seen.source, tree)
    return None if used is None else (seen.source, used)


def _rewritten(line: SourceLine, changed: list[tuple[ast.expr, Edit]]) -> str:
    """A line with what it uses changed; one use may be a part of another."""
    insertions: list[tuple[tuple[int, ...], str]] = []
    for number, (used, edit) in enumerate(changed):
        start, end = used.col_offset, used.end_col_offset or 0
        before, after = "with_hook(", f", {_hook(edit)})"
        if edit.kind == "cut":
            before, after = ("", "") if isinstance(used, _BARE) else ("(", ")")
            after += ".detach()"
        # Inner ones end first and begin last; of the same one the first edit is the innermost.
        insertions += [((start, 1, -end, -number), before), ((end, 0, -start, number), after)]
    text = line.text.encode()
    for (at, *_), inserted in sorted(insertions, key=lambda each: each[0], reverse=True):
        text = text[:at] + inserted.encode() + text[at:]
    about = "".join({_about(edit): None for _, edit in changed})
    return f"{about}# {line}, instead of: {line.text}\n{text.decode()}\n"


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a part of a statement
        return None


def _operand(
    annotations: Mapping[int, Annotation],
    replay: Replay,
    edge: Place,
    line: SourceLine,
    tree: ast.Module,
) -> ast.expr | None:
    """The expression in a line whose gradient flows along an edge."""
    nodes = replay.captured.nodes
    consumer, input_nr = edge
    kind = type(nodes[consumer])
    there = [i for i, seen in annotations.items() if seen.source == line]
    alike = [i for i in there if type(nodes[i]) is kind]
    operator = _OPERATORS.get(kind.__name__)
    found = [] if operator is None else list(_operations(tree, operator))
    if found and len(found) == len(alike):
        in_order = sorted(alike, key=lambda i: replay.captured.graph.nodes[i]["sequence_nr"])
        left, right = found[in_order.index(consumer)]
        sides = [left, right]
        return sides[input_nr] if input_nr < len(sides) else None
    # Something else, a call: certain where the tensor has a name that the line uses once, and no
    # other node that the line made takes it.
    place = replay.following[consumer][input_nr]
    name = None if place is None else place_name(replay, place)
    takers = [i for i, _ in replay.takers[place[0]]] if place is not None else []
    if name is None or len(set(takers) & set(there)) != 1 or len(alike) != 1:
        return None
    uses = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.expr)
        and isinstance(getattr(each, "ctx", None), ast.Load)
        and ast.unparse(each) == name
    ]
    return uses[0] if len(uses) == 1 else None


def _operations(tree: ast.AST, operator: type[ast.operator]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Left and right sides of an operator in the order in which Python comes to it."""
    if isinstance(tree, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        return  # may run any number of times
    for child in ast.iter_child_nodes(tree):
        yield from _operations(child, operator)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, operator):
        yield tree.left, tree.right


def _by_name(annotations: Mapping[int, Annotation], replay: Replay, edit: Edit) -> str | None:
    """A line that changes all uses of a tensor that has a name."""
    if edit.edge is not None and len(_into(replay, edit.place)) > 1:
        return None
    name, node = place_name(replay, edit.place), edit.place[0]
    if name is None or not _is_reference(name):
        return None
    seen, is_leaf = annotations.get(node), replay.is_leaf(node)
    line = None if seen is None else seen.source
    if edit.kind != "cut":
        where = "between forward and backward" if line is None else f"after {line}: {line.text}"
        hooked = f"{name}.register_hook({_hook(edit)})"
        return f"{_about(edit)}# {where}\nif {name}.requires_grad:\n    {hooked}\n"
    if is_leaf and not name.isidentifier():
        return f"# before it is used\n{name}.requires_grad_(False)\n"
    if not name.isidentifier() or (line is None and not is_leaf):
        return None
    where = "before it is used" if is_leaf else f"after {line}: {line.text}"  # type: ignore[union-attr]
    return f"# {where}\n{name} = {name}.detach()\n"


def _is_reference(name: str) -> bool:
    """Whether a name is one that a program can say: ``w``, ``net.fc.weight``, ``xs[0]``.

    Names may be any text: a key of ``names=``, "0.weight" of a Sequential.
    """
    tree = _parsed(name)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return False
    found = tree.body[0].value
    if ast.unparse(found) != name:
        return False
    while isinstance(found, ast.Attribute) or (
        isinstance(found, ast.Subscript) and isinstance(found.slice, ast.Constant)
    ):
        found = found.value
    return isinstance(found, ast.Name)


def _into(replay: Replay, place: Place) -> list[Place]:
    return [edge for edge in replay.takers[place[0]] if replay.following[edge[0]][edge[1]] == place]


def _on_the_graph(replay: Replay, edit: Edit) -> str:
    """A hook on a node, found from an output on."""
    node, index = edit.edge if edit.edge is not None else edit.place
    root, way = _way(replay, node)
    output = place_name(replay, replay.captured.roots[root])
    if output is None or not _is_reference(output):
        output = "output"
    start = (
        f"torch.autograd.graph.get_gradient_edge({output}).node"
        if replay.is_leaf(replay.captured.roots[root][0])
        else f"{output}.grad_fn"
    )
    hook = "None" if edit.kind == "cut" else f"({_hook(edit)})(each)"
    arguments, register = (
        ("grads, _", "register_hook") if edit.edge is not None else ("grads", "register_prehook")
    )
    walk = f"for nr in {way!r}:\n    node = node.next_functions[nr][0]\n" if way else ""
    named = place_name(replay, edit.place)
    instead = f", as {named}.detach() does" if edit.kind == "cut" and named else ""
    at = "".join(c if c.isprintable() else " " for c in f"{replay.named(node)}{instead}")
    return (
        f"{_about(edit)}# between forward and backward: at {at}\n"
        f"node = {start}\n{walk}"
        f"node.{register}(\n    lambda {arguments}: tuple(\n"
        f"        {hook} if nr == {index} else each for nr, each in enumerate(grads)\n    )\n)\n"
    )


def _way(replay: Replay, node: int) -> tuple[int, tuple[int, ...]]:
    """Which output to start from, and the inputs to follow to a node."""
    origin: dict[int, tuple[int, int]] = {}
    order = list(dict.fromkeys(root for root, _ in replay.captured.roots))
    found = set(order)
    for each in order:  # grows while we walk
        for nr, place in enumerate(replay.following[each]):
            if place is not None and place[0] not in found:
                found.add(place[0])
                origin[place[0]] = each, nr
                order.append(place[0])
    way: list[int] = []
    while node in origin:
        node, nr = origin[node]
        way.append(nr)
    roots = [root for root, _ in replay.captured.roots]
    return roots.index(node), tuple(reversed(way))
