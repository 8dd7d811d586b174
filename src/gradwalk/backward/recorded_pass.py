"""A recorded backward pass with a cursor."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from ..graph.capture import Capture
from ..graph.integers import read_int
from ..graph.names import nearest
from ..schema.backward import MarkModel, StepModel
from ..schema.values import NodeState
from ..torch_api.engine import NO_TASK, current_task
from ..torch_api.modes import unseen
from .failures import marks
from .recorded_run import RecordedRun
from .steps import state_at, step_models

if TYPE_CHECKING:
    import networkx as nx


class RecordedPass:
    """One recorded backward pass, and a cursor over its steps.

    A pass that gradwalk ran owns the ``.grad`` of the graph's leaves (and of intermediate tensors
    that retain theirs): with the cursor at k, each is what the engine had after k steps, bit for
    bit. Seeking changes no ``.grad`` if the pass was only watched, or if something else has changed
    one since.

    Attributes:
        captured: The graph, with its autograd nodes.
        run: The recorded run.
        cursor: The number of completed steps; `seek` moves it.
    """

    def __init__(self, captured: Capture, run: RecordedRun) -> None:
        """Start at the end of a run, or at the start of a run that stopped with an error.

        Args:
            captured: The graph.
            run: A run that is over.
        """
        self.captured = captured
        self.run = run
        self.cursor = 0 if run.grads is not None and run.state == "stopped" else run.total

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The captured graph, as `gradwalk.capture` gives it."""
        return self.captured.graph

    @property
    def last_run(self) -> RecordedRun:
        """The pass, for `gradwalk.backward.open_passes.source_of`."""
        return self.run

    @property
    def owned(self) -> bool:
        """Whether moving the cursor moves ``.grad``."""
        return self.run.grads is not None and self.run.grads.fixed is None

    @property
    def note(self) -> str | None:
        """What to say about this pass: who ran it, which ``.grad`` it added to."""
        return describe_run(self.run)

    @functools.cached_property
    def marks(self) -> list[MarkModel]:
        """The nodes where something went wrong, each with a sentence."""
        return marks(self.captured, self.run)

    @functools.cached_property
    def models(self) -> list[StepModel]:
        """The steps as plain JSON values, without gradients."""
        return step_models(self.graph, self.run)

    def state(self, node: int) -> NodeState:
        """Return a node's state at the cursor, such as "waiting" or "done"."""
        number = self.run.numbers.get(node)
        return state_at(None if number is None else self.models[number - 1], self.cursor)

    def at_cursor(self, cursor: int) -> RecordedPass:
        """Return a copy with another cursor, which moves no ``.grad``."""
        _ = self.models  # computed once, not for every cursor
        other = copy.copy(self)
        other.cursor = cursor
        return other

    def seek(self, cursor: int) -> None:
        """Move the cursor, and every ``.grad`` that the pass owns.

        Args:
            cursor: The number of completed steps.

        Raises:
            ValueError: The pass does not have that many steps.
        """
        total = self.run.total
        if not 0 <= cursor <= total:
            raise ValueError(
                f"cursor was given {cursor}, but this backward pass has {total} steps: give a "
                f"number from 0 to {total}."
            )
        if self.run.grads is not None:
            with unseen():
                self.run.grads.go(cursor)
        self.cursor = cursor

    def find(self, node: int | str) -> int:
        """Return the step after which a node has run.

        Args:
            node: Its id, or the name of its tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node has the name, several have it, or it did not run in this pass.
        """
        found = find_node(self.graph, node)
        if found in self.run.numbers:
            return self.run.numbers[found]
        raise ValueError(
            f"run_to was given {node!r}, which did not run in this backward pass"
            + (": it stopped with an error before." if self.run.state == "stopped" else ".")
        )


