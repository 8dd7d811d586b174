"""One picture that lives on: another graph takes the place of the one that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
import traitlets

from .. import notebook
from ..graph.garbage_collector import collector_paused
from ..graph.integers import read_int
from ..graph.names import caller_names
from ..schema import DifferenceModel, DtypesModel, GraphModel, KnobModel, UpdateModel, Values
from ..sources.graph_model import dtypes_model
from ..sources.graph_source import GraphSource
from ..sources.read_source import read_source
from ..sources.snapshot import are_small
from ..torch_api.modes import grad_mode_kept, unseen
from .graph_changes import Pictured, opened_model, pictured, update_model, values_of
from .stepping import SteppingWidget
from .traits import TRAVELS, OfPass, masked

AT_MOST_EVERY = 1 / 30
"""Seconds between two updates that are shown while the program does not rest."""


class UpdatingWidget(SteppingWidget[GraphSource]):
    """A widget of one graph, which another one may replace. Base of `GraphWidget`.

    Attributes:
        graph: What is drawn, as plain JSON values (see `gradwalk.schema.GraphModel`).
    """

    graph: GraphModel = OfPass(read_only=True).tag(**masked("graph"))  # type: ignore[assignment]
    _dtypes: DtypesModel | None = OfPass(None, read_only=True).tag(**TRAVELS)  # type: ignore[assignment]
    _values: list[Values | None] | None = traitlets.Any(None, read_only=True).tag(
        **masked("_values")
    )  # type: ignore[assignment]
    _update: UpdateModel | None = OfPass(None, read_only=True).tag(**masked("_update"))  # type: ignore[assignment]

    _openable: list[int] | None = OfPass(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _knobs: list[KnobModel] | None = traitlets.Any(None, read_only=True).tag(sync=True)  # type: ignore[assignment]
    _differences: list[DifferenceModel] | None = traitlets.Any(None, read_only=True).tag(  # type: ignore[assignment]
        **masked("_differences", encoded=False)
    )

    _turned: Callable[[int, tuple[int, ...], float], None] | None = None
    _read_as: Mapping[str, Any] = {}  # how the graphs are captured: what the constructor was asked
    _updates = 0
    _undrawn = True  # whether the graph that is shown next is not the one in the picture
    _passed = True  # whether backward ran since the last update
    _travels = True  # whether the graph is sent: not where only its numbers are others
    _drawn_at = 0.0
    _pictured: Pictured | None = None

    def update(
        self, *outputs: Any, names: Mapping[str, Any] | torch.nn.Module | None = None
    ) -> None:
        """Show another graph in the same picture, as of the next iteration of a training loop.

        What is the same in both, by structure and names, stays where it is, with the camera, what
        is selected and what is folded; what is new or gone is faded. Where only numbers changed
        nothing moves, and only numbers travel. The graph before is let go of, with its hooks.

        Call it between the forward pass and ``loss.backward()``, which the picture then follows.
        While a loop runs, at most 30 updates a second are drawn; each is there as soon as it is
        asked for, and the last when the program rests.

        Args:
            *outputs: As for `GraphWidget`.
            names: As for `GraphWidget`.

        Raises:
            TypeError: As for `GraphWidget`. The picture stays as it is then.
            ValueError: As for `GraphWidget`, or the widget is closed.
            RuntimeError: This widget's own backward is running.

        Example::

            >>> from gradwalk import GraphWidget
            >>> w = torch.tensor(3.0, requires_grad=True)
            >>> widget = GraphWidget(w**2)
            >>> for _ in range(2):
            ...     loss = (w - 1) ** 2
            ...     widget.update(loss)
            ...     loss.backward()
            >>> widget
            GraphWidget(3 nodes, 2 edges, 1 leaf)
        """
        self._refuse_closed()
        self._refuse_while_running("update()")
        found = caller_names(names, "update")
        subject = read_source(outputs, found, "update", named=names is not None, **self._read_as)
        self._replace(subject)

    @grad_mode_kept
    def expand(self, node: int) -> None:
        """Show what is inside of a node in its place: a double click on it does the same.

        A node that ``torch.compile`` made (``CompiledFunctionBackward``) opens into a box with the
        calls of its backward program, as it was before the backend fused it. Once a pass was
        recorded, their numbers are known: the program runs once more for that, call by call, unless
        it may run only once. Nothing is compiled.

        A node of a custom ``autograd.Function``, and one of a part checkpointed with
        ``use_reentrant=True``, opens into the operations that its backward ran, with what each
        gave, once this widget's `backward` has run through a graph that was watched.

        Args:
            node: Its id.

        Raises:
            TypeError: ``node`` is no whole number.
            ValueError: It has nothing inside that can be shown, and why; or the widget is closed.
            RuntimeError: A backward pass is running.

        Example::

            >>> from gradwalk import GraphWidget
            >>> double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
            >>> widget = GraphWidget(double(torch.ones(3, requires_grad=True)))
            >>> [node["op"] for node in widget.graph["nodes"]]
            ['CompiledFunctionBackward', 'AccumulateGrad']
            >>> widget.expand(0)
            >>> [node["op"] for node in widget.graph["nodes"] if node["kind"] == "call"]
            ['aten.mul.Tensor', 'aten.cos.default', 'aten.mul.Tensor']
            >>> widget.collapse(0)
            >>> widget
            GraphWidget(2 nodes, 1 edge, 1 leaf)
        """
        self._open_or_close(node, "expand")

    @grad_mode_kept
    def collapse(self, node: int) -> None:
        """Hide what is inside of a node again: a double click on the head of its box.

        Args:
            node: Its id, or that of something inside of it.

        Raises:
            TypeError: ``node`` is no whole number.
            ValueError: It has nothing inside; or the widget is closed.
            RuntimeError: A backward pass is running.
        """
        self._open_or_close(node, "collapse")

    def _open_or_close(self, node: Any, how: Literal["expand", "collapse"]) -> None:
        self._refuse_closed()
        self._refuse_while_running(f"{how}()")
        node = read_int(node, f"{how}() was given ", "Give the id of a node.")
        subject = self._open()
        with self._lock, self._change():
            self._refresh(describe=False)
            before = len(subject.drawn)
            with collector_paused(), unseen():
                subject.expand(node) if how == "expand" else subject.collapse(node)
                if len(subject.drawn) != before:
                    self._drawn_again(subject)

    def _is_drawn_otherwise(self, subject: GraphSource) -> bool:
        """Whether what is drawn of the graph is no more what is in the picture."""
        return self._pictured is not None and subject.model is not self._pictured.model

    def _drawn_again(self, subject: GraphSource) -> None:
        """Draw the same graph with more or less of it open."""
        was, now = self._pictured, pictured(subject)
        assert was is not None
        self._updates += 1
        self._pictured = now  # to read a trait meanwhile shall not draw it once more
        self._put(opened_model(self._updates, was, now), now, subject)
        self._show_flows(subject)
        self._undescribed = True

    def _show_flows(self, subject: GraphSource) -> None:
        """Show what flowed through the edges that are drawn now, in the pass that is shown."""

    def _replace(self, subject: GraphSource) -> None:
        """Show another graph: now, soon, or as soon as somebody asks."""
        if are_small([subject]):
            subject.read_now()
        if self._pictured is None:  # something is there to be compared with
            self._refresh(describe=False)
        with self._lock:
            before = self._behind
            if before is None:  # closed meanwhile
                return
            passed, self._passed = self._passed, False
            self._behind = subject
            self._updates += 1
            self._undrawn = self._unshown = True
            self._said = None
            before.close()
        subject.follow(self._pass_ended)
        # Shown with its gradients where the program runs backward each time: see `_pass_ended`.
        self._show_in_time(now=not passed)

    def _pass_ended(self) -> None:
        self._passed = True
        if not self._updates:
            super()._pass_ended()
            return
        self._unshown = True
        self._show_in_time(now=True)

    def _show_in_time(self, *, now: bool) -> None:
        """Show what is new: at once where it is time, else when the program rests."""
        is_heard = self._soon.wait() or notebook.is_heard(self.comm)
        is_due = time.monotonic() - self._drawn_at >= AT_MOST_EVERY
        if self._observed or (now and is_heard and is_due):
            self._refresh()

    def _masked(self, trait: str, value: Any) -> Any:  # noqa: ARG002
        """A trait as it may travel now."""
        return value

    def _say(self, sentence: str | None) -> None:
        """Show a sentence in the picture, until another one or None takes its place."""
        self._said = sentence
        self.set_trait("_fault", sentence)

    def _offer(
        self, knobs: list[KnobModel], turned: Callable[[int, tuple[int, ...], float], None]
    ) -> None:
        """Let the numbers of leaves be set in the picture.

        Args:
            knobs: Which, and how far.
            turned: Called with the node, which of its numbers it is, and what that shall be.
        """
        self._turned = turned
        self.set_trait("_knobs", knobs)

    def _tell_differences(self, differences: list[DifferenceModel] | None) -> None:
        """Show what finite differences say, until the next update."""
        self.set_trait("_differences", differences)

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked.get("kind") in ("expand", "collapse"):
            self._open_or_close(asked["node"], asked["kind"])
        elif asked.get("kind") == "turn":
            if self._turned is not None:
                at = tuple(map(int, asked.get("at", ())))
                self._turned(int(asked["node"]), at, float(asked["value"]))
        else:
            super()._answer(asked)

    def _draw(self, subject: GraphSource) -> bool:
        """Put what is shown into the picture, unless it is there; whether it was not."""
        if not self._undrawn:
            return False
        was, now = self._pictured, pictured(subject)
        if was is None:
            self._put_graph(now, subject)
        else:
            self._put(update_model(self._updates, was, now), now, subject)
        return True

    def _put_graph(self, now: Pictured, subject: GraphSource) -> None:
        """Say what is drawn."""
        self.set_trait("graph", now.model)
        self.set_trait("_dtypes", dtypes_model(subject.drawn))
        self.set_trait("_openable", list(subject.openable) or None)
        self._undrawn, self._pictured = False, now

    def _put(self, update: UpdateModel, now: Pictured, subject: GraphSource) -> None:
        """Put a graph into the picture, in place of the one before."""
        before = update["before"]
        selected = self.selected
        if before is not None and selected is not None:
            selected = before.index(selected) if selected in before else None
        self._travels = before is not None
        try:
            self._put_graph(now, subject)
        finally:
            self._travels = True
        self.set_trait("_values", None if before is not None else values_of(now.model))
        self.set_trait("_update", update)
        self.set_trait("_differences", None)  # they were about other numbers
        self._drawn_at = time.monotonic()
        self.selected = selected

    def _should_send_property(self, key: str, value: Any) -> bool:
        """Whether a change of a trait is sent to the browser (for ipywidgets)."""
        if key == "graph" and not self._travels:
            return False
        return bool(super()._should_send_property(key, value))
