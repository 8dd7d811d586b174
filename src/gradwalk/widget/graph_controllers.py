"""The controllers of `GraphWidget`: passes, cursor, updates, open nodes, findings, ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..backward.recorded_pass import read_count, refuse_within_backward
from ..checks.finding import Finding, finding_models
from ..checks.run_checks import Limits
from ..explain import describe_node as why
from ..graph.adjacency import collector_paused
from ..graph.arguments import find_node, read_int
from ..graph.names import caller_names
from ..schema.graph_json import dtypes_model
from ..schema.updates import UpdateModel
from ..sources.diagnose import judged
from ..sources.graph_source import DiagnosisRequest, GraphSource, are_small
from ..torch_api.capability import lost_sentences
from ..torch_api.modes import unseen
from .controllers import Controller, Turn
from .drawing import DrawingWidget
from .graph_changes import Pictured, opened_model, update_model
from .graph_traits import GraphTraits
from .stage import Stage, State


class PassController(Controller[GraphTraits]):
    """Shows what has been seen of backward."""

    _shown: object | None = None  # the pass that `steps`, `run` and `cursor` are about
    _lost = 0  # how many sentences the state has about what this torch does not tell

    def is_new(self, source: GraphSource) -> bool:
        """Return whether there is news of backward: a pass has ended, or another one is shown."""
        return source.poll() or source.recorded is not self._shown

    def show(self, source: GraphSource, is_other: bool) -> None:
        """Show news of backward."""
        widget, build = self.widget, self.stage.parts.build
        widget.set_trait("state", build("what has flowed", source.state, widget.state))
        if is_other or (source.recorded is not None and source.recorded is not self._shown):
            widget.set_trait("_steps", source.steps)
            widget._inner = [0, 0]
            widget.cursor = source.cursor
            widget.set_trait("run", build("what flowed", lambda: source.run, None))
        self._shown = source.recorded

    def show_lost(self, source: GraphSource) -> None:
        """Say what describing a node has shown to be unknown with this torch."""
        lost = len(lost_sentences())
        if lost != self._lost:
            self._lost = lost
            widget = self.widget
            state = self.stage.parts.build("what has flowed", source.state, widget.state)
            widget.set_trait("state", state)

    def show_changes(self, source: GraphSource) -> None:
        """Show what the program has changed since the last pass."""
        widget, build = self.widget, self.stage.parts.build
        if source.recorded is not None:
            run = build("what flowed", lambda: source.run, widget.run)
            if run is not widget.run:  # a .grad is not what the pass left in it any more
                widget.set_trait("run", run)
        else:  # leaves may hold something else
            widget.set_trait("state", build("what has flowed", source.state, widget.state))

    def show_transport(self, source: GraphSource) -> None:
        """Show whether the cursor moves ``.grad``."""
        widget = self.widget
        found = self.stage.parts.build("transport", source.transport, widget.transport)
        widget.set_trait("transport", found)

    def on_reopened(self, source: GraphSource) -> None:
        """Show what flowed through the edges that are drawn now."""
        widget, build = self.widget, self.stage.parts.build
        widget.set_trait("state", build("what has flowed", source.state, widget.state))
        widget.set_trait("run", build("what flowed", lambda: source.run, None))

    def close(self) -> None:
        """Let go of the pass."""
        self._shown = None


class DiagnosisController(Controller[GraphTraits]):
    """Looks for what may be wrong with the gradients, and adds up the memory."""

    def diagnose(self, request: DiagnosisRequest) -> list[Finding]:
        """List the findings under the picture, and return them; see `GraphWidget.diagnose`."""
        found = judged(self._up_to_date(), request)
        self.widget.set_trait("_findings", finding_models(found))
        return found

    def handle(self, message: dict[str, Any]) -> bool:
        """Diagnose, or add up the memory."""
        kind = message.get("kind")
        if kind == "diagnose":
            names = caller_names(None, "diagnose", 1)  # a notebook's variables
            self.diagnose(DiagnosisRequest(names, Limits()))
        elif kind == "memory":
            self.widget.set_trait("_memory", self._up_to_date().memory())
        else:
            return False
        return True

    def on_pass(self, source: GraphSource) -> None:
        """Forget the findings, which were about another pass; add up the memory again."""
        widget = self.widget
        widget.set_trait("_findings", None)
        if widget._memory is not None:
            memory = self.stage.parts.build("the memory held", source.memory, None)
            widget.set_trait("_memory", memory)

    def _up_to_date(self) -> GraphSource:
        self.stage.refresh()
        return self.stage.open()


class RankController(Controller[GraphTraits]):
    """Shows the graph and the numbers of another rank in the same picture."""

    def __init__(self, widget: GraphTraits, updates: UpdateController) -> None:
        super().__init__(widget)
        self._updates = updates

    def on_graph(self, source: GraphSource) -> None:
        """Say which ranks there are, and which is shown."""
        self.widget.set_trait("_ranks", [*source.loaded_ranks])
        self.widget.rank = _rank_of(source)

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``rank``, checked."""
        if trait != "rank":
            return value
        self.stage.refuse_closed()
        source = self.stage.source
        assert source is not None
        shown = _rank_of(source)
        ranks = [*source.loaded_ranks] or ([] if shown is None else [shown])
        if value is None and not ranks:
            return None
        if not ranks:
            raise ValueError(
                f"rank was given {value!r}, but this graph is not of the files of several ranks. "
                "Load them, as in gradwalk.load('run-*.gw')."
            )
        instead = f"Give it the number of a rank: {_as_ranks(ranks)}."
        rank = read_int(value, "rank was given ", instead)
        if rank not in ranks:
            raise ValueError(f"rank was given {rank}, but there is: {_as_ranks(ranks)}.")
        return rank

    def react(self, trait: str) -> None:
        """Show the rank that was chosen, at the same cursor."""
        widget = self.widget
        before = self.stage.source
        if trait != "rank" or before is None or before.on_rank is None:
            return
        if widget.rank == _rank_of(before):
            return
        try:
            source = before.on_rank(widget.rank)
        except Exception as error:  # the file of that rank is damaged
            widget.rank = _rank_of(before)
            widget.send_state("rank")
            self.stage.say(why.failure(error))
            raise
        steps = len(source.steps)
        is_over = widget.cursor == len(widget._steps)
        source.seek(steps if is_over else min(widget.cursor, steps))
        is_diagnosed = widget._findings is not None
        with self.stage.change():
            self._updates.replace(source)
            self.stage.refresh(describe=False)
            if is_diagnosed:
                widget.set_trait("_findings", finding_models(source.findings()))


