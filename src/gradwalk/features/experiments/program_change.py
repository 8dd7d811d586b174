"""The change of a program that has the effect of edits, as Python."""

from __future__ import annotations

import ast
import cmath
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from ...graph.capture import EdgeKey
from ...tracing.annotations import Annotation
from ...tracing.source_line import SourceLine
from .experiment import Experiment, place_name
from .replay import Edit, Edits, Gradient, Replay

_WITH_HOOK = """\
def with_hook(tensor, hook):  # the same tensor, for one use alone
    alias = tensor.view_as(tensor)
    if alias.requires_grad:
        alias.register_hook(hook)
    return alias
"""
_AT_INDEX = """\
def at_index(nr, hook):  # A hook of a node, for one of its gradients.
    def change(grads, *_):
        new = None if grads[nr] is None else hook(grads[nr])
        # None leaves the gradient as it is.
        return grads if new is None else (*grads[:nr], new, *grads[nr + 1 :])
    return change
"""
_OPERATORS: dict[tuple[str, str | None], type[ast.operator]] = {
    ("AddBackward0", "add"): ast.Add,
    ("SubBackward0", "sub"): ast.Sub,
    ("MulBackward0", "mul"): ast.Mult,
    ("DivBackward0", "div"): ast.Div,
    ("MmBackward0", "matmul"): ast.MatMult,
    ("MvBackward0", "matmul"): ast.MatMult,
    ("DotBackward0", "matmul"): ast.MatMult,
    ("PowBackward0", "__pow__"): ast.Pow,
    ("PowBackward1", "__pow__"): ast.Pow,
}
"""Node and function -> the operator whose two sides are their inputs."""

_BARE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_TORCH = ("torch", "F")


def program_change(
    annotations: Mapping[int, Annotation],
    experiment: Experiment,
    edits: Sequence[Edit],
    flowed: Mapping[int, Gradient],
) -> str:
    """Return Python code that has the effect of edits, with comments that say where it belongs.

    Under `gradwalk.watch` an edge is changed in the line that uses the tensor, if that line is
    known to be the operation. Anything else is changed on the graph, before backward.

    Returns Python; empty for no edits. ``flowed``: number of an edit -> the gradient there after
    all edits; None if none reached it.
    """
    cut = Edits(edits)
    kept: list[Edit] = []
    without_effect: list[str] = []
    for number, edit in enumerate(edits):
        if edit.kind != "cut" and (edit.edge in cut.cut_edges or edit.place in cut.cut_places):
            continue
        if flowed.get(number) is None and not _works_on_none(edit):
            label = _printable(edit.label)
            without_effect.append(f"# {label}: this edit changes none of the gradients\n")
        else:
            kept.append(edit)
    kept.sort(key=lambda edit: edit.edge is None)  # a hook of a tensor runs after those of its uses
    return "\n".join([*without_effect, *_Writer(annotations, experiment.replay, kept).parts()])


def _works_on_none(edit: Edit) -> bool:
    return edit.kind == "cut" or (edit.kind == "replace" and isinstance(edit.value, torch.Tensor))


