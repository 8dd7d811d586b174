"""What may be wrong with a graph and its gradients, each with the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..backward.faults import is_finite, nan_birth
from ..backward.recorded_pass import RecordedPass
from ..backward.run import Run
from ..forward.annotate import Annotated
from ..graph.modes import grad_mode_kept
from ..graph.names import Names
from ..graph.nodes import leaf_tensor
from ..graph.words import described
from .cuts_inside import cuts_inside
from .dead_units import dead_units
from .depth import Decline, declines
from .finding import Finding
from .memory import saved_memory

_MOST_LISTED = 8  # names in one sentence


@dataclass(frozen=True)
class Limits:
    """From where on something is a finding, as `diagnose` describes it.

    Raises:
        ValueError: A threshold makes no sense.
    """

    vanishing: float = 1e-4
    exploding: float = 1e4
    dead: float = 0.9
    largest: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.vanishing < 1:
            raise ValueError(
                f"vanishing was given {self.vanishing}, but it is the share of a gradient that is "
                "left: give a number between 0 and 1, such as 1e-4."
            )
        if not self.exploding > 1:
            raise ValueError(
                f"exploding was given {self.exploding}, but it is the factor by which a gradient "
                "grows: give a number above 1, such as 1e4."
            )
        if not 0 < self.dead <= 1:
            raise ValueError(
                f"dead was given {self.dead}, but it is the share of units that are zero: give a "
                "number above 0 and up to 1."
            )
        if self.largest < 0:
            raise ValueError(f"largest was given {self.largest}. Give a number of nodes from 0.")


@grad_mode_kept
def judge(
    captured: Annotated,
    recording: RecordedPass | None,
    namespaces: Mapping[int, str],
    called: Names,
    *,
    limits: Limits,
    is_explicit: bool,
) -> list[Finding]:
    """What `diagnose` returns.

    Args:
        captured: The graph.
        recording: The pass to judge, if there was one.
        namespaces: Node id -> the module that ran it, as far as it is known.
        called: What the program calls its parameters.
        limits: The thresholds.
        is_explicit: Whether all that is called so belongs to the model.

    Returns:
        The findings, the gravest first.
    """

    def words(node: int) -> str:
        return _in_module(described(captured.graph, node), namespaces.get(node))

    found: list[Finding] = []
    if recording is None:
        found.append(_no_backward())
    else:
        found += _nan(captured, recording.run)
        found += _depth(captured, recording.run, limits, words)
    found += _dead(captured, recording, limits.dead, words)
    found += _without_gradient(captured, recording, called, is_explicit=is_explicit)
    found += cuts_inside(captured)
    found += _memory(captured, limits.largest, words)
    gravity = ("error", "warning", "info")
    return sorted(found, key=lambda finding: gravity.index(finding.severity))


def _in_module(words: str, namespace: str | None) -> str:
    """A node in words, as `described` has them, with the module that ran it."""
    if not namespace:
        return words
    before, number = words.rsplit(" (", 1)
    return f"{before} in {namespace.replace('/', '.')} ({number}"


def _no_backward() -> Finding:
    return Finding(
        "no backward",
        "info",
        [],
        "No backward pass has been seen, so nothing can be said about the size of gradients: call "
        "backward() on the GraphWidget or on the loss while it is shown, or pass "
        "gradwalk.record(loss).",
    )


def _nan(captured: Annotated, run: Run) -> Iterator[Finding]:
    birth = nan_birth(captured, run)
    if birth is None:
        return
    node, note = birth
    passed = [kept for kept in run.steps[node].grad_inputs if kept is not None]
    summary = next(kept for kept in passed if not is_finite(kept)).summarise()
    counts = {"NaN": summary["nan"], "Inf": summary["inf"], "numbers": summary["numel"]}
    numbers = {what: float(count) for what, count in counts.items() if count is not None}
    yield Finding("nan", "error", [node], note, numbers)


def _depth(
    captured: Annotated, run: Run, limits: Limits, words: Callable[[int], str]
) -> Iterator[Finding]:
    vanishing, exploding = limits.vanishing, limits.exploding
    changes = declines(captured.graph, run, run.steps)
    worst: dict[tuple[int, bool], Decline] = {}
    mildest: dict[tuple[int, bool], float] = {}  # over the starts from which a layer is reached
    for change in changes:
        for grows in (False, True):
            key = change.far, grows
            ratio = change.ratio
            pick = min if grows else max
            mildest[key] = pick(mildest.get(key, ratio), ratio)
    for change in changes:
        for grows in (False, True):
            ratio = mildest[change.far, grows]
            if ratio != change.ratio or not (ratio > exploding if grows else ratio < vanishing):
                continue
            known = worst.get((change.near, grows))
            if known is None or (ratio > known.ratio if grows else ratio < known.ratio):
                worst[change.near, grows] = change
    for (near, grows), change in worst.items():
        threshold = exploding if grows else vanishing
        yield Finding(
            "exploding" if grows else "vanishing",
            "warning",
            [change.far, near],
            f"The gradient {'explodes' if grows else 'vanishes'} on its way to "
            f"{words(change.far)}: its norm there is {change.far_norm:.3g}, after "
            f"{change.near_norm:.3g} at {words(near)}, which is "
            f"{change.ratio:.3g} times as much ({'above' if grows else 'below'} {threshold:.3g}).",
            {"ratio": change.ratio, "norm": change.far_norm, "norm at the start": change.near_norm},
        )


def _dead(
    captured: Annotated, recording: RecordedPass | None, dead: float, words: Callable[[int], str]
) -> Iterator[Finding]:
    run = recording.run if recording is not None else None
    for node, zero, units in dead_units(captured, run):
        share = zero / units
        if share < dead:
            continue
        yield Finding(
            "dead",
            "error" if zero == units else "warning",
            [node],
            f"{'All' if zero == units else f'{zero}'} of the {units} units of "
            f"{words(node)} are zero for every example of this batch "
            f"({share:.0%}), so no gradient goes through them and what is before them does not "
            "learn from it.",
            {"share": share, "dead units": zero, "units": units},
        )


def _without_gradient(
    captured: Annotated, recording: RecordedPass | None, called: Names, *, is_explicit: bool
) -> Iterator[Finding]:
    graph = captured.graph
    leaves = {
        id(leaf): i for i, leaf in enumerate(map(leaf_tensor, captured.nodes)) if leaf is not None
    }
    used = {_root(name) for key, name in called.leaves.items() if key in leaves and "." in name}
    missing = [
        name
        for key, name in called.leaves.items()
        if key not in leaves and (is_explicit or ("." in name and _root(name) in used))
    ]
    if missing:
        yield Finding(
            "no grad",
            "warning",
            [],
            f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} not in this graph, so "
            f"backward gives {'it' if len(missing) == 1 else 'them'} no gradient: nothing that "
            f"was computed from {'it' if len(missing) == 1 else 'them'} reached the output with "
            f"a gradient. {len(missing)} of {len(called.leaves)} named leaves.",
            {"parameters": len(missing)},
        )
    if recording is None or recording.run.state == "stopped":
        return
    steps = recording.run.steps
    empty = [
        i
        for i in leaves.values()
        if i not in steps or all(kept is None for kept in steps[i].grad_outputs)
    ]
    if empty:
        names = [described(graph, i) for i in empty]
        yield Finding(
            "no grad",
            "warning",
            empty,
            f"No gradient came to {_listed(names)} in this backward pass, {len(empty)} of "
            f"{len(leaves)} leaves: the pass was told to leave them out, or the operations on the "
            "way passed none.",
            {"parameters": len(empty)},
        )


def _root(name: str) -> str:
    return name.partition(".")[0]


def _listed(words: list[str]) -> str:
    shown = words if len(words) <= _MOST_LISTED else words[:_MOST_LISTED]
    more = len(words) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _memory(captured: Annotated, largest: int, words: Callable[[int], str]) -> Iterator[Finding]:
    memory = saved_memory(captured)
    nodes = sorted(memory.nodes, key=lambda node: -memory.nodes[node])[:largest]
    if not nodes:
        return
    held = [f"{words(i)} {in_bytes(memory.nodes[i])}" for i in nodes]
    unknown = f" {memory.unknown} more saved tensors are of unknown size." if memory.unknown else ""
    yield Finding(
        "memory",
        "info",
        nodes,
        f"The graph holds {in_bytes(memory.total)} for backward. Most of it: {', '.join(held)}."
        + unknown,
        {"total": memory.total, **{str(node): memory.nodes[node] for node in nodes}},
    )


def in_bytes(size: int) -> str:
    """A number of bytes in words: "1.5 MiB"."""
    power = min(int(math.log2(max(size, 1))) // 10, 4)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{size} {unit}" if power == 0 else f"{size / 2 ** (10 * power):.3g} {unit}"
