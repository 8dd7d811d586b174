"""Repeat small operations of the graphs of derivatives, whose results torch did not keep.

`watch` does not see the operations inside backward. One is repeated only if its result is the same
to the last bit however the numbers lie in memory: it moves numbers, rounds each once, or gives a
single number from single numbers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from types import NoneType
from typing import Any

import torch

from ..graph.capture import as_text
from ..schema.values import Values
from ..torch_api.dtensors import PLAIN
from ..torch_api.nodes import input_names, knows_saved, leaf_tensor, op_name, saved_tensors
from ..torch_api.reading import dtype_of
from ..torch_api.saved_tensors import plain_value, read_saved, signed
from ..torch_api.summary import plain_values, tensor_of
from .annotate import Annotated
from .records import MOST_COPIED

_MOST_OPERATIONS = 2_000  # of a graph in which each number may be read
_DIGITS = {"torch.float32": 24, "torch.float64": 53}  # binary digits of the numbers of a dtype


def repeated_values(
    captured: Annotated, known: Mapping[int, Values], unsure: Collection[int]
) -> dict[int, Values]:
    """Return results that follow from ``known`` values, if part of a small graph ran in backward.

    ``unsure``: the nodes whose values may have changed. If an operation does not give the result
    that is known of it, the program did more than the graph shows, and nothing is returned.
    """
    found: dict[int, Values] = {}
    # The graph is read for the others only.
    if not captured.in_backward or not knows_saved():
        return found
    if len(captured.operations) > _MOST_OPERATIONS:
        return found
    for node in captured.operations:
        values = None
        with contextlib.suppress(Exception):  # torch may refuse any operation
            result = _repeat(captured, node, lambda i: known.get(i, found.get(i)), unsure)
            values = None if result is None else plain_values(result)
        if values is not None and repr(values) != repr(known.get(node, values)):
            return {}
        if values is not None:
            found[node] = values
    return {node: values for node, values in found.items() if node not in known}


def _repeat(
    captured: Annotated,
    node: int,
    value: Callable[[int], Values | None],
    unsure: Collection[int],
) -> torch.Tensor | None:
    data, behind = captured.attributes[node], captured.nodes[node]
    repeat = _REPEATED.get(op_name(behind))
    if repeat is None or not _is_simple(data):
        return None
    given = list(_operands(captured, node, value, unsure))
    if any(operand is None for operand in given):
        return None
    call = _Call(behind, data["shape"], _is_new_row(captured, node))
    result = repeat(call, *given)
    if result is None:
        return None
    is_it = (tuple(result.shape), as_text(result.dtype)) == (data["shape"], data["dtype"])
    return result if is_it else None


def _as_taken(saved: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return a constant operand; a Python number is saved in a wider dtype than it is used in."""
    is_number = saved.dim() == 0 and saved.is_floating_point()
    return saved.detach().to(dtype_of(dtype)) if is_number else saved.detach()


def _is_new_row(captured: Annotated, node: int) -> bool:
    """Whether an operation inside backward made its only input, whose numbers so lie in a row."""
    children = list(captured.successors[node])
    return (
        len(children) == 1
        and children[0] in captured.in_backward
        and len(captured.attributes[children[0]]["shape"] or (0, 0)) == 1
        and op_name(captured.nodes[children[0]]) in _MAKE_ROWS
    )


def _is_simple(data: Mapping[str, Any]) -> bool:
    return (
        data["dtype"] in _DIGITS
        and data["device"] == "cpu"
        and data["shape"] is not None
        and math.prod(data["shape"]) <= MOST_COPIED
    )


def _operands(
    captured: Annotated,
    node: int,
    value: Callable[[int], Values | None],
    unsure: Collection[int],
) -> Iterator[torch.Tensor | None]:
    """Yield the operands of a node; None for each that is unknown."""
    behind = captured.nodes[node]
    names = saved_tensors(type(behind))
    kept = {saved.name: saved for saved in read_saved(behind, names)} if names else {}
    children = {
        edge["arg_nr"]: child
        for child, between in captured.successors[node].items()
        for edge in between.values()
    }
    for nr, name in enumerate(input_names(behind, behind.next_functions)):
        saved = kept.get(str(name))
        own = saved.value if saved and type(saved.value) in PLAIN and not saved.changed else None
        child = children.get(nr)
        known = None if child is None or child in unsure else value(child)
        if child is None:
            yield own if own is None else _as_taken(own, captured.attributes[node]["dtype"])
        elif known is None or type(leaf_tensor(captured.nodes[child])) not in (*PLAIN, NoneType):
            yield None
        elif own is not None and repr(plain_values(own)) != repr(known):
            yield None  # changed in a way that torch does not count
        else:
            data = captured.attributes[child]
            yield tensor_of(known, data["dtype"], data["shape"])


