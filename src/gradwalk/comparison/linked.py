"""Backward through several graphs, recorded one by one and stepped through as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from ..backward.recording import Recording
from ..graph.nodes import leaf_tensor
from ..subject.follower import Follower
from ..subject.static_follower import StaticFollower
from ..wire import TransportModel
from .merging import MergedStep, cursors, merge_steps

NO_PASS = "this graph is static: no backward runs through it."


class LinkedPasses:
    """The backward passes of several graphs, and one cursor over all of them.

    Every pass that runs here starts from the same ``.grad``, as if it were the only one. A tensor
    that several graphs share is left to the first of them: travelling puts into its ``.grad`` what
    that one gave.

    Attributes:
        followers: Label -> graph.
        running: Labels of the graphs that backward runs through: all but static ones, unless there
            is nothing else.
        steps: The passes in one order.
        cursor: After how many of the steps we stand.
        changed: Labels of the graphs with news that nobody has taken yet, see `take_news`.
        lent: Label -> names of the tensors whose ``.grad`` is left to an earlier graph.
    """

    def __init__(
        self,
        followers: Mapping[str, Follower | StaticFollower],
        places: Mapping[str, Mapping[int, int]],
    ) -> None:
        """Link some graphs.

        Args:
            followers: Label -> graph.
            places: Label -> node of that graph -> its number in all graphs laid on each other.
        """
        self.followers = dict(followers)
        live = [label for label, each in followers.items() if not isinstance(each, StaticFollower)]
        self.running = live or list(followers)
        self.steps: list[MergedStep] = []
        self.cursor = 0
        self.changed: set[str] = set()
        self.lent: dict[str, list[str]] = {}
        self._places = places
        self._cursors = cursors([], len(followers))
        self._shown: list[Recording | None] = [None] * len(followers)

    def take_news(self) -> set[str]:
        """The graphs through which a backward pass has ended since the last call."""
        self.notice()
        news, self.changed = self.changed, set()
        return news

    def notice(self) -> None:
        """Take note of passes that have ended, and put the cursor to where the passes stand."""
        self.changed.update(label for label, each in self.followers.items() if each.notice())
        shown = [each.recording for each in self.followers.values()]
        if shown != self._shown:
            self._shown = shown
            self.steps = merge_steps(
                [
                    [] if each is None else [self._places[label][node] for node in each.run.steps]
                    for label, each in zip(self.followers, shown, strict=True)
                ]
            )
            self._cursors = cursors(self.steps, len(shown))
            self.go(self._where())

    def transport(self, label: str) -> TransportModel:
        """Whether travelling moves a graph's ``.grad``, and what there is to say about that."""
        transport = self.followers[label].transport()
        if label not in self.running:  # it blocks nobody else
            return {"owned": False, "note": NO_PASS, "blocked": None}
        names = self.lent.get(label)
        if names and transport["owned"]:
            transport["note"] = " ".join(filter(None, [transport["note"], _about_lent(names)]))
        return transport

    def go(self, cursor: int) -> None:
        """Stand after so many steps; every ``.grad`` that the passes own moves along."""
        self.cursor = cursor
        for recording, wanted in zip(self._shown, self._cursors[cursor], strict=True):
            if recording is not None and recording.cursor != wanted:
                recording.travel(wanted)

    def run(self, labels: Collection[str], gradient: Any, **asked: Any) -> None:
        """Run the real backward of some of the graphs, and stand at the end.

        Args:
            labels: Which.
            gradient: What to start from, as for ``Tensor.backward``; or a mapping from labels.
            **asked: As for `gradwalk.backward.run_backward.run_backward`.

        Raises:
            Exception: What a backward raises. The passes then stand at their start.
        """
        self.go(0)
        shared = shared_tensors(self.followers.values())
        done = False
        try:
            for (label, follower), lent in zip(self.followers.items(), shared, strict=True):
                if label in labels:
                    start = gradient.get(label) if isinstance(gradient, Mapping) else gradient
                    self.changed.add(label)
                    self.lent[label] = self._run_one(follower, lent, gradient=start, **asked)
            done = True
        finally:
            self.notice()
            self.go(len(self.steps) if done else 0)

    def _run_one(
        self, follower: Follower | StaticFollower, lent: Iterable[torch.Tensor], **asked: Any
    ) -> list[str]:
        """Run one of them, back at its start afterwards; the names of what it leaves to others."""
        with ExitStack() as pauses:  # other graphs may hold some of the same nodes
            for other in self.followers.values():
                if other is not follower:
                    pauses.enter_context(other.observer.paused())
            follower.backward(**asked)
        follower.notice()
        recording = follower.recording
        assert recording is not None
        assert recording.run.grads is not None
        recording.travel(0)
        return [timeline.name for timeline in recording.run.grads.lend(lent)]

    def _where(self) -> int:
        """The step at which passes that are being travelled in stand; the end when there is none.

        A pass that stopped with an error stands at its start.
        """
        held = [
            (i, each.cursor)
            for i, each in enumerate(self._shown)
            if each is not None and each.run.grads is not None
            if each.cursor < len(each.run.steps) or each.run.state == "stopped"
        ]
        return max(
            number
            for number, places in enumerate(self._cursors)
            if all(places[i] <= cursor for i, cursor in held)
        )


def _about_lent(names: list[str]) -> str:
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    *first, last = shown
    listed = f"{', '.join(first)} and {last}" if first else last
    return (
        f"{listed} {'is' if len(names) == 1 else 'are'} in an earlier graph too: .grad itself holds"
        " what that graph gives, the table what each gives alone."
    )


def shared_tensors(followers: Iterable[Follower | StaticFollower]) -> list[list[torch.Tensor]]:
    """For each graph, the tensors that an earlier one accumulates into as well."""
    seen: set[int] = set()
    found: list[list[torch.Tensor]] = []
    for follower in followers:
        own = _accumulated(follower)
        found.append([tensor for tensor in own if id(tensor) in seen])
        seen.update(map(id, own))
    return found


def _accumulated(follower: Follower | StaticFollower) -> Sequence[torch.Tensor]:
    leaves = map(leaf_tensor, follower.captured.nodes)
    others = (reference() for reference in follower.captured.tensors.values())
    return [
        *(tensor for tensor in leaves if tensor is not None),
        *(tensor for tensor in others if tensor is not None and tensor.retains_grad),
    ]
