"""Findings about parameters: without a gradient, frozen, not registered, lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..explain.asked import Asked
from ..explain.not_in_graph import CutOff, about_cut_off, cut_off, reason_outside
from ..explain.reason import Reason
from ..graph.adjacency import walk
from ..graph.labels import described
from ..result import make
from ..schema.findings import Severity
from ..torch_api.modules import own_buffers
from ..torch_api.reading import everywhere, storage_id, why_unreadable
from .context import CheckContext
from .cuts_inside import taken_by, within
from .finding import Finding

_WAITS = (
    "Their optimizer holds nothing of this graph, and another one does. That is right if it is the "
    "other's turn, as of an actor beside its critic."
)

_BATCH_NORMS = (
    torch.nn.BatchNorm1d,
    torch.nn.BatchNorm2d,
    torch.nn.BatchNorm3d,
    torch.nn.SyncBatchNorm,
)


def parameter_findings(context: CheckContext) -> Iterator[Finding]:
    """Find parameters without a gradient, frozen ones, and copies that should be tied."""
    yield from _outside(context)
    yield from _frozen(context)
    yield from _left_out(context)
    yield from _plain_flags(context)
    yield from _untied(context)


def _outside(context: CheckContext) -> Iterator[Finding]:
    """Parameters that are not leaves of the graph: of those behind cuts, one finding per cause."""
    groups: dict[tuple[str, str | None], list[tuple[str, Reason]]] = defaultdict(list)
    behind: dict[tuple[object, ...], tuple[CutOff, dict[int, str]]] = {}
    spare = _spare(context)
    for key, name in context.expected.items():
        tensor = context.tensor(key)
        if context.is_used(key) or tensor is None or not tensor.requires_grad:
            continue
        found = cut_off(context.loss, tensor)
        if found is not None:
            behind.setdefault((key in context.waiting, found.causes), (found, {}))[1][key] = name
            continue
        reason = reason_outside(Asked(tensor, name, context.loss))
        groups[reason.kind, _of_no_matter(context, tensor, spare)].append((name, reason))
    for (waits, _), (found, called) in behind.items():
        first = found.sets[0][0]
        place = within(context, first).removeprefix(", ")
        them = "it" if len(called) == 1 else "them"
        ways = about_cut_off(found, called, them, f"{place}, " if place else "")
        ways += f" {_WAITS}" if waits else ""
        message = (
            f"No gradient reaches {list_some(list(called.values()))} ({len(called)} of "
            f"{plural(len(context.expected), 'parameter')}): {ways}"
        )
        severity: Severity = "info" if waits else "warning"
        nodes = taken_by(context, first)
        yield make(Finding, "cut", severity, nodes, message, {"parameters": len(called)})
    for (_, meant), group in groups.items():
        names = [name for name, _ in group]
        one = len(names) == 1
        message = (
            f"{list_some(names)} {'is' if one else 'are'} not in this graph, so backward gives "
            f"{'it' if one else 'them'} no gradient "
            f"({len(names)} of {plural(len(context.expected), 'parameter')}). "
            f"{group[0][1].sentence}{f' {meant}' if meant else ''}"
        )
        severity = "info" if meant else "warning"
        yield make(Finding, "no-grad", severity, [], message, {"parameters": len(names)})


def _of_no_matter(context: CheckContext, tensor: torch.Tensor, spare: set[int]) -> str | None:
    """Why a parameter may well have no part in a graph where nothing is wrong; None for no why."""
    if id(tensor) in context.waiting:
        return _WAITS
    if id(tensor) in spare:
        return (
            "Modules like it in the same list take part. If the input chooses among them, as among "
            "experts, another batch may use it."
        )
    if tensor.dim() < 2 and context.loss.holds_derivatives:
        return (
            "The graph holds derivatives, and a derivative does not depend on a bias that is only "
            "added."
        )
    return None


def _spare(context: CheckContext) -> set[int]:
    """Collect the ``id`` of parameters of idle modules in a list with used ones like them."""
    found: set[int] = set()
    for reference, _, _ in context.called.places.values():
        container = reference()
        if not isinstance(container, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            continue
        used: dict[tuple[object, ...], bool] = {}
        idle: list[tuple[tuple[object, ...], set[int]]] = []
        for child in container.children():
            parameters = list(child.parameters())
            alike = type(child), *(tuple(parameter.shape) for parameter in parameters)
            keys = {id(parameter) for parameter in parameters}
            if any(context.is_used(key) for key in keys):
                used[alike] = True
            else:
                idle.append((alike, keys))
        found.update(*(keys for alike, keys in idle if alike in used))
    return found


def _frozen(context: CheckContext) -> Iterator[Finding]:
    keys = dict.fromkeys(key for each in context.models.values() for key in each)
    frozen = [
        (key, context.called.known[key][0])
        for key in keys  # a module with two names has each parameter once
        if (tensor := context.tensor(key)) is not None and not tensor.requires_grad
    ]
    if not any(context.is_used(key) for key in context.held):  # then it was meant to be used
        known = {key for key, _ in frozen}
        frozen += [
            (key, context.called.known[key][0])
            for key, tensor in context.held.items()
            if key not in known and key in context.called.known and not tensor.requires_grad
        ]
    if not frozen:
        return
    held = [name for key, name in frozen if key in context.held]
    tied = [context.called.tied[key] for key, _ in frozen if key in context.called.tied]
    names = [name for _, name in frozen]
    more = f" An optimizer holds {list_some(held)}." if held else ""
    for same in tied[:1]:
        more += f" {' and '.join(same[:3])} are one tensor, so one flag freezes both."
    more += _moving_statistics(context, {key for key, _ in frozen})
    one = len(names) == 1
    message = (
        f"{list_some(names)} {'is' if one else 'are'} frozen: requires_grad is False, so "
        f"{'it gets' if one else 'they get'} no gradient.{more} To train, call "
        "requires_grad_() before the forward pass."
    )
    severity: Severity = "warning" if held else "info"
    yield make(Finding, "frozen", severity, [], message, {"parameters": len(names)})


def _moving_statistics(context: CheckContext, frozen: set[int]) -> str:
    """Name the frozen batch norms whose statistics every forward pass changes."""
    moving = [
        ".".join(filter(None, (variable, path)))
        for reference, variable, path in context.called.places.values()
        if isinstance(module := reference(), _BATCH_NORMS)
        and module.training
        and module.running_mean is not None
        and module.weight is not None
        and frozen.issuperset(map(id, module.parameters()))
    ]
    if not moving:
        return ""
    return (
        f" {list_some(moving)} {'is' if len(moving) == 1 else 'are'} in training mode, so running "
        "statistics still change: call eval() there."
    )


def _plain_flags(context: CheckContext) -> Iterator[Finding]:
    """Find modules whose `requires_grad` was set: torch does not read that attribute."""
    for reference, variable, path in context.called.places.values():
        module = reference()
        if module is None or variable not in context.models:
            continue
        flag = vars(module).get("requires_grad")
        if not isinstance(flag, bool):
            continue
        parameters = list(module.parameters())
        others = sum(parameter.requires_grad is not flag for parameter in parameters)
        if others:
            name = path or "the module"
            message = (
                f"{name}.requires_grad was set to {flag}, which torch does not read of a module: "
                f"requires_grad is {not flag} of {others} of its "
                f"{plural(len(parameters), 'parameter')}. If they are to be "
                f"{'learned' if flag else 'frozen'}, call {name}.requires_grad_({flag})."
            )
            yield make(Finding, "frozen", "info", [], message, {"parameters": others})


def _left_out(context: CheckContext) -> Iterator[Finding]:
    """Find leaves that got no gradient from the pass."""
    run = context.run
    if run is None or run.state == "stopped":
        return
    graph = context.captured.graph
    steps = run.steps
    empty = [
        i
        for i in context.leaves.values()
        if i not in steps or all(kept is None for kept in steps[i].grad_outputs)
    ]
    if empty:
        message = (
            f"No gradient came to {list_some([described(graph, i) for i in empty])} in this "
            f"backward pass, {len(empty)} of {len(context.leaves)} leaves: "
            f"{_who_passed_none(context, empty)}"
        )
        yield make(Finding, "no-grad", "warning", empty, message, {"parameters": len(empty)})


def _who_passed_none(context: CheckContext, empty: list[int]) -> str:
    """Which operations ran and passed no gradient on towards some leaves, as the pass shows."""
    assert context.run is not None
    steps, before = context.run.steps, context.captured.predecessors
    got = {
        node for node, step in steps.items() if any(kept is not None for kept in step.grad_outputs)
    }
    # Past what nothing came to either.
    passed = walk(empty, lambda node: before[node] if node not in got else ())
    words = [context.place(node) for node in passed if node in got]
    if not words:
        return "inputs= of the pass leaves them out, or it began elsewhere."
    it, its = ("it", "its") if len(words) == 1 else ("them", "their")
    return (
        f"{list_some(words)} got one and passed none on. Either {its} backward returned None, or "
        f"inputs= of the pass leaves out the tensors behind {it}."
    )


def _untied(context: CheckContext) -> Iterator[Finding]:
    """Two parameters that look as if they were meant to be one."""
    by_memory: dict[int, list[int]] = defaultdict(list)
    tables: dict[tuple[int, ...], list[int]] = defaultdict(list)
    heads: list[int] = []
    graph = context.captured.graph
    for node in context.leaves.values():
        leaf = context.leaf(node)
        if leaf is None or leaf.dim() != 2 or why_unreadable(leaf) is not None:
            continue
        memory = storage_id(leaf)
        if memory is not None:
            by_memory[memory].append(node)
        users = {graph.nodes[user]["op"] for user in graph.pred[node]}
        if "EmbeddingBackward0" in users:
            tables[tuple(leaf.shape)].append(node)
        elif users & {"TBackward0", "TransposeBackward0", "MmBackward0"}:
            heads.append(node)
    several = [nodes[:2] for nodes in by_memory.values() if nodes[1:]]
    several = [pair for pair in several if len({_shape(context, node) for node in pair}) == 1]
    pairs = [(one, other, "share their memory") for one, other in several]
    shared = {frozenset(pair) for pair in several}
    for head in heads:
        one = context.leaf(head)
        for table in tables.get(tuple(one.shape), ()) if one is not None else ():
            other = context.leaf(table)
            if frozenset((head, table)) not in shared and _are_equal(one, other):
                pairs.append((table, head, "hold the same numbers"))
    for first, second, how in pairs:
        names = context.name(first), context.name(second)
        message = (
            f"{names[0]} and {names[1]} {how}, but are two parameters with a gradient each. "
            "To tie them, assign the Parameter itself, as in head.weight = embedding.weight."
        )
        yield make(Finding, "tied", "info", [first, second], message)


def _shape(context: CheckContext, node: int) -> tuple[int, ...] | None:
    leaf = context.leaf(node)
    return None if leaf is None else tuple(leaf.shape)


def _are_equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None or one.device != other.device or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) and everywhere(one, lambda part: part == 0) is False


def unregistered_findings(context: CheckContext) -> Iterator[Finding]:
    """Find leaves of the graph that `parameters()` of the program's modules leaves out."""
    yield from _unregistered(context)
    yield from _plain_attributes(context)
    yield from _no_leaf(context)


