"""Backward through several graphs, recorded one by one and stepped through as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from ..backward.recorded_pass import RecordedStep, saved_steps
from ..english import list_some
from ..matching.alignment import longest_rising
from ..result import replaced
from ..schema.backward import TransportModel
from ..sources.graph_source import GraphSource


@dataclass(frozen=True)
class MergedStep:
    """One step of several passes at once."""

    node: int  # what runs
    passes: tuple[int, ...]  # the passes that run it in this step


def merge_steps(passes: Sequence[Sequence[int]]) -> list[MergedStep]:
    """Put passes into one order in which what they have in common runs in the same step.

    Every pass keeps its own order. What only some of them run comes as soon as it can, that of
    earlier passes first; nodes that two passes run in opposite orders take a step in each.

    ``passes``: for each pass the nodes that ran, in order, none twice; a node that several passes
    share has the same number in each.
    """
    merged: list[MergedStep] = []
    for number, nodes in enumerate(passes):
        place = {step.node: i for i, step in enumerate(merged)}
        common = [(i, place[node]) for i, node in enumerate(nodes) if node in place]
        chain = [common[k] for k in longest_rising([there for _, there in common])]
        result: list[MergedStep] = []
        here = there = 0
        for next_here, next_there in [*chain, (len(nodes), len(merged))]:
            result += merged[there:next_there]
            result += [MergedStep(node, (number,)) for node in nodes[here:next_here]]
            if next_there < len(merged):
                met = merged[next_there]
                result.append(MergedStep(met.node, (*met.passes, number)))
            here, there = next_here + 1, next_there + 1
        merged = result
    return merged


def cursors(steps: Sequence[MergedStep], passes: int) -> list[list[int]]:
    """Where each pass stands after so many merged steps."""
    now = [0] * passes
    found = [now]
    for step in steps:
        now = [done + (i in step.passes) for i, done in enumerate(now)]
        found.append(now)
    return found


NO_PASS = "this graph is static: no backward runs through it."


class LinkedPasses:
    """The backward passes of several graphs, and one cursor over all of them.

    Every pass that runs here starts from the same ``.grad``, as if it were the only one. A tensor
    that several graphs share is left to the first of them: travelling puts into its ``.grad`` what
    that one gave.

    Attributes:
        sources: Label -> graph.
        running: Labels of the graphs that backward runs through: all but static ones, unless there
            is nothing else.
        steps: The passes in one order.
        cursor: After how many of the steps we stand.
        changed: Labels of the graphs with news that nobody has taken yet, see `take_news`.
        lent: Label -> names of the tensors whose ``.grad`` is left to an earlier graph.
    """

    def __init__(
        self,
        sources: Mapping[str, GraphSource],
        places: Mapping[str, Mapping[int, int]],
    ) -> None:
        """Link graphs; ``places``: label -> node of it -> its number in all graphs together."""
        self.sources = dict(sources)
        live = [label for label, each in sources.items() if each.runs_backward]
        self.running = live or list(sources)
        self.steps: list[MergedStep] = []
        self.cursor = 0
        self.changed: set[str] = set()
        self.lent: dict[str, list[str]] = {}
        self._places = places
        self._cursors = cursors([], len(sources))
        self._shown: list[object | None] = [None] * len(sources)

    @property
    def fault(self) -> str | None:
        """What went wrong while watching, if anything."""
        return next(filter(None, (each.fault for each in self.sources.values())), None)

    def close(self) -> None:
        """Let go of every graph."""
        for source in self.sources.values():
            source.close()

    def take_news(self) -> set[str]:
        """The graphs through which a backward pass has ended since the last call."""
        self.poll()
        news, self.changed = self.changed, set()
        return news

    def poll(self) -> None:
        """Take note of passes that have ended, and put the cursor to where the passes stand."""
        self.changed.update(label for label, each in self.sources.items() if each.poll())
        shown = [each.recorded for each in self.sources.values()]
        passes = zip(self.sources, shown, self._shown, strict=True)
        new = {label for label, now, before in passes if now is not before}
        if new:
            self.changed |= new  # a file has its pass from the start
            self._shown = shown
            ran = [
                [self._places[label][step["node"]] for step in each.steps]
                for label, each in self.sources.items()
            ]
            self.steps = merge_steps(ran)
            self._cursors = cursors(self.steps, len(shown))
            self.seek(self._where())

    def recorded_steps(self) -> list[RecordedStep]:
        """Return the merged steps as the first graph that runs each recorded it, by place."""
        own: list[list[RecordedStep]] = []
        merged_at: list[list[int]] = [[0] for _ in self.sources]  # own step -> merged step
        for source in self.sources.values():
            recording = source.recording
            own.append(saved_steps(source.steps) if recording is None else recording.steps)
        for number, step in enumerate(self.steps, 1):
            for i in step.passes:
                merged_at[i].append(number)
        labels, found = list(self.sources), []
        own_step = [{number: i for i, number in enumerate(numbers)} for numbers in merged_at]
        for number, step in enumerate(self.steps, 1):
            first = step.passes[0]
            numbers, places = merged_at[first], self._places[labels[first]]
            recorded = own[first][own_step[first][number] - 1]
            parts = []
            for each in recorded.contributions:
                consumer = None if each.consumer is None else places[each.consumer]
                parts.append(replaced(each, step=numbers[each.step], consumer=consumer))
            at = {"step": number, "node": step.node, "ready": numbers[recorded.ready]}
            found.append(replaced(recorded, **at, contributions=parts))
        return found

    def transport(self, label: str) -> TransportModel:
        """Whether travelling moves a graph's ``.grad``, and what there is to say about that."""
        transport = self.sources[label].transport()
        if label not in self.running:  # it blocks nobody else
            return {"owned": False, "note": NO_PASS, "blocked": None}
        names = self.lent.get(label)
        if names and transport["owned"]:
            transport["note"] = " ".join(filter(None, [transport["note"], _about_lent(names)]))
        return transport

    def seek(self, cursor: int) -> None:
        """Stand after so many steps; every ``.grad`` that the passes own moves along."""
        self.cursor = cursor
        for source, wanted in zip(self.sources.values(), self._cursors[cursor], strict=True):
            source.seek(wanted)

    def run(self, labels: Collection[str], gradient: Any, **asked: Any) -> None:
        """Run the real backward of some graphs to the end; ``gradient`` may be by label."""
        self.seek(0)
        shared = shared_tensors(self.sources.values())
        done = False
        try:
            for (label, source), lent in zip(self.sources.items(), shared, strict=True):
                if label in labels:
                    start = gradient.get(label) if isinstance(gradient, Mapping) else gradient
                    self.changed.add(label)
                    self.lent[label] = self._run_one(source, lent, gradient=start, **asked)
            done = True
        finally:
            self.poll()
            self.seek(len(self.steps) if done else 0)

    def _run_one(
        self, source: GraphSource, lent: Iterable[torch.Tensor], **asked: Any
    ) -> list[str]:
        """Run one of them, back at its start afterwards; the names of what it leaves to others."""
        with ExitStack() as pauses:  # other graphs may hold some of the same nodes
            for other in self.sources.values():
                if other is not source:
                    pauses.enter_context(other.paused())
            source.backward(**asked)
        source.poll()
        source.seek(0)
        assert source.grads is not None
        return [timeline.name for timeline in source.grads.release_grads(lent)]

    def _where(self) -> int:
        """Return the common step of the passes whose cursors are not at their end; else the end."""
        held = [
            (i, each.cursor)
            for i, each in enumerate(self.sources.values())
            if each.grads is not None and (each.cursor < len(each.steps) or _stopped(each))
        ]
        reached = (all(places[i] <= cursor for i, cursor in held) for places in self._cursors)
        return max(number for number, is_reached in enumerate(reached) if is_reached)


def _about_lent(names: list[str]) -> str:
    are = "is" if len(names) == 1 else "are"
    return (
        f"{list_some(names, 4)} {are} in an earlier graph too: .grad itself holds what that graph "
        "gives, the table what each gives alone."
    )


def _stopped(source: GraphSource) -> bool:
    return source.run is not None and source.run["ended"] == "stopped"


def shared_tensors(sources: Iterable[GraphSource]) -> list[list[torch.Tensor]]:
    """For each graph, the tensors that an earlier one accumulates into as well."""
    seen: set[int] = set()
    found: list[list[torch.Tensor]] = []
    for source in sources:
        own = source.accumulated()
        found.append([tensor for tensor in own if id(tensor) in seen])
        seen.update(map(id, own))
    return found
