"""Controls for the arguments of a function, by ipywidgets' own rules, and for small tensors."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ipywidgets
import torch
import traitlets
from ipywidgets import interactive

from ...english import nearest
from ...schema.updates import NumberInputModel
from ...torch_api.reading import kind_without_data
from ...widget.controllers import Controller
from ...widget.graph_widget import GraphWidget


class NumberInputs(Controller[GraphWidget]):
    """Pass the numbers that the reader sets to a function."""

    def __init__(
        self, widget: GraphWidget, turned: Callable[[int, tuple[int, ...], float], None]
    ) -> None:
        super().__init__(widget)
        self._turned = turned

    def handle(self, message: dict[str, Any]) -> bool:
        """Set the number of a message."""
        if message.get("kind") != "turn":
            return False
        at = tuple(map(int, message.get("at", ())))
        self._turned(int(message["node"]), at, float(message["value"]))
        return True


MOST_NUMBERS = 16  # a tensor of more has too many controls to be set by hand

_CHOICES = (
    ipywidgets.Dropdown,
    ipywidgets.RadioButtons,
    ipywidgets.Select,
    ipywidgets.SelectionSlider,
    ipywidgets.ToggleButtons,
)
_DIGITS = 8  # of a number that a slider is set to: more than float32 has
_WHOLE = (ipywidgets.IntSlider, ipywidgets.IntText, ipywidgets.BoundedIntText)


class TensorControl(ipywidgets.VBox, ipywidgets.ValueWidget):  # type: ignore[misc]
    """One control for each number of a tensor.

    Attributes:
        value: The numbers, nested like the tensor's dimensions. Set it, or move a control.
        places: The index in the tensor of each control's number.
    """

    value = traitlets.Any()
    description = ""  # interactive() of ipywidgets 7 reads it; each control says its own

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        missing = kind_without_data(tensor)
        if tensor.is_nested or tensor.layout is not torch.strided or missing:
            kind = "nested" if tensor.is_nested else missing or "sparse"
            raise ValueError(
                f"interact() was given {name}, a {kind} tensor, which has no number for each "
                f"control. Give a dense one with values, or {name}=fixed({name}) to leave it as it "
                "is."
            )
        if not 1 <= tensor.numel() <= MOST_NUMBERS or tensor.is_complex():
            kind = "complex numbers" if tensor.is_complex() else "numbers"
            raise ValueError(
                f"interact() was given {name}, a tensor of shape {tuple(tensor.shape)} with "
                f"{tensor.numel():,} {kind}. Controls are made for up to {MOST_NUMBERS} real ones: "
                f"give a smaller tensor, or {name}=fixed({name}) to leave it as it is."
            )
        if not tensor.isfinite().all():
            raise ValueError(
                f"interact() was given {name}={tensor.tolist()}, and no control holds NaN or "
                f"infinity. Give finite numbers, or {name}=fixed({name}) to leave it as it is."
            )
        self.like = tensor.detach().clone()
        numbers = self.like.flatten().tolist()
        self.places = [tuple(map(int, at)) for at in torch.ones(tensor.shape).nonzero()]
        children = []
        for at, number in zip(self.places, numbers, strict=True):
            control = interactive.widget_from_abbrev(float(number))
            control.description = name + (str(list(at)) if at else "")
            children.append(control)
        super().__init__(children=children)
        self.value = self.like.tolist()
        for control in children:
            control.observe(self._moved, names="value")

    def _moved(self, _: Any) -> None:
        numbers = torch.tensor([control.value for control in self.children], dtype=torch.float64)
        self.value = numbers.reshape(self.like.shape).tolist()

    @traitlets.validate("value")
    def _check_value(self, proposal: Any) -> Any:
        numbers = torch.as_tensor(proposal["value"], dtype=torch.float64)
        if numbers.shape != self.like.shape:
            raise ValueError(
                f"The value was given as shape {tuple(numbers.shape)}, and the tensor has shape "
                f"{tuple(self.like.shape)}. Give as many numbers, nested like its dimensions."
            )
        if not numbers.isfinite().all():
            raise ValueError(
                f"The value was given as {numbers.tolist()}, and no control holds NaN or infinity. "
                "Give finite numbers."
            )
        return numbers.tolist()

    @traitlets.observe("value")
    def _follow(self, _: Any) -> None:
        numbers = torch.tensor(self.value, dtype=torch.float64).flatten().tolist()
        with self.hold_trait_notifications():
            for control, number in zip(self.children, numbers, strict=True):
                put(control, number)


def put(control: Any, number: float) -> None:
    """Set a control of one number, and let it reach so far, and so finely.

    A slider in the browser rounds what it is set to and sends that back: a small step of gradient
    descent would be undone.
    """
    if hasattr(control, "max") and number > control.max:
        control.max = number
    if hasattr(control, "min") and number < control.min:
        control.min = number
    if isinstance(control, ipywidgets.FloatSlider) and control.step is not None:
        steps = (number - control.min) / control.step
        if math.isfinite(steps) and not math.isclose(steps, round(steps), abs_tol=1e-9):
            largest = max(abs(control.min), abs(control.max))
            control.step = 10.0 ** (math.floor(math.log10(largest)) - _DIGITS)
    control.value = number


def put_within(control: Any, number: float) -> None:
    """Set a control of one number as far as it reaches."""
    low, high = getattr(control, "min", number), getattr(control, "max", number)
    number = min(max(number, low), high)
    control.value = round(number) if is_whole(control) else number


def number_input(
    node: int, name: str, at: Sequence[int], control: Any, step: float | None = None
) -> NumberInputModel:
    """A number of a leaf that can be set in the picture: how far, and how finely."""
    number = float(control.value)
    reach = max(1.0, abs(number))
    low, high = getattr(control, "min", None), getattr(control, "max", None)
    return {
        "node": node,
        "name": name,
        "at": list(at),
        "min": number - reach if low is None else low,
        "max": number + reach if high is None else high,
        "step": step or getattr(control, "step", None) or (1 if is_whole(control) else 0.1),
    }


def numbers_of(control: Any) -> list[tuple[tuple[int, ...], Any]]:
    """The controls of single numbers, each with which number of the tensor it is."""
    if isinstance(control, TensorControl):
        return list(zip(control.places, control.children, strict=True))
    return [] if control is None else [((), control)]


def is_whole(control: Any) -> bool:
    """Whether a control holds whole numbers alone."""
    return isinstance(control, _WHOLE)


def leaf_of(control: Any, value: Any, dtype: torch.dtype | None = None) -> torch.Tensor | None:
    """The leaf tensor that an argument reaches the function as.

    Returns None for what reaches the function as it is: a bool, a text, a fixed value, a whole
    number that was chosen from a list, as of a number of layers. ``dtype``: the leaf's dtype; None
    for the tensor's own, or torch's default.
    """
    own = torch.get_default_dtype()
    if isinstance(control, TensorControl):
        like = control.like
        own = like.dtype if like.is_floating_point() else own
        return torch.tensor(value, dtype=dtype or own, device=like.device).requires_grad_()
    if isinstance(control, ipywidgets.fixed) or isinstance(value, bool):
        return None
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(control, _CHOICES)):
        return torch.tensor(float(value), dtype=dtype or own).requires_grad_()
    return None


def with_controls(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of interact(), each with what it is set with; and those with a default."""
    takes = _taken_by(function)
    called = getattr(function, "__name__", "the function")
    if takes is not None:
        for name in arguments.keys() - takes.keys():
            raise ValueError(
                f"interact() was given {name}, and {called} takes no such argument. "
                f"{nearest(name, takes) or f'It takes {_names_or_nothing(takes)}.'}"
            )
        for name, default in takes.items():
            if name not in arguments and default is _EMPTY:
                raise ValueError(
                    f"interact() was not given {name}, which {called} needs. Give all that it "
                    f"takes: {_names_or_nothing(takes)}."
                )
    known = takes or {}
    left = {name: default for name, default in known.items() if name not in arguments}
    made = {name: _control(name, given, known.get(name)) for name, given in arguments.items()}
    for name, default in left.items():  # a parameter without a control keeps its default
        made[name] = _made(default, None) or ipywidgets.fixed(default)
    return made


