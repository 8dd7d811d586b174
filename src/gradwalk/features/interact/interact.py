"""`interact`: sliders for the arguments of a function, and its autograd graph, which follows."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ipywidgets
import torch
from IPython.display import clear_output

from ...export.disk import read_path, write_file
from ...export.html import PageParts
from ...export.pictures import live_page
from ...graph.adjacency import collector_paused
from ...graph.names import names_among
from ...graph.outputs import read_outputs
from ...hosts.ipython import shell
from ...hosts.this_host import with_outer
from ...result import make, returned_by
from ...schema.updates import DifferenceModel, NumberInputModel
from ...sources.graph_source import GraphSource, are_small
from ...sources.read_source import read_source
from ...torch_api.reading import in_short
from ...tracing.watch import watch
from ...types import Outputs
from ...widget.graph_widget import GraphWidget
from ..live.program import Forward
from ..live.write_page import live_parts
from ..quiz.quiz import written
from .controls import (
    NumberInputs,
    TensorControl,
    leaf_of,
    number_input,
    numbers_of,
    put,
    put_within,
    with_controls,
)
from .descent import LR, Descent, Difference, check_rate, differences, moved_by, to_move


def called(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Call a function, watched; return its result, and its variables at the end."""
    with _entered(function) as frames:
        with torch.enable_grad(), watch():
            result = function(**arguments)
        # A frame that somebody holds keeps its variables when it returns.
        return result, with_outer(dict(frames[0].f_locals), frames[0]) if frames else {}


@contextmanager
def _entered(function: Callable[..., Any]) -> Iterator[list[FrameType]]:
    """Within it, the frame that the function first runs in is put into the list that this gives.

    A debugger, or whatever else traces, is left alone: intermediate results then go without names.
    """
    frames: list[FrameType] = []
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or sys.gettrace() is not None:
        yield frames
        return

    def called_one(frame: FrameType, _: str, __: Any) -> None:
        if frame.f_code is code:
            frames.append(frame)
            # What traces to the end has Python stop at every instruction, which costs twice as
            # much as everything else that is done to watch the function.
            sys.settrace(None)

    sys.settrace(called_one)
    try:
        yield frames
    finally:
        if sys.gettrace() is called_one:
            sys.settrace(None)
        frames.clear()  # a frame knows its caller's, which knows this list


def tensors_in(result: Any) -> list[torch.Tensor]:
    """The tensors that require grad among what a function returned."""
    if isinstance(result, torch.Tensor):
        return [result] if result.requires_grad else []
    items = result.values() if isinstance(result, Mapping) else result
    if not isinstance(result, (list, tuple, Mapping)):
        return []
    return [tensor for item in items for tensor in tensors_in(item)]


def only_tensors(result: Any) -> Any:
    """Return the result of a function without the values that have no graph."""
    if isinstance(result, Mapping):
        return {key: only_tensors(each) for key, each in result.items() if tensors_in(each)}
    if isinstance(result, (list, tuple)):
        return [only_tensors(each) for each in result if tensors_in(each)]
    return result


def kind_of(result: Any) -> str:
    """Describe the result of a function: "a tensor of one number", "a tuple of 2"."""
    if isinstance(result, torch.Tensor):
        shape = tuple(result.shape)
        return "a tensor of one number" if result.numel() == 1 else f"a tensor of shape {shape}"
    if isinstance(result, (list, tuple, dict)):
        return f"a {type(result).__name__} of {len(result)}"
    if result is None:
        return "None"
    name = type(result).__name__
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


