"""Findings about parameters: which get no gradient or only zeros, and why; which are lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..english import join_words, list_some, plural
from ..explain.constants_and_cuts import lost_by
from ..explain.not_in_graph import reason_outside
from ..explain.reason import Asked, Reason
from ..graph.labels import described
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import everywhere, storage_id, why_unreadable
from ..tracing.cuts import Cut
from .context import CheckContext
from .cuts_inside import taken_by, within, words_of
from .finding import Finding

_MOST_NODES = 100
_WAITS = (
    "Their optimizer holds nothing of this graph, and another one does. That is right if it is the "
    "other's turn, as of an actor beside its critic."
)


def parameter_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find parameters without a gradient, frozen ones, and copies that should be tied.

    Args:
        evidence: The evidence.
    """
    yield from _outside(evidence)
    yield from _frozen(evidence)
    yield from _left_out(evidence)
    yield from _plain_flags(evidence)
    yield from _untied(evidence)


def _outside(evidence: CheckContext) -> Iterator[Finding]:
    """Parameters that are not leaves of the graph: of those behind cuts, one finding per cause."""
    groups: dict[tuple[str, str | None], list[tuple[str, Reason]]] = defaultdict(list)
    behind: dict[tuple[object, ...], tuple[_CutOff, list[str]]] = {}
    spare = _spare(evidence)
    for key, name in evidence.expected.items():
        tensor = evidence.tensor(key)
        if evidence.is_used(key) or tensor is None or not tensor.requires_grad:
            continue
        cut_off = _cut_off(evidence, tensor)
        if cut_off is not None:
            behind.setdefault(cut_off.causes, (cut_off, []))[1].append(name)
            continue
        reason = reason_outside(Asked(tensor, name), evidence.loss)
        groups[reason.kind, _of_no_matter(evidence, tensor, spare)].append((name, reason))
    for cut_off, names in behind.values():
        yield Finding(
            "cut",
            "info" if cut_off.waits else "warning",
            taken_by(evidence, cut_off.sets[0][0])[:_MOST_NODES],
            f"No gradient reaches {list_some(names)} ({len(names)} of "
            f"{plural(len(evidence.expected), 'parameter')}): {_ways(evidence, cut_off, names)}"
            f"{f' {_WAITS}' if cut_off.waits else ''}",
            {"parameters": len(names)},
        )
    for (_, meant), group in groups.items():
        names = [name for name, _ in group]
        one = len(names) == 1
        yield Finding(
            "no grad",
            "info" if meant else "warning",
            [],
            f"{list_some(names)} {'is' if one else 'are'} not in this graph, so backward gives "
            f"{'it' if one else 'them'} no gradient "
            f"({len(names)} of {plural(len(evidence.expected), 'parameter')}). "
            f"{group[0][1].sentence}{f' {meant}' if meant else ''}",
            {"parameters": len(names)},
        )


@dataclass(frozen=True)
class _CutOff:
    """How a parameter is cut off.

    Attributes:
        sets: Sets of cuts. Once one of them is removed, a gradient reaches the parameter.
        is_known: Whether that is so. Else there is one set, of all cuts on the way.
        waits: Whether the optimizer of the parameter may have its turn later.
    """

    sets: list[list[Cut]]
    is_known: bool
    waits: bool

    @property
    def causes(self) -> tuple[object, ...]:
        """What parameters have in common that the same lines cut off."""
        return self.waits, self.is_known, *(tuple(cut.cause for cut in cuts) for cuts in self.sets)


def _cut_off(evidence: CheckContext, tensor: torch.Tensor) -> _CutOff | None:
    """How a parameter is cut off; None where no cut is known."""
    waits = id(tensor) in evidence.waiting
    known = evidence.loss.reconnecting(tensor)
    # Prefer other cuts to integers.
    smooth = [cuts for cuts in known if not any(cut.how.startswith("integer") for cut in cuts)]
    if known:
        return _CutOff(smooth or known, True, waits)
    cuts = evidence.loss.cuts_from(tensor)
    return _CutOff([cuts], False, waits) if cuts else None


def _ways(evidence: CheckContext, cut_off: _CutOff, names: list[str]) -> str:
    """Which cuts are in the way, and what to do where that is known."""
    first, *others = cut_off.sets
    causes = {cause for cut in first for cause in (cut.cause, *cut.again)}
    if not others and len(causes) == 1 and cut_off.is_known:
        cut = first[0]
        began_at = cut.source()
        known = None if began_at is None else evidence.expected.get(id(began_at))
        computed = f"a tensor computed from {'it' if len(names) == 1 else 'them'}"
        place = within(evidence, cut).removeprefix(", ")
        lost = lost_by(cut, known if known in names else computed)
        return f"{place}{', ' if place else ''}{lost}."
    if not others:
        all_of_it = list_some(
            [
                words_of(cause)
                for cause in dict.fromkeys(
                    cause for cut in first for cause in (cut.cause, *cut.again)
                )
            ]
        )
        advice = " Remove all of them if gradients should flow." if cut_off.is_known else ""
        return f"it is cut off by {all_of_it}.{advice}"
    each = dict.fromkeys(join_words(words_of(cut.cause) for cut in cuts) for cuts in cut_off.sets)
    return (
        f"it is cut off by {list_some(list(each))}. Without one of these it gets a gradient; "
        "the others may be meant."
    )