class _Writer:
    """Write the code of some edits of one graph."""

    def __init__(
        self, annotations: Mapping[int, Annotation], replay: Replay, edits: Sequence[Edit]
    ) -> None:
        self._replay = replay
        self._edits = edits
        self._replacements: dict[int, str] = {}
        self._calls = _calls(annotations, replay)
        self._annotations = annotations

    def parts(self) -> list[str]:
        """Return helpers, then changed lines, then hooks."""
        lines: dict[SourceLine, list[tuple[ast.expr, Edit]]] = {}
        hooks: list[str | None] = []
        for edit in self._edits:
            found = self._in_line(edit)
            if found is not None:
                lines.setdefault(found[0], []).append((found[1], edit))
            else:
                hooks.append(self._by_name(edit))
        if None in hooks:  # code that finds nodes from the output needs the unchanged graph
            lines, hooks = {}, [self._on_the_graph(edit) for edit in self._edits]
        written = [self._rewritten(line, changed) for line, changed in lines.items()]
        written += [each for each in hooks if each is not None]
        helpers = {"with_hook(": _WITH_HOOK, "at_index(": _AT_INDEX}
        used = [code for call, code in helpers.items() if any(call in part for part in written)]
        return [*used, *written]

    def _hook(self, edit: Edit) -> str:
        """The hook of a tensor that makes an edit."""
        if edit.kind == "cut":
            return "lambda grad: grad * 0"
        if edit.kind == "scale":
            return f"lambda grad: grad * {_number(edit.value)}"
        if isinstance(edit.value, FunctionType) and edit.value.__qualname__.isidentifier():
            return edit.value.__name__
        name = self._replacement(edit)
        return f"lambda grad: {name}" if isinstance(edit.value, torch.Tensor) else name

    def _replacement(self, edit: Edit) -> str:
        count = len(self._replacements)
        name = f"replacement_{count + 1}" if count else "replacement"
        return self._replacements.setdefault(id(edit.value), name)

    def _about(self, edits: Sequence[Edit]) -> str:
        names = [self._replacements.get(id(edit.value)) for edit in edits]
        return "".join(f"# {name}: what you gave for it\n" for name in dict.fromkeys(names) if name)

    def _in_line(self, edit: Edit) -> tuple[SourceLine, ast.expr] | None:
        """The line of an edit, and the expression to change; None unless both are certain."""
        if edit.edge is None:
            found = self._calls.get(edit.place[0]) if edit.kind == "cut" else None
            is_whole = found is not None and self._annotations[edit.place[0]].gave_one
            return found if is_whole else None
        found = self._calls.get(edit.edge[0])
        used = None if found is None else self._operand(edit.edge, found[1])
        return None if found is None or used is None else (found[0], used)

    def _operand(self, edge: EdgeKey, call: ast.expr) -> ast.expr | None:
        """The operand of an operation whose gradient flows along an edge."""
        consumer, arg_nr = edge
        inputs = self._replay.following[consumer]
        is_single = sum(place is not None for place in inputs) == 1
        if isinstance(call, ast.BinOp):
            sides = [call.left, call.right]
            tensors = [side for side in sides if not _is_number(side)]
            if not is_single:
                return sides[arg_nr]
            place = inputs[arg_nr]
            name = None if place is None else place_name(self._replay, place)
            named = [side for side in sides if name is not None and ast.unparse(side) == name]
            certain = tensors if len(tensors) == 1 else named if arg_nr else []
            return certain[0] if len(certain) == 1 else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return None
        others = [*call.args, *(each.value for each in call.keywords)]
        is_function = "." in (self._annotations[consumer].forward or "")
        used = others.pop(0) if is_function and call.args else call.func.value
        return used if is_single and all(map(_is_literal, others)) else None

    def _rewritten(self, line: SourceLine, changed: list[tuple[ast.expr, Edit]]) -> str:
        """A line with some expressions changed; one may be a part of another."""
        insertions: list[tuple[tuple[int, ...], str]] = []
        for number, (used, edit) in enumerate(changed):
            start, end = used.col_offset, used.end_col_offset or 0
            before, after = "with_hook(", f", {self._hook(edit)})"
            if edit.kind == "cut":
                before, after = ("", "") if isinstance(used, _BARE) else ("(", ")")
                after += ".detach()"
            # Inner ones end first and begin last. The outermost hook runs first, as the first edit.
            insertions += [
                ((start, 1, -end, number), before),
                ((end, 0, -start, -number), after),
            ]
        text = line.text.encode()
        for (at, *_), inserted in sorted(insertions, key=lambda each: each[0], reverse=True):
            text = text[:at] + inserted.encode() + text[at:]
        about = self._about([edit for _, edit in changed])
        return f"{about}# {line}, instead of: {line.text}\n{text.decode()}\n"

    def _by_name(self, edit: Edit) -> str | None:
        """A line that changes all uses of a tensor that has a name."""
        replay = self._replay
        name, node = place_name(replay, edit.place), edit.place[0]
        if name is None or not _is_reference(name):
            return None
        if edit.edge is not None and (
            len(replay.into(edit.place)) > 1 or edit.place in replay.captured.roots
        ):
            return None
        if edit.kind == "cut" and edit.edge is None and not replay.is_leaf(node):
            return self._after_the_line(edit, name)
        if edit.kind == "cut":
            if not replay.is_leaf(node) or not _is_undifferentiated(self._annotations, replay):
                return None
            return f"# before it is used\n{name}.requires_grad_(False)\n"
        hooked = f"{name}.register_hook({self._hook(edit)})\n"
        if any(each.kind == "cut" for each in self._edits):
            hooked = f"if {name}.requires_grad:\n    {hooked}"
        return f"{self._about([edit])}# between forward and backward\n{hooked}"

    def _after_the_line(self, edit: Edit, name: str) -> str | None:
        """A line to add below the one that made a variable of one output of a call."""
        seen = self._annotations.get(edit.place[0])
        line = None if seen is None else seen.source
        tree = None if line is None else _parsed(line.text)
        if (
            line is None
            or tree is None
            or not _is_undifferentiated(self._annotations, self._replay)
        ):
            return None
        assigned = [
            target for each in tree.body if isinstance(each, ast.Assign) for target in each.targets
        ]
        made = [
            each.id
            for target in assigned
            for each in ast.walk(target)
            if isinstance(each, ast.Name)
        ]
        if made.count(name) != 1:
            return None
        return f"# {line}, after: {line.text}\n{name} = {name}.detach()\n"

    def _on_the_graph(self, edit: Edit) -> str:
        """A hook on a node, found from an output on."""
        replay = self._replay
        node, index = edit.edge or edit.place
        root, way = _way(replay, node)
        output = place_name(replay, replay.captured.roots[root])
        if output is None or not _is_reference(output):
            output = "output" if len(replay.captured.roots) == 1 else f"outputs[{root}]"
        start = f"{output}.grad_fn"
        if replay.is_leaf(replay.captured.roots[root][0]):
            start = f"torch.autograd.graph.get_gradient_edge({output}).node"
        walk = f"for nr in {way!r}:\n    node = node.next_functions[nr][0]\n" if way else ""
        register = "register_hook" if edit.edge is not None else "register_prehook"
        if _works_on_none(edit):
            new = "None" if edit.kind == "cut" else self._replacement(edit)
            hook = f"lambda grads, *_: (*grads[:{index}], {new}, *grads[{index + 1}:])"
        else:
            hook = f"at_index({index}, {self._hook(edit)})"
        seen = self._annotations.get(node)
        line = "" if seen is None or seen.source is None else f", {seen.source}: {seen.source.text}"
        at = _printable(f"{replay.named(node)}{line}")
        return (
            f"{self._about([edit])}# between forward and backward: at {at}\n"
            f"node = {start}\n{walk}node.{register}({hook})\n"
        )