class Row(ipywidgets.HBox):  # type: ignore[misc]
    """Buttons for a step and for a check, and what came of the last one."""

    def __init__(
        self, step: Callable[[float], Descent], check: Callable[[], dict[str, Any]]
    ) -> None:
        self._step, self._check = step, check
        self._lr = ipywidgets.FloatText(value=LR, description="lr")
        self._lr.layout.width = "160px"
        self._status = ipywidgets.Label()
        stepping = ipywidgets.Button(description="Step", tooltip="w ← w − lr · w.grad")
        checking = ipywidgets.Button(
            description="Check", tooltip="Compare each gradient with a finite difference"
        )
        stepping.on_click(lambda _: self._do(self._stepped))
        checking.on_click(lambda _: self._do(self._checked))
        super().__init__(children=[self._lr, stepping, checking, self._status])

    def _do(self, what: Callable[[], str]) -> None:
        try:
            self._status.value = what()
        except Exception as error:  # a button has nobody to raise to
            self._status.value = str(error)

    def _stepped(self) -> str:
        found = self._step(self._lr.value)
        pairs = found.moved.items()
        moved = [f"{name} {_short(was)} → {_short(now)}" for name, (was, now) in pairs]
        return ", ".join([*moved, f"loss {_short(found.before)} → {_short(found.after)}"])

    def _checked(self) -> str:
        found = self._check().values()
        pairs = [each for some in found for each in (some if isinstance(some, list) else [some])]
        finite = [pair for pair in pairs if pair.is_finite]
        wrong = sum(not pair.agrees for pair in finite)
        result = "agree" if not wrong else f"agree, but {wrong}"
        rest = len(pairs) - len(finite)
        more = f"; of {rest} more there is none that is finite" if rest else ""
        return f"{len(finite)} gradients and finite differences {result}{more}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return written(value)