def _unregistered(context: CheckContext) -> Iterator[Finding]:
    """Parameters that a module uses and does not have: made in forward, or in a Python list."""
    graph, annotations = context.captured.graph, context.captured.annotations
    known = {key for parameters in context.called.parameters.values() for key in parameters}
    owned: dict[int, set[int]] = {}
    lost: list[int] = []
    root = None
    for key, node in context.leaves.items():
        leaf = context.leaf(node)
        if not isinstance(leaf, torch.nn.Parameter) or key in known or key in context.called.known:
            continue
        if node in context.reduced:
            continue  # FSDP2 gathered it from a parameter that is registered
        for user in graph.pred[node]:
            seen = annotations.get(user)
            module = seen.outermost() if seen is not None and seen.outermost is not None else None
            if module is None:
                continue
            if id(module) not in owned:
                owned[id(module)] = {id(parameter) for parameter in module.parameters()}
            if key not in owned[id(module)]:
                lost.append(node)
                root = module
                break
        else:
            if not annotations and context.models and not context.is_explicit:
                lost.append(node)
    if not lost:
        return
    shapes = [str(tuple(graph.nodes[node]["shape"] or ())) for node in lost]
    users = [next(iter(graph.pred[node])) for node in lost if graph.pred[node]]
    first = f" First use: {context.place(users[0])}." if users else ""
    whose = type(root).__name__ if root is not None else "No module that a variable holds"
    does = "does not register" if root is not None else "registers"
    message = (
        f"{whose} {does} {plural(len(lost), 'Parameter')} that this graph uses, of shape "
        f"{list_some(shapes)}, so an optimizer made from parameters() leaves "
        f"{'it' if len(lost) == 1 else 'them'} out. Use nn.ModuleList or nn.ParameterList for a "
        f"Python list, and make Parameters in __init__.{first}"
    )
    yield make(Finding, "unregistered", "warning", lost, message, {"parameters": len(lost)})