def _of_no_matter(evidence: CheckContext, tensor: torch.Tensor, spare: set[int]) -> str | None:
    """Why a parameter may well have no part in a graph where nothing is wrong; None for no why."""
    if id(tensor) in evidence.waiting:
        return _WAITS
    if id(tensor) in spare:
        return (
            "Modules like it in the same list take part. If the input chooses among them, as among "
            "experts, another batch may use it."
        )
    if tensor.dim() < 2 and _holds_derivatives(evidence):
        return (
            "The graph holds derivatives, and a derivative does not depend on a bias that is only "
            "added."
        )
    return None


def _spare(evidence: CheckContext) -> set[int]:
    """Collect the ``id`` of parameters of idle modules in a list with used ones like them."""
    found: set[int] = set()
    for reference, _, _ in evidence.called.places.values():
        container = reference()
        if not isinstance(container, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            continue
        used: dict[tuple[object, ...], bool] = {}
        idle: list[tuple[tuple[object, ...], set[int]]] = []
        for child in container.children():
            parameters = list(child.parameters())
            alike = type(child), *(tuple(parameter.shape) for parameter in parameters)
            keys = {id(parameter) for parameter in parameters}
            if any(evidence.is_used(key) for key in keys):
                used[alike] = True
            else:
                idle.append((alike, keys))
        found.update(*(keys for alike, keys in idle if alike in used))
    return found


def _holds_derivatives(evidence: CheckContext) -> bool:
    graph = evidence.captured.graph
    return bool(evidence.captured.derivatives) or any(
        "BackwardBackward" in op for _, op in graph.nodes(data="op")
    )


def _frozen(evidence: CheckContext) -> Iterator[Finding]:
    frozen = [
        (key, evidence.called.known[key][0])
        for parameters in evidence.models.values()
        for key in parameters
        if (tensor := evidence.tensor(key)) is not None and not tensor.requires_grad
    ]
    if not any(evidence.is_used(key) for key in evidence.held):  # then it was meant to be used
        known = {key for key, _ in frozen}
        frozen += [
            (key, evidence.called.known[key][0])
            for key, tensor in evidence.held.items()
            if key not in known and key in evidence.called.known and not tensor.requires_grad
        ]
    if not frozen:
        return
    held = [name for key, name in frozen if key in evidence.held]
    names = [name for _, name in frozen]
    more = f" An optimizer holds {list_some(held)}." if held else ""
    one = len(names) == 1
    yield Finding(
        "frozen",
        "warning" if held else "info",
        [],
        f"{list_some(names)} {'is' if one else 'are'} frozen: requires_grad is False, so "
        f"{'it gets' if one else 'they get'} no gradient.{more} To train, call "
        "requires_grad_() before the forward pass.",
        {"parameters": len(names)},
    )


def _plain_flags(evidence: CheckContext) -> Iterator[Finding]:
    """Find modules whose `requires_grad` was set: torch does not read that attribute."""
    for reference, variable, path in evidence.called.places.values():
        module = reference()
        if module is None or variable not in evidence.models:
            continue
        flag = vars(module).get("requires_grad")
        if not isinstance(flag, bool):
            continue
        parameters = list(module.parameters())
        others = sum(parameter.requires_grad is not flag for parameter in parameters)
        if others:
            name = path or "the module"
            yield Finding(
                "frozen",
                "info",
                [],
                f"{name}.requires_grad was set to {flag}, which torch does not read of a module: "
                f"requires_grad is {not flag} of {others} of its "
                f"{plural(len(parameters), 'parameter')}. If they are to be "
                f"{'learned' if flag else 'frozen'}, call {name}.requires_grad_({flag}).",
                {"parameters": others},
            )


def _left_out(evidence: CheckContext) -> Iterator[Finding]:
    """Find leaves that got no gradient from the pass."""
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
            f"No gradient came to {list_some([described(graph, i) for i in empty])} in this "
            f"backward pass, {len(empty)} of {len(evidence.leaves)} leaves: "
            f"{_who_passed_none(evidence, empty)}",
            {"parameters": len(empty)},
        )


def _who_passed_none(evidence: CheckContext, empty: list[int]) -> str:
    """Which operations ran and passed no gradient on towards some leaves, as the pass shows."""
    assert evidence.run is not None
    steps, before = evidence.run.steps, evidence.captured.predecessors
    waiting, seen = list(empty), set(empty)
    found: dict[int, None] = {}
    for node in waiting:  # grows while we walk, past what nothing came to either
        for source in before[node]:
            step = steps.get(source)
            if step is not None and any(kept is not None for kept in step.grad_outputs):
                found[source] = None
            elif source not in seen:
                seen.add(source)
                waiting.append(source)
    words = [f"{evidence.place(node)}" for node in found]
    if not words:
        return "inputs= of the pass leaves them out, or it began elsewhere."
    it, its = ("it", "its") if len(words) == 1 else ("them", "their")
    return (
        f"{list_some(words)} got one and passed none on. Either {its} backward returned None, or "
        f"inputs= of the pass leaves out the tensors behind {it}."
    )


def _untied(evidence: CheckContext) -> Iterator[Finding]:
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
        names = evidence.name(first), evidence.name(second)
        yield Finding(
            "tied",
            "info",
            [first, second],
            f"{names[0]} and {names[1]} {how}, but are two parameters with a gradient each. "
            "To tie them, assign the Parameter itself, as in head.weight = embedding.weight.",
        )


def _are_equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None or one.device != other.device or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) and everywhere(one, lambda part: part == 0) is False