@returned_by("interact(function, ...)")
class Interact(ipywidgets.interactive):  # type: ignore[misc]
    """The controls of a function's arguments, and its graph; what `interact` returns.

    Attributes:
        widget: The `GraphWidget`, which shows the last call that worked.
        controls: The controls by the name of their argument.
        error: A sentence when the last call did not work, or None.
        result: The result of the last call that worked.
        leaves: The leaf tensors that it was called with then, by name.
    """

    def __init__(self, function: Callable[..., Any], /, **arguments: Any) -> None:
        self.widget: GraphWidget | None = None
        self.error: str | None = None
        self.leaves: dict[str, torch.Tensor] = {}
        self._function = function
        self._called = getattr(function, "__name__", "the function")
        self._waits = False  # while several controls are set at once
        self._kind: str | None = None
        self._ranged = {name for name, given in arguments.items() if not _is_plain(given)}
        self._steps: dict[str, float | None] = {}  # of controls that a step may have made finer
        # ipywidgets asks a function for its name, which a module and a partial() have not.
        named = function if hasattr(function, "__name__") else lambda **_: None
        super().__init__(named, {"manual": False}, **with_controls(function, arguments))
        if self.widget is None:  # releases before 8 call nothing by themselves
            self.update()
        self._row = Row(self.descend, self.differences)
        self.children = [*self.controls.values(), self.widget, self._row, self.out]

    @property
    def controls(self) -> dict[str, ipywidgets.Widget]:
        """The controls by the name of their argument, without what is fixed."""
        moving = (w for w in self.kwargs_widgets if not isinstance(w, ipywidgets.fixed))
        return {widget._kwarg: widget for widget in moving}

    def update(self, *_: Any) -> None:
        """Call the function with what the controls hold, run backward, and show both.

        What goes wrong is a sentence in the picture, which stays as it was; before there is any
        picture it is raised.
        """
        if self._waits:
            return
        error: Exception | None = None
        with self.out:
            if shell() is not None:  # else it would write into a terminal
                clear_output(wait=True)  # type: ignore[no-untyped-call]
            try:
                self._run()
            except Exception as raised:  # the reader's own function may raise anything
                error = raised
        try:
            if error is None:
                return
            if self.widget is None:
                raise error
            self._say(self._sentence(error))
        finally:
            error = None  # it knows this frame, and what the function's frame knew

    def _run(self) -> None:
        put_back = self._undo()
        values = {widget._kwarg: widget.get_interact_value() for widget in self.kwargs_widgets}
        leaves, arguments = self._read(values)
        state = torch.get_rng_state()
        with ExitStack() as paused:
            try:
                result, variables = called(self._function, arguments)
                draws = not torch.equal(state, torch.get_rng_state())
                kind = kind_of(result)
                if not tensors_in(result):
                    raise ValueError(
                        f"{self._called} returned {kind}, and nothing in it requires grad, so "
                        "no graph can be shown. Return the tensor that you would call "
                        "backward() on, computed from "
                        f"{', '.join(leaves) or 'a number among the arguments'}."
                    )
                # The picture is many small objects: the collector would go through them again and
                # again. The function's own garbage is collected as usual.
                paused.enter_context(collector_paused())
                names = names_among({**variables, **leaves})
                source = read_source((only_tensors(result),), names, self._called)
            except BaseException:
                put_back()
                raise
            self._show(source)
            self.kwargs, self.result, self.leaves = values, result, leaves
            self._state, self._draws = state, draws
            before, self._kind = self._kind, kind
            changed = f"{self._called} returned {kind} now, and {before} the time before."
            self._say(None if before in (None, kind) else changed)
            assert self.widget is not None
            with self.widget._stage.change():
                self._backward(source)
                self.widget.set_trait("_number_inputs", self._number_inputs(source))

    def _backward(self, source: GraphSource) -> None:
        """Run backward, unless there is nothing to start from: then a sentence says so."""
        assert self.widget is not None
        blocked = source.transport()["blocked"]
        if blocked is not None:
            self._say(blocked)
            return
        self.widget.backward()

    def _undo(self) -> Callable[[], None]:
        """Undo the last pass in every ``.grad``, so that a model's gradients do not add up."""
        source = None if self.widget is None else self.widget._stage.open()
        if source is None or not source.transport()["owned"]:
            return lambda: None
        cursor = source.cursor
        source.seek(0)
        return lambda: source.seek(cursor)

    def _read(
        self, values: dict[str, Any], dtype: torch.dtype | None = None
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The leaf tensors among the arguments, and all arguments with them."""
        found = {
            widget._kwarg: leaf_of(widget, values[widget._kwarg], dtype)
            for widget in self.kwargs_widgets
        }
        leaves = {name: leaf for name, leaf in found.items() if leaf is not None}
        return leaves, {**values, **leaves}

    def _show(self, source: GraphSource) -> None:
        if self.widget is None:
            constants = are_small([source])
            self.widget = GraphWidget._of(source, direction=source.direction, constants=constants)
            inputs = NumberInputs(self.widget, self._turned)
            self.widget._controllers = [*self.widget._controllers, inputs]
        else:
            self.widget._updates.replace(source)

    def _say(self, sentence: str | None) -> None:
        self.error = sentence
        if self.widget is not None:
            self.widget._stage.say(sentence)

    def _sentence(self, error: Exception) -> str:
        if str(error).startswith(f"{self._called} returned"):
            return f"{error} The picture shows the last call that worked."
        at = ", ".join(f"{name} = {each.value!r}" for name, each in self.controls.items())
        return (
            f"{self._called} did not work with {at or 'these arguments'}: {in_short(error)}. "
            "The picture shows the last call that worked."
        )

    def _number_inputs(self, source: GraphSource) -> list[NumberInputModel]:
        """The numbers of leaves, which can be set in the picture."""
        return [
            number_input(node["id"], name, at, control, self._steps.get(name))
            for node in source.model["nodes"]
            if node["kind"] == "leaf" and (name := node["name"]) in self.leaves
            for at, control in numbers_of(self.controls.get(name))
        ]

    def _turned(self, node: int, at: tuple[int, ...], value: float) -> None:
        """The reader set a number in the picture."""
        assert self.widget is not None
        name = self.widget.model["nodes"][node]["name"] or ""
        put_within(dict(numbers_of(self.controls[name]))[at], value)

    def differences(self) -> dict[str, Difference | list[Difference]]:
        """Compare every gradient with a finite difference, and show them in the picture.

        The function runs four times for each number, in double precision. One that draws random
        numbers runs in its own precision, with the random state of the call that is shown, because
        torch draws other numbers in double precision. At a kink a gradient between the slopes of
        both sides agrees.

        Returns:
            Name of an argument -> a `Difference` with ``.gradient``, ``.difference``, ``.agrees``
            and ``.is_finite``; of a tensor of several numbers a list of them.

        Raises:
            ValueError: The function returns no single number, failed in double precision, or does
                not give the same each time; or the graph is closed.

        Example::

            >>> from gradwalk import interact
            >>> box = interact(lambda w: (w * 2 - 1) ** 2, w=(-5.0, 5.0))
            >>> found = box.differences()["w"]
            >>> found.agrees, round(found.difference, 4)
            (True, -4.0)
        """
        assert self.widget is not None
        self.widget._stage.open()
        found = differences(self._called, self._total, self.leaves, draws=self._draws)
        self.widget.set_trait("_differences", self._difference_models(found))
        return found

    def _total(self, leaves: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Call the function with other leaves and the random state of the shown call."""
        torch.set_rng_state(self._state)
        try:
            with torch.enable_grad():
                tensors = tensors_in(self._function(**{**self.kwargs, **leaves}))
        except Exception as error:
            raise ValueError(
                f"{self._called} cannot be checked: {'' if self._draws else 'in double precision '}"
                f"it raised {in_short(error)}."
            ) from error
        if any(tensor.numel() != 1 for tensor in tensors):
            raise ValueError(
                f"{self._called} returns {kind_of(self.result)}, and a finite difference needs "
                "one number. Return a sum or a mean."
            )
        return sum((tensor.sum() for tensor in tensors), torch.zeros(()))

    def _difference_models(self, found: dict[str, Any]) -> list[DifferenceModel]:
        assert self.widget is not None
        model = self.widget.model
        roots = [root["name"] or self._called for root in model["roots"]]
        of = roots[0] if len(roots) == 1 else self._called
        leaves = {node["name"]: node["id"] for node in model["nodes"] if node["kind"] == "leaf"}
        shown = {name: pair for name, pair in found.items() if isinstance(pair, Difference)}
        return [
            {
                "node": leaves[n],
                "quotient": f"Δ{of}/Δ{n}",
                "value": p.difference,
                "agrees": p.agrees,
            }
            for n, p in shown.items()
            if n in leaves and p.is_finite
        ]

    def descend(self, lr: float = LR, names: str | Iterable[str] | None = None) -> Descent:
        """Take a step of gradient descent: ``w ← w - lr · w.grad``, and call the function anew.

        Args:
            lr (float, optional): The learning rate. Default: ``0.05``.
            names (str | Iterable[str], optional): Which arguments move, or which one. None for
                those that were given as a range, a control or a tensor; a plain number is taken for
                data, unless there is nothing else. Whole numbers stay.

        Returns:
            The loss before and after, and what moved.

        Raises:
            TypeError: ``lr`` is not a number, or ``names`` is not iterable.
            ValueError: A name is none of a number's, the function returns no single number, or the
                step ends at NaN or infinity: nothing moves then. Or the graph is closed.

        Example::

            >>> from gradwalk import interact
            >>> box = interact(lambda w: (w - 1) ** 2, w=(-5.0, 5.0))
            >>> box.controls["w"].value = 3.0
            >>> box.descend(0.25)
            Descent(before=4.0, after=1.0, moved={'w': (3.0, 2.0)})
        """
        assert self.widget is not None
        self.widget._stage.open()
        check_rate(lr)
        controls = self.controls
        chosen = to_move({name: controls[name] for name in self.leaves}, self._ranged, names)
        before = self._loss()
        numbers = moved_by(lr, {name: self.leaves[name] for name in chosen})
        moved = {name: (controls[name].value, number) for name, number in numbers.items()}
        self._waits = True
        try:
            for name, number in numbers.items():
                control = controls[name]
                if isinstance(control, TensorControl):
                    control.value = number
                else:
                    self._steps.setdefault(name, getattr(control, "step", None))
                    put(control, number)
        finally:
            self._waits = False
        self.update()
        return make(Descent, before, self._loss(), moved)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        source: bool = True,
        quiz: str | None = None,
    ) -> str | Path:
        """Write the controls and the picture as a page that computes without Python.

        The function runs once more for it. Every call of torch that it makes is recorded, and the
        page runs the same calls with the numbers that its reader sets. Where the function takes
        another branch the page says so, and is grey.

        Args:
            path (str | os.PathLike[str], optional): The file to write; None for no file.
            title (str, optional): The title of the page; None for the name of the function.
            source (bool, optional): Whether to include lines of the program. Default: ``True``.
            quiz (str, optional): The quantity that the page asks for and marks: "grad" or "value";
                None for no quiz.

        Returns:
            The text of the file; with a path, the path.

        Raises:
            ValueError: The page cannot compute this function, and why; or the graph is closed.
            OSError: The file cannot be written.

        Example::

            >>> from gradwalk import interact
            >>> box = interact(lambda w: (w - 1) ** 2, w=(-5.0, 5.0))
            >>> "gradwalk-program" in box.to_html()
            True
        """
        to = None if path is None else read_path(path, "to_html")
        assert self.widget is not None
        text = live_page(self.widget, title or self._called, source, quiz, make=self._live_parts)
        return text if to is None else write_file(to, text, "to_html")

    def _live_parts(self, source: GraphSource, quiz: str | None) -> PageParts:
        ranges: dict[str, list[list[float]]] = {name: [] for name in self.leaves}
        for each in self._number_inputs(source):
            ranges[each["name"]].append([each["min"], each["max"], each["step"]])
        forward = Forward(self._run_again, ranges=ranges)
        return live_parts(source, quiz, forward)

    def _run_again(self) -> list[torch.Tensor]:
        """Call the function as it was called for the picture."""
        torch.set_rng_state(self._state)
        result = self._function(**{**self.kwargs, **self.leaves})
        outputs = read_outputs((only_tensors(result),), self._called)
        return [each.tensor for each in outputs if each.tensor is not None]

    def _loss(self) -> float:
        tensors = tensors_in(self.result)
        if any(tensor.numel() != 1 for tensor in tensors):
            raise ValueError(
                f"{self._called} returns {kind_of(self.result)}, which is not a loss. "
                "Return one number."
            )
        return float(sum(tensor.item() for tensor in tensors))

    def close(self) -> None:
        """Close the picture, the controls and the row of buttons. A second call is allowed.

        Example::

            >>> from gradwalk import interact
            >>> box = interact(lambda w: (w - 1) ** 2, w=(-5.0, 5.0))
            >>> box.close()
        """
        for child in self.children:
            for inner in getattr(child, "children", ()):
                inner.close()
            child.close()
        super().close()