def _plain_attributes(context: CheckContext) -> Iterator[Finding]:
    """Leaves that a module holds as plain tensors, and does not know as parameters."""
    for reference, _, path in context.called.places.values():
        module = reference()
        if module is None:
            continue
        buffers = own_buffers(module)
        for name, value in [*buffers.items(), *vars(module).items()]:
            if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
                continue
            whole, is_buffer = f"{path}.{name}".lstrip("."), name in buffers
            if value.requires_grad and not value.is_leaf and not is_buffer:
                yield from _computed_attribute(context, whole, value)
                continue
            node, is_named = context.leaves.get(id(value)), context.called.name_of(value)
            if node is None or id(value) in context.held or (is_named and not is_buffer):
                continue
            what = "a tensor that requires grad, but not a Parameter"
            out = "parameters(), state_dict() and to() leave it out"
            if is_buffer:
                what, out = "a buffer that requires grad", "parameters() leaves it out"
            message = (
                f"{whole} is {what}: {out}. To learn it, write self.{name} = nn.Parameter(...)."
            )
            yield make(Finding, "unregistered", "info", [node], message)


def _computed_attribute(context: CheckContext, name: str, value: torch.Tensor) -> Iterator[Finding]:
    """An attribute of a module that was computed from a leaf which is none of its parameters."""
    node = context.loss.node_of(value)
    behind = [] if node is None else list(context.captured.graph.succ[node])
    leaf = context.leaf(behind[0]) if len(behind) == 1 else None
    if node is None or leaf is None or _is_held(context, behind[0], leaf):
        return
    if leaf.shape == value.shape:
        message = (
            f"{name} is not a leaf: {context.place(node)} made it from a leaf "
            "that no variable and no module here holds, and that leaf gets the gradient. "
            f"parameters() leaves {name} out, so an optimizer made from that does not update it: "
            "convert the numbers first, and make the Parameter last."
        )
        yield make(Finding, "not-a-leaf", "info", [node, behind[0]], message)


