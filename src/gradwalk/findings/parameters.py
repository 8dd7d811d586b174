"""Findings about parameters: which get no gradient or only zeros, and why; which are lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from ..backward.kept import Kept, norms
from ..forward.cuts import Cut
from ..graph.nodes import leaf_tensor
from ..graph.reading import everywhere, storage_id, why_unreadable
from ..graph.words import described
from ..modules.plumbing import is_plumbing
from ..reasons.blocking import Block, blocked_leaves
from ..reasons.extra_words import lost_by
from ..reasons.reasons import Reason, reason_outside
from .cuts_inside import taken_by, within
from .dead_units import dead_units
from .evidence import Evidence, counted, listed
from .finding import Finding

_MOST_NODES = 100


def parameter_findings(evidence: Evidence) -> Iterator[Finding]:
    """What is wrong with the parameters of the graph, and of the models that it is of.

    Args:
        evidence: What there is to judge by.
    """
    yield from _outside(evidence)
    yield from _frozen(evidence)
    yield from _left_out(evidence)
    yield from _zero(evidence)
    yield from _unregistered(evidence)
    yield from _plain_attributes(evidence)
    yield from _untied(evidence)
    yield from _no_leaf(evidence)


def _outside(evidence: Evidence) -> Iterator[Finding]:
    """Parameters that are no leaf of the graph; of those that a cut took out, one per cause."""
    groups: dict[tuple[str, object], list[tuple[str, Reason]]] = defaultdict(list)
    cut_off: dict[tuple[str, object], Cut] = {}
    keys: dict[tuple[str, object], int] = {}
    for key, name in evidence.expected.items():
        tensor = evidence.tensor(key)
        if evidence.is_used(key) or tensor is None or not tensor.requires_grad:
            continue
        cuts = evidence.loss.cuts_from(tensor)
        cause: tuple[str, object] = ("cut", cuts[0].cause) if cuts else ("", None)
        if cuts:
            cut_off.setdefault(cause, cuts[0])
            keys.setdefault(cause, key)
            groups[cause].append((name, Reason("cut", "")))
        else:
            reason = reason_outside(tensor, name, evidence.loss)
            groups[reason.kind, None].append((name, reason))
    for cause, group in groups.items():
        names = [name for name, _ in group]
        one = len(names) == 1
        numbers: dict[str, float] = {"parameters": len(names)}
        if cause in cut_off:
            cut = cut_off[cause]
            own = one and cut.source() is evidence.tensor(keys[cause])
            source = (
                names[0] if own else f"a tensor that was computed from {'it' if one else 'them'}"
            )
            yield Finding(
                "cut",
                "warning",
                taken_by(evidence, cut)[:_MOST_NODES],
                f"No gradient reaches {listed(names)}: {lost_by(cut, source)}"
                f"{within(evidence, cut)}. "
                f"{counted(len(names), 'parameter')} of {len(evidence.expected)}.",
                numbers,
            )
            continue
        yield Finding(
            "no grad",
            "warning",
            [],
            f"{listed(names)} {'is' if one else 'are'} not in this graph, so backward gives "
            f"{'it' if one else 'them'} no gradient. "
            f"{counted(len(names), 'parameter')} of {len(evidence.expected)}. "
            f"{group[0][1].sentence}",
            numbers,
        )


def _frozen(evidence: Evidence) -> Iterator[Finding]:
    frozen = [
        (key, evidence.called.known[key][0])
        for parameters in evidence.models.values()
        for key in parameters
        if (tensor := evidence.tensor(key)) is not None and not tensor.requires_grad
    ]
    if not frozen:
        return
    held = [name for key, name in frozen if key in evidence.held]
    names = [name for _, name in frozen]
    more = f" An optimizer holds {listed(held)} all the same." if held else ""
    one = len(names) == 1
    yield Finding(
        "frozen",
        "warning" if held else "info",
        [],
        f"{listed(names)} {'is' if one else 'are'} frozen: requires_grad is False, so "
        f"{'it gets' if one else 'they get'} no gradient and "
        f"{'does' if one else 'do'} not learn.{more} requires_grad_() before the forward pass "
        "unfreezes.",
        {"parameters": len(names)},
    )


def _left_out(evidence: Evidence) -> Iterator[Finding]:
    """Leaves of the graph that the pass gave nothing."""
    run = evidence.run
    if run is None or run.state == "stopped":
        return
    graph = evidence.captured.graph
    steps = run.steps
    empty = [
        i
        for i in evidence.leaves.values()
        if i not in steps or all(kept is None for kept in steps[i].grad_outputs)
    ]
    if empty:
        yield Finding(
            "no grad",
            "warning",
            empty,
            f"No gradient came to {listed([described(graph, i) for i in empty])} in this backward "
            f"pass, {len(empty)} of {len(evidence.leaves)} leaves: the pass was told to leave them "
            "out, or the operations on the way passed none.",
            {"parameters": len(empty)},
        )


def _zero(evidence: Evidence) -> Iterator[Finding]:
    """Leaves to which nothing but zeros came, by the operation that let nothing through."""
    run = evidence.run
    if run is None:
        return
    came = {
        node: run.steps[node].grad_outputs[0]
        for node in evidence.leaves.values()
        if node in run.steps and run.steps[node].grad_outputs
    }
    lengths = dict(zip(came, norms(list(came.values())), strict=True))
    zero = [node for node, length in lengths.items() if length == 0 and _is_zero(came[node])]
    if not zero:
        return
    found = blocked_leaves(evidence.captured, zero)
    dead = {node for node, off, units in dead_units(evidence.captured, run) if off == units}
    groups: dict[tuple[str, str], list[tuple[Block, list[int], str | None]]] = defaultdict(list)
    for block, nodes in found.by_block:
        if dead and not dead.isdisjoint((block.node, *_factors(evidence, block))):
            continue  # told of that ReLU
        waits = _waits(evidence, block, lengths)
        alike = "waits" if waits else evidence.captured.graph.nodes[block.node]["op"]
        groups[alike, "" if waits else block.because].append((block, nodes, waits))
    for group in groups.values():
        block, _, waits = group[0]
        more = len(group) - 1
        like = f", and the like at {more} more place{'s' * (more > 1)}" if more else ""
        ends = f"{waits} gets a gradient itself, so this ends with its first step"
        yield _zero_finding(
            evidence,
            [node for _, nodes, _ in group for node in nodes],
            "info" if waits else "warning",
            f"{_stops(evidence, block)}{like}; {ends if waits else block.remedy}.",
        )
    if found.rest:
        why = (
            "what the operations on the way saved is gone or packed by a hook, so whether one of "
            "them lets nothing through cannot be told"
            if found.unknown
            else "no operation alone is seen to let nothing through; the parts may have cancelled "
            "out, as before a normalisation or a softmax, or several operations block the way "
            "together"
        )
        yield _zero_finding(evidence, found.rest, "info", f"{why}.")


def _stops(evidence: Evidence, block: Block) -> str:
    words = f"{evidence.words(block.node)}{evidence.at(block.node)}"
    return f"{words} lets nothing through ({block.because})"


def _zero_finding(evidence: Evidence, nodes: list[int], severity: str, why: str) -> Finding:
    names = [_name(evidence, node) for node in nodes]
    return Finding(
        "zero",
        "info" if severity == "info" else "warning",
        nodes[:_MOST_NODES],
        f"The gradient of {listed(names)} is exactly zero everywhere, {len(nodes)} of "
        f"{len(evidence.leaves)} leaves: {why}",
        {"parameters": len(nodes)},
    )


def _is_zero(kept: Kept | None) -> bool:
    """Whether a gradient whose norm is zero is so itself: tiny squares vanish before it does."""
    if kept is None:
        return False
    if kept.tensor is not None:
        return everywhere(kept.tensor, lambda part: part == 0) is True
    summary = kept.summarise()
    return summary["min"] == 0 and summary["max"] == 0


def _waits(evidence: Evidence, block: Block, lengths: dict[int, float | None]) -> str | None:
    """The zero parameter that blocks only until its own first step; None for no such one."""
    found = (each for each in _factors(evidence, block) if lengths.get(each))
    return next((_name(evidence, each) for each in found), None)


def _factors(evidence: Evidence, block: Block) -> list[int]:
    """The nodes, beyond plumbing, that gave the zeros that block."""
    graph = evidence.captured.graph
    found = []
    for _, child, edge in graph.out_edges(block.node, data=True):
        node = child
        while is_plumbing(graph.nodes[node]["op"]) and len(graph.succ[node]) == 1:
            node = next(iter(graph.succ[node]))
        if block.factor is not None and edge["argument"] == block.factor:
            found.append(node)
    return found


def _name(evidence: Evidence, node: int) -> str:
    data = evidence.captured.graph.nodes[node]
    leaf = leaf_tensor(evidence.captured.nodes[node])
    known = evidence.expected.get(id(leaf)) if leaf is not None else None
    return data["name"] or known or described(evidence.captured.graph, node)


def _unregistered(evidence: Evidence) -> Iterator[Finding]:
    """Parameters that a module uses and does not have: made in forward, or in a Python list."""
    graph, annotations = evidence.captured.graph, evidence.captured.annotations
    known = {key for parameters in evidence.called.parameters.values() for key in parameters}
    owned: dict[int, set[int]] = {}
    lost: list[int] = []
    root = None
    for key, node in evidence.leaves.items():
        leaf = leaf_tensor(evidence.captured.nodes[node])
        if not isinstance(leaf, torch.nn.Parameter) or key in known or key in evidence.called.known:
            continue
        if node in evidence.reduced:
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
            if not annotations and evidence.models and not evidence.is_explicit:
                lost.append(node)
    if not lost:
        return
    shapes = [str(tuple(graph.nodes[node]["shape"] or ())) for node in lost]
    users = [next(iter(graph.pred[node])) for node in lost if graph.pred[node]]
    first = f" The first goes into {evidence.words(users[0])}{evidence.at(users[0])}."
    whose = type(root).__name__ if root is not None else "any module that a variable holds"
    yield Finding(
        "unregistered",
        "warning",
        lost[:_MOST_NODES],
        f"{counted(len(lost), 'Parameter')} of shape {listed(shapes)} "
        f"{'takes' if len(lost) == 1 else 'take'} part in this graph, but "
        f"{'is' if len(lost) == 1 else 'are'} not among the parameters of {whose}: made anew in "
        "forward(), or kept in a Python list or dict. parameters() leaves "
        f"{'it' if len(lost) == 1 else 'them'} out, and so does an optimizer made from it; use "
        f"nn.ModuleList, or make Parameters in __init__.{first if users else ''}",
        {"parameters": len(lost)},
    )


def _plain_attributes(evidence: Evidence) -> Iterator[Finding]:
    """Leaves that a module holds as plain tensors, and does not know as parameters."""
    for reference, _, path in evidence.called.places.values():
        module = reference()
        for name, value in list(vars(module).items()) if module is not None else ():
            if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
                continue
            node = evidence.leaves.get(id(value))
            if node is None or id(value) in evidence.held or evidence.called.name_of(value):
                continue
            whole = f"{path}.{name}" if path else name
            yield Finding(
                "unregistered",
                "info",
                [node],
                f"{whole} is a tensor that requires grad, and no Parameter: parameters() leaves it "
                "out, so an optimizer made from that does not update it, and state_dict() and to() "
                f"do not know it. If it is to be learned, write self.{name} = "
                "nn.Parameter(...).",
            )


def _untied(evidence: Evidence) -> Iterator[Finding]:
    """Two parameters that look as if they were meant to be one."""
    by_memory: dict[int, list[int]] = defaultdict(list)
    tables: dict[tuple[int, ...], list[int]] = defaultdict(list)
    heads: list[int] = []
    graph = evidence.captured.graph
    for node in evidence.leaves.values():
        leaf = leaf_tensor(evidence.captured.nodes[node])
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
    pairs = [
        (nodes[0], nodes[1], "share their memory") for nodes in by_memory.values() if nodes[1:]
    ]
    shared = {frozenset(pair[:2]) for pair in pairs}
    for head in heads:
        one = leaf_tensor(evidence.captured.nodes[head])
        for table in tables.get(tuple(one.shape), ()) if one is not None else ():
            other = leaf_tensor(evidence.captured.nodes[table])
            if frozenset((head, table)) not in shared and _are_equal(one, other):
                pairs.append((table, head, "hold the same numbers"))
    for first, second, how in pairs:
        names = _name(evidence, first), _name(evidence, second)
        yield Finding(
            "tied",
            "info",
            [first, second],
            f"{names[0]} and {names[1]} {how} but are two parameters, each with a gradient of its "
            "own: if they are meant to be tied, assign the Parameter itself, as in "
            "head.weight = embedding.weight, after both were made.",
        )


def _are_equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None or one.device != other.device or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) and everywhere(one, lambda part: part == 0) is False


def _no_leaf(evidence: Evidence) -> Iterator[Finding]:
    """Variables that were made to be learned, and computed from a leaf that has no name."""
    captured = evidence.captured
    roots = set(captured.roots)
    for place, reference in captured.tensors.items():
        tensor, (node, nr) = reference(), place
        outputs = captured.graph.nodes[node]["outputs"]
        name = outputs[nr]["name"] if nr < len(outputs) else None
        behind = list(captured.graph.succ[node])
        if place in roots or tensor is None or name is None or tensor.retains_grad or behind[1:]:
            continue
        leaf = leaf_tensor(captured.nodes[behind[0]]) if behind else None
        if leaf is None or isinstance(leaf, torch.nn.Parameter) or leaf.shape != tensor.shape:
            continue
        if evidence.called.name_of(leaf) is not None or id(leaf) in evidence.held:
            continue
        yield Finding(
            "not a leaf",
            "info",
            [node, behind[0]],
            f"{name} is not a leaf: {evidence.words(node)}{evidence.at(node)} made it from a leaf "
            f"that no variable here holds, so {name}.grad stays None and that leaf gets the "
            f"gradient. If {name} is to be learned, make it whole first and call "
            "requires_grad_() last.",
        )