def _rank_of(source: GraphSource) -> int | None:
    ranks = source.model["ranks"]
    return None if ranks is None else ranks["shown"]


def _as_ranks(ranks: list[int]) -> str:
    """Ranks for an error: the ends of many."""
    if len(ranks) > 8 and ranks == [*range(ranks[0], ranks[-1] + 1)]:
        return f"rank {ranks[0]} to {ranks[-1]}"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"


class CursorController(Controller[DrawingWidget[Any, Any]]):
    """Moves the cursor, and runs the real backward once."""

    stage: Stage[Any]

    def __init__(
        self, widget: DrawingWidget[Any, Any], move: Callable[[int, bool], None] | None = None
    ) -> None:
        super().__init__(widget)
        self._move = move or self.move_cursor
        self._running: object | None = None  # names the pass

    @property
    def is_running(self) -> bool:
        """Whether the widget's own backward is running."""
        return self._running is not None

    def step(self, n: int) -> None:
        """Move on; see `DrawingWidget.step`."""
        count = read_count(n, "step")
        self.refuse_while_running("step()")
        with self.stage.change():  # the picture goes there directly, not through the end
            self._move(count, self.stage.start())

    def step_back(self, n: int) -> None:
        """Move back; see `DrawingWidget.step_back`."""
        count = read_count(n, "step_back")
        self.stage.open()
        self.refuse_while_running("step_back()")
        self._move(-count, False)

    def reset(self) -> None:
        """Move to the start."""
        self.stage.open()
        self.refuse_while_running("reset()")
        self.widget.cursor = 0

    def move_cursor(self, by: int, from_start: bool) -> None:
        """Move by a number of steps, at most to an end."""
        widget = self.widget
        start = 0 if from_start else widget.cursor
        widget.cursor = max(0, min(start + by, len(widget._steps)))

    def handle(self, message: dict[str, Any]) -> bool:
        """Start backward, and go to a cursor where that was the first to start it."""
        if message.get("kind") != "start":
            return False
        cursor = message.get("cursor")
        with self.stage.change():
            if self.stage.start() and cursor is not None:
                self._move(cursor, True)
        return True

    @contextmanager
    def own_pass(self) -> Iterator[None]:
        """Within it backward runs, with the user's hooks, and nothing else may move the cursor."""
        mine = object()
        try:
            with self.stage.lock:
                self.refuse_while_running("backward()", within_others=True)
                self._running = mine
            yield
        finally:
            if self._running is mine:
                self._running = None
                self.stage.refresh()

    def refuse_while_running(self, what: str, *, within_others: bool = False) -> None:
        """Raise while the widget's own backward runs, or when a hook of any pass asks."""
        if self.is_running:
            raise RuntimeError(
                f"{what} was asked for while this widget's own backward pass runs, by one of its "
                "hooks or by another thread. Do it after that pass: in a hook, only remember that "
                "it is to be done."
            )
        if not within_others:
            refuse_within_backward(what)

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``cursor``, checked."""
        if trait != "cursor":
            return value
        widget = self.widget
        with self.stage.lock:
            if not self.stage.is_refreshing:  # else the end of a pass moves it
                self.refuse_while_running("Moving the cursor")
        total = len(widget._steps)
        cursor = read_int(value, "cursor was given ", f"Give it a number of steps, 0 to {total}.")
        if not 0 <= cursor <= total:
            raise ValueError(
                f"cursor was given {cursor}, but "
                + (
                    f"backward has {total} steps here: give a number from 0 to {total}."
                    if total
                    else "no backward pass has been seen yet: call step() or backward() first."
                )
            )
        return cursor

    def react(self, trait: str) -> None:
        """Move every ``.grad`` to the cursor."""
        if trait != "cursor":
            return
        widget = self.widget
        with self.stage.lock:
            if self.is_running:  # the browser sets a trait before it learns of the refusal
                self._put_back()
                return
            source = self.stage.source
            try:
                if source is not None and source.cursor != widget.cursor:
                    source.seek(widget.cursor)
            except BaseException:
                self._put_back()
                raise
            self.stage.refresh()

    def _put_back(self) -> None:
        """Put the cursor where every ``.grad`` is, and send it."""
        widget = self.widget
        is_at = 0 if self.stage.source is None else self.stage.source.cursor
        if widget.cursor == is_at:
            return
        with self.stage.as_it_is():
            widget.cursor = is_at
        widget.send_state("cursor")


AT_MOST_EVERY = 1 / 30  # seconds between two updates that are shown while the program does not rest


class UpdateController(Controller[GraphTraits]):
    """Puts graphs into the picture, one in place of the other."""

    def __init__(self, widget: GraphTraits) -> None:
        super().__init__(widget)
        # Whether a change of the graph is sent: not where only its numbers differ.
        self.sends_graph = True
        self.has_run = True  # whether backward has run since the last update
        self._number = 0  # of updates
        self._drawn: Pictured | None = None  # what is in the picture
        self._drawn_at = 0.0

    def replace(self, source: GraphSource) -> None:
        """Show another graph: now, soon, or as soon as somebody asks."""
        widget = self.widget
        if are_small([source]):
            source.read_now()
        if self._drawn is None:  # the update is compared with it
            self.stage.refresh(describe=False)
        with self.stage.lock:
            before = self.stage.source
            if before is None:  # closed meanwhile
                return
            had_run, self.has_run = self.has_run, False
            self.stage.replace(source)
            self._number += 1
            self.stage.mark(State.GRAPH_PENDING)
            for controller in widget._controllers:
                controller.let_go()
            before.close()
        source.follow(self.pass_ended)
        for controller in widget._controllers:
            controller.on_source(source)
        # A program that runs backward each time is shown then, with the gradients.
        self._show_in_time(is_complete=not had_run)

    def pass_ended(self) -> None:
        """Show a pass of the program: in time, where the graph came with an update."""
        self.has_run = True
        if not self._number:
            self.stage.pass_ended()
            return
        self.stage.mark(State.PASS_PENDING)
        self._show_in_time(is_complete=True)

    def _show_in_time(self, *, is_complete: bool) -> None:
        """Show an update at once where the last one is long enough ago, else when idle."""
        will_arrive = self.stage.waits_for_idle()
        is_due = time.monotonic() - self._drawn_at >= AT_MOST_EVERY
        if self.stage.is_observed or (is_complete and will_arrive and is_due):
            self.stage.refresh()

    def draw(self, source: GraphSource) -> None:
        """Put a graph into the picture, unless it is there."""
        was, now = self._drawn, Pictured(source.graph, source.model)
        if was is None:
            self._put_graph(now, source)
        elif was.model is not now.model:
            self._put(update_model(self._number, was, now), now, source)

    def is_drawn_otherwise(self, source: GraphSource) -> bool:
        """Whether what is open of the graph is not what the picture shows."""
        return self._drawn is not None and source.model is not self._drawn.model

    def draw_again(self, source: GraphSource) -> None:
        """Draw the same graph with more or less of it open."""
        was, now = self._drawn, Pictured(source.graph, source.model)
        assert was is not None
        self._number += 1
        self._drawn = now  # reading a trait meanwhile must not draw it again
        self._put(opened_model(self._number, was, now), now, source)
        for controller in self.widget._controllers:
            controller.on_reopened(source)

    def _put_graph(self, now: Pictured, source: GraphSource) -> None:
        widget = self.widget
        widget.set_trait("model", now.model)
        widget.set_trait("_dtypes", dtypes_model(source.drawn))
        widget.set_trait("_openable", list(source.openable) or None)
        self._drawn = now

    def _put(self, update: UpdateModel, now: Pictured, source: GraphSource) -> None:
        """Put a graph into the picture, in place of the one before."""
        widget, before = self.widget, update["before"]
        selected = widget.selected
        if before is not None and selected is not None:
            selected = before.index(selected) if selected in before else None
        self.sends_graph = before is not None
        try:
            self._put_graph(now, source)
        finally:
            self.sends_graph = True
        values = [node["value"] for node in now.model["nodes"]] if before is None else None
        widget.set_trait("_values", values)
        widget.set_trait("_update", update)
        widget.set_trait("_differences", None)  # they were about other numbers
        self._drawn_at = time.monotonic()
        widget.selected = selected


class OpenController(Controller[GraphTraits]):
    """Selects, expands and collapses nodes."""

    def __init__(
        self, widget: GraphTraits, cursors: CursorController, updates: UpdateController
    ) -> None:
        super().__init__(widget)
        self._cursors = cursors
        self._updates = updates

    def select(self, name: Any) -> None:
        """Select a node or the box of a module; see `GraphWidget.select`."""
        widget = self.widget
        source = self.stage.open()
        paths = source.model["modules"]["namespaces"]
        boxes = {path.replace("/", "."): path for path in paths}
        roots = {called.split(".")[0] for _, called in source.drawn.nodes(data="name") if called}
        path = None
        if isinstance(name, str):  # a box may be without the variable that holds the whole model
            root, _, inner = name.partition(".")
            path = boxes.get(name) or (boxes.get(inner) if root in roots else None)
        node = None if name is None or path else find_node(source.drawn, name, more=boxes)
        with self.stage.change():
            widget.selected = node
            number = 1 if widget._box is None else widget._box["number"] + 1
            widget.set_trait("_box", path and {"path": path, "number": number})

    def turn(self, node: Any, how: Turn) -> None:
        """Expand or collapse a node; see `GraphWidget.expand`."""
        self.stage.refuse_closed()
        self._cursors.refuse_while_running(f"{how}()")
        source = self.stage.open()
        if not isinstance(node, str):
            node = read_int(node, f"{how}() was given ", "Give the id or the name of a node.")
        with self.stage.lock, self.stage.change():
            self.stage.refresh(describe=False)
            node = find_node(source.drawn, node) if isinstance(node, str) else node
            before = len(source.drawn)
            with collector_paused(), unseen():
                source.expand(node) if how == "expand" else source.collapse(node)
                if len(source.drawn) != before:
                    self._updates.draw_again(source)
                    self.stage.mark(State.DETAILS_PENDING)

    def handle(self, message: dict[str, Any]) -> bool:
        """Expand or collapse the node of a message."""
        if message.get("kind") not in ("expand", "collapse"):
            return False
        self.turn(message["node"], message["kind"])
        return True

    def on_pass(self, source: GraphSource) -> None:
        """Say which nodes can be opened: a pass may have recorded what is inside of them."""
        self.widget.set_trait("_openable", list(source.openable) or None)