def _calls(
    annotations: Mapping[int, Annotation], replay: Replay
) -> dict[int, tuple[SourceLine, ast.expr]]:
    """Each node whose operation is known to be one expression of one line, with both."""
    if not _is_undifferentiated(annotations, replay):
        return {}
    sites: dict[tuple[SourceLine, tuple[int, int] | None], list[int]] = {}
    for node, seen in annotations.items():
        if seen.source is not None:
            sites.setdefault((seen.source, seen.source.span), []).append(node)
    found: dict[int, tuple[SourceLine, ast.expr]] = {}
    for (line, span), nodes in sites.items():
        if len(nodes) == 1:
            call = _call_at(line.text, span)
            node = nodes[0]
            kind = type(replay.captured.nodes[node]).__name__
            if call is not None and _is_made_by(kind, annotations[node].forward, call):
                found[node] = line, call
    return found


def _is_undifferentiated(annotations: Mapping[int, Annotation], replay: Replay) -> bool:
    """Whether detaching a tensor in the program changes nothing but this graph."""
    operations = [i for i in range(len(replay.captured.nodes)) if not replay.is_leaf(i)]
    return (
        all(i in annotations for i in operations)
        and not any(each.inplace for each in annotations.values())
        and len({each.derivatives for each in annotations.values()}) <= 1
    )


def _call_at(text: str, span: tuple[int, int] | None) -> ast.expr | None:
    """The operation at some columns of a line, or the only one of the line."""
    tree = _parsed(text)
    nodes = () if tree is None else ast.walk(tree)
    calls = [each for each in nodes if isinstance(each, (ast.BinOp, ast.Call))]
    if span is not None:
        calls = [each for each in calls if (each.col_offset, each.end_col_offset) == span]
    return calls[0] if len(calls) == 1 else None


def _is_made_by(kind: str, forward: str | None, call: ast.expr) -> bool:
    """Whether an expression is the very call that made a node, not a function around it."""
    if isinstance(call, ast.BinOp):
        return _OPERATORS.get((kind, forward)) is type(call.op)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not forward:
        return False
    owner, called = call.func.value, call.func.attr
    if "." not in forward:
        return forward == called
    is_torch = isinstance(owner, ast.Name) and owner.id in _TORCH
    return is_torch and forward.rpartition(".")[2] == called


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def _is_number(value: ast.expr) -> bool:
    return _is_literal(value) and isinstance(ast.literal_eval(value), (int, float, complex))


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a part of a statement
        return None


def _number(value: Any) -> str:
    number = value.item() if isinstance(value, torch.Tensor) else value
    is_finite = isinstance(number, int) or cmath.isfinite(number)
    return repr(number) if is_finite else f"{type(number).__name__}('{number}')"


def _is_reference(name: str) -> bool:
    """Whether a name, which may be any text, is one that a program can say: ``w``, ``xs[0]``."""
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


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


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