def describe_run(run: RecordedRun) -> str | None:
    """Describe a backward pass for the bar: who ran it, which ``.grad`` it added to."""
    if run.grads is None:
        return (
            "Your program ran this backward pass, so stepping shows the recorded gradients and "
            "leaves every .grad unchanged."
        )
    if run.grads.fixed is not None:
        return (
            f"{run.grads.fixed}, so stepping shows the recorded gradients and leaves every .grad "
            "unchanged."
        )
    sentences = []
    if run.state == "stopped":
        sentences.append("This backward pass stopped, so every .grad was put back.")
    held = [t.name for t in run.grads.timelines if t.moments[0].grad is not None]
    if held:
        sentences.append(
            f"{_were(held)} not empty before this pass: backward adds to what is there. "
            "Start from nothing with zero_grad(), or by setting .grad to None."
        )
    if run.seeds is not None and any(seed.numel() > 1 for seed in run.seeds):
        sentences.append(
            "It started from the gradient= you gave: the weights with which the output's numbers "
            "count, so each .grad is the gradient of their weighted sum."
        )
    if run.once and run.state == "done":
        sentences.append(
            "Compiled code in this graph overwrites what it saved, so this pass has freed the "
            "saved tensors, and backward cannot run again without a new forward pass."
        )
    with_graph = next(
        (
            t.name
            for t in run.grads.timelines
            if (grad := t.moments[-1].grad) is not None and grad.requires_grad
        ),
        None,
    )
    if with_graph is not None:
        sentences.append(
            "create_graph=True gave each gradient a graph of its own: see it with "
            f"GraphWidget({with_graph}.grad)."
        )
    return " ".join(sentences) or None


def _were(names: list[str]) -> str:
    """Return "x.grad was" for one tensor, a plural for several."""
    more = len(names) - 1
    return f"{names[0]}.grad and {more} more were" if more else f"{names[0]}.grad was"


def refuse_within_backward(what: str) -> None:
    """Raise if the running code is a hook of a backward pass.

    Args:
        what: The request, to begin a sentence with: "step()", "Moving the cursor".

    Raises:
        RuntimeError: A backward pass is running.
    """
    if current_task() != NO_TASK:
        raise RuntimeError(
            f"{what} was asked for by a hook while a backward pass runs, "
            "which is still adding to every .grad. Do it after that pass: in the hook, only "
            "remember that it is to be done."
        )


def find_node(graph: nx.MultiDiGraph, node: int | str) -> int:
    """Return a node by its id or by the name of its tensor.

    Raises:
        TypeError: ``node`` is neither.
        ValueError: No node or several nodes match.
    """
    total = len(graph)
    if isinstance(node, str):
        found: list[int] = [i for i, name in graph.nodes(data="name") if name == node]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
            raise ValueError(f"{len(found)} nodes have the name {node!r}: {listed}. Give an id.")
        names = [name for _, name in graph.nodes(data="name") if name]
        if not names:
            raise ValueError(
                f"No node is called {node!r}: no tensor of this graph has a name. Give an id "
                f"from 0 to {total - 1}, or names, as in names={{'w': w}}, where the graph is read."
            )
        near = nearest(node, names)
        raise ValueError(
            f"No node is called {node!r} in this graph. {f'{near} ' if near else ''}Give the "
            f"name of a tensor as the widget shows it, or an id from 0 to {total - 1}."
        )
    instead = f"Give its id, 0 to {total - 1}, or the name of its tensor."
    i = read_int(node, "A node was given as ", instead)
    if not 0 <= i < total:
        raise ValueError(
            f"A node was given as {i}, but this graph has nodes 0 to {total - 1} only."
        )
    return i


def read_count(n: Any, caller: str) -> int:
    """Check and return a number of steps."""
    count = read_int(n, f"{caller}() was given ", "Give a number of steps.")
    if count < 0:
        other = "step_back" if caller == "step" else "step"
        raise ValueError(
            f"{caller}() was given {count}. Give a number of steps from 0, or call {other}()."
        )
    return count


def read_max_bytes(max_bytes: Any) -> int:
    """Check and return a number of bytes to keep."""
    instead = "Give a whole number of bytes, such as 256 * 2**20."
    count = read_int(max_bytes, "max_bytes was given ", instead)
    if count < 0:
        raise ValueError(f"max_bytes was given {count}. Give a number of bytes from 0.")
    return count