class _Call:
    """A call to repeat: what its node saved besides tensors, and the shape of its result."""

    def __init__(self, node: Any, shape: tuple[int, ...], takes_row: bool) -> None:
        self._node = node
        self.shape = shape
        self.takes_row = takes_row  # whether it takes one row of numbers next to each other

    def __getattr__(self, name: str) -> Any:
        found = plain_value(self._node, name)
        return tuple(map(signed, found)) if isinstance(found, tuple) else signed(found)


_Repeat = Callable[..., torch.Tensor | None]
_aten = torch.ops.aten


def _add(call: _Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    return a + b if call.alpha == 1 else None  # else it may round twice


def _sub(call: _Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    return a - b if call.alpha == 1 else None


def _pow(call: _Call, a: torch.Tensor) -> torch.Tensor | None:
    exponent = call.exponent
    return a**exponent if a.numel() == 1 or exponent in (0, 1, 2, 3) else None


def _sum(call: _Call, a: torch.Tensor) -> torch.Tensor | None:
    return a.sum() if call.takes_row or _adds_exactly(a) else None


def _sum_along(call: _Call, a: torch.Tensor) -> torch.Tensor | None:
    is_sure = call.takes_row or _adds_exactly(a)
    return a.sum(call.dim, keepdim=call.keepdim) if is_sure else None


def _adds_exactly(a: torch.Tensor) -> bool:
    """Whether a sum of some of the numbers is the same in any order."""
    if a.numel() <= 2:
        return True
    ratios = [number.as_integer_ratio() for number in a.flatten().tolist()]
    parts = max(below for _, below in ratios)  # all are powers of two
    total: int = sum(abs(above) * (parts // below) for above, below in ratios)
    return total >> _DIGITS[as_text(a.dtype)] == 0


def _single(of: Callable[..., torch.Tensor]) -> _Repeat:
    """Repeat a function whose rounding depends on how several numbers lie in memory."""

    def repeat(_: _Call, *given: torch.Tensor) -> torch.Tensor | None:
        return of(*given) if all(operand.numel() == 1 for operand in given) else None

    return repeat


def _reshaped(call: _Call, a: torch.Tensor) -> torch.Tensor:
    return a.reshape(call.shape)


_MAKE_ROWS = frozenset(
    {
        "AddBackward0",
        "SubBackward0",
        "MulBackward0",
        "MulBackward1",
        "DivBackward0",
        "DivBackward1",
        "NegBackward0",
        "PowBackward0",
    }
)
"""Operations whose result is new memory."""

_REPEATED: dict[str, _Repeat] = {
    "AddBackward0": _add,
    "SubBackward0": _sub,
    "MulBackward0": lambda _, a, b: a * b,
    "MulBackward1": lambda call, a: a * call.other,
    "DivBackward0": lambda _, a, b: a / b,
    "DivBackward1": lambda call, a: a / call.other,
    "NegBackward0": lambda _, a: -a,
    "PowBackward0": _pow,
    "SumBackward0": _sum,
    "SumBackward1": _sum_along,
    "CloneBackward0": lambda _, a: a,
    "ExpandBackward0": lambda call, a: a.expand(call.shape),
    "TBackward0": lambda _, a: a.t(),
    "TransposeBackward0": lambda call, a: a.transpose(call.dim0, call.dim1),
    "PermuteBackward0": lambda call, a: a.permute(call.dims),
    "SelectBackward0": lambda call, a: a.select(call.dim, call.index),
    "SelectBackwardBackward0": lambda call, a: _aten.select_backward(
        a, call.shape, call.dim, call.index
    ),
    "SliceBackwardBackward0": lambda call, a: _aten.slice_backward(
        a, call.shape, call.dim, call.start, call.end, call.step
    ),
    "ThresholdBackwardBackward0": lambda call, grad, a: _aten.threshold_backward(
        grad, a, call.threshold
    ),
    "SgnBackward0": lambda _, a: a.sgn(),
    "ExpBackward0": _single(torch.exp),
    "LogBackward0": _single(torch.log),
    "SinBackward0": _single(torch.sin),
    "CosBackward0": _single(torch.cos),
    "TanhBackward0": _single(torch.tanh),
    "SigmoidBackward0": _single(torch.sigmoid),
    "TanhBackwardBackward0": _single(_aten.tanh_backward),
    "SigmoidBackwardBackward0": _single(_aten.sigmoid_backward),
    **dict.fromkeys(
        (
            "ViewBackward0",
            "ReshapeAliasBackward0",
            "UnsafeViewBackward0",
            "UnsqueezeBackward0",
            "SqueezeBackward0",
            "SqueezeBackward1",
            "SqueezeBackward2",
        ),
        _reshaped,
    ),
}