def _is_held(context: CheckContext, node: int, leaf: torch.Tensor) -> bool:
    """Whether a variable, a module or an optimizer is known to hold a leaf, by now or before."""
    named = context.captured.graph.nodes[node]["name"] is not None
    return named or context.called.name_of(leaf) is not None or id(leaf) in context.held


def _no_leaf(context: CheckContext) -> Iterator[Finding]:
    """Variables that were made to be learned, and computed from a leaf that has no name."""
    captured = context.captured
    roots = set(captured.roots)
    for place, reference in captured.tensors.items():
        tensor, (node, nr) = reference(), place
        outputs = captured.graph.nodes[node]["outputs"]
        name = outputs[nr]["name"] if nr < len(outputs) else None
        behind = list(captured.graph.succ[node])
        if place in roots or tensor is None or name is None or tensor.retains_grad or behind[1:]:
            continue
        leaf = context.leaf(behind[0]) if behind else None
        if leaf is None or leaf.shape != tensor.shape:
            continue
        seen = captured.annotations.get(node)
        if isinstance(leaf, torch.nn.Parameter) and seen is not None and seen.module is not None:
            continue  # one of a module that no variable holds
        if _is_held(context, behind[0], leaf):
            continue
        message = (
            f"{name} is not a leaf: {context.place(node)} made it from a leaf "
            f"that no variable here holds, so {name}.grad stays None and that leaf gets the "
            f"gradient. If {name} is to be learned, make it whole first and call "
            "requires_grad_() last."
        )
        yield make(Finding, "not-a-leaf", "info", [node, behind[0]], message)