_EMPTY = inspect.Parameter.empty


def _taken_by(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The arguments that a function takes by name, with their defaults; None where it takes any."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have none
        return None
    if any(each.kind is each.VAR_KEYWORD for each in found):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name: each.default for each in found if each.kind in by_name}


def _control(name: str, given: Any, default: Any) -> Any:
    """Return the control of an argument."""
    if isinstance(given, torch.Tensor):
        return TensorControl(name, given)
    if isinstance(given, (int, float)) and not abs(given) <= sys.float_info.max:
        what = f"{name}={given}" if isinstance(given, float) else f"a whole number for {name}"
        raise ValueError(
            f"interact() was given {what}, and no control holds NaN, infinity or a number that no "
            f"float can hold. Give a smaller one, or {name}=fixed(...) to leave it as it is."
        )
    made = _made(given, default)
    if made is None:
        raise ValueError(
            f"interact() was given {name}={given!r}, for which no control exists. Give (min, "
            "max) or (min, max, step) with min below max, a number, a bool, a text, a list or dict "
            f"to choose from, a tensor of up to {MOST_NUMBERS} numbers, a control of ipywidgets, "
            f"or {name}=fixed(...), which stays as it is."
        )
    return made


def _made(given: Any, default: Any) -> Any:
    """A control by ipywidgets' own rules; None where it makes none."""
    if isinstance(given, (ipywidgets.ValueWidget, ipywidgets.fixed)):
        return given
    if isinstance(given, (list, tuple, dict)) and not given:
        return None
    try:
        return interactive.widget_from_abbrev(given, _EMPTY if default is None else default)
    except (ValueError, TypeError, traitlets.TraitError):
        return None


def _names_or_nothing(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