def interact(function: Callable[..., Outputs], /, **arguments: object) -> Interact:
    """Controls for the arguments of a function, above its autograd graph, which follows them.

    With every change the function is called anew, backward runs, and the picture shows both; where
    the function takes another branch the graph is another, and the picture says what changed.

    Args:
        function (Callable[..., Outputs]): Returns the tensor to call backward on, or several.
            Numbers reach it as leaf tensors that require grad.
        **arguments (object): As for ``ipywidgets.interact``: a tuple ``(min, max)`` or ``(min, max,
            step)``, a number, a bool, a text, a list, a dict, ``fixed(x)``, any control of
            ipywidgets; also a tensor of up to 16 numbers, with a control for each. A choice from a
            list or a dict reaches the function as a leaf if it is a float, else unchanged: 2 is a
            number of layers, 2.0 a number to differentiate by.

    Returns:
        A box with the controls and the picture: ``.widget`` is the `GraphWidget`, ``.controls`` has
        the controls by name, ``.differences()`` compares gradients with finite differences and
        ``.descend(lr)`` takes a step of gradient descent. Where a later call fails, ``.error`` says
        why, in the picture too, which shows the last call that worked.

    Raises:
        TypeError: ``function`` cannot be called.
        ValueError: An argument has no control, the function takes no such argument or needs another
            one, a tensor has more than 16 numbers or such that no control can hold, or the function
            returned nothing that requires grad.
        Exception: The function raises it in the first call.

    Example::

        >>> from gradwalk import interact
        >>> def neuron(w, x):
        ...     pred = w * x
        ...     return (pred - 1) ** 2
        >>> box = interact(neuron, w=(-5.0, 5.0), x=2.0)
        >>> box.controls["w"].value = 3.0
        >>> box.leaves["w"].grad
        tensor(20.)
        >>> box.widget
        GraphWidget(5 nodes, 4 edges, 2 leaves)
    """
    if not callable(function):
        raise TypeError(
            f"interact() was given {function!r}, of type {type(function).__name__}. Give it the "
            "function to call, and its arguments by name: interact(neuron, w=(-5.0, 5.0))."
        )
    return make(Interact, function, **arguments)


def _is_plain(given: Any) -> bool:
    return isinstance(given, (bool, int, float, ipywidgets.fixed))
