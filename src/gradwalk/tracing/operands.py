"""List the tensors that enter and leave a call, and say how one loses its gradient."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch

from . import weak_id_dict
from .call_log import READS
from .cuts import Origin
from .double_backward import differentiates

Operand = tuple[int | str, Any]  # position in the call, and the tensor, number or array

# Longer lists are data, as in torch.tensor([...]).
_MOST_ITEMS = 10_000
_MOST_NESTED = 64  # numbers of nested lists whose origin is looked up

DERIVATIVE = "derivative"  # the name for `how_cut` of a call that gave derivatives without a graph

COLLECTIVES = frozenset(
    {"all_gather", "all_gather_into_tensor", "all_gather_single", "all_to_all"}
    | {"all_to_all_single", "reduce_scatter", "reduce_scatter_tensor"}
)
"""Functions of torch.distributed that write into their first argument, without a graph."""
NO_DERIVATIVE = "no derivative"
"""`Cut.how` of a differentiable call that gave a result without gradient."""

DETACH = frozenset({"detach", "detach_", "detach_copy"})
TO_PYTHON = frozenset(
    {"item", "tolist", "numpy", "__array__", "__float__", "__int__", "__index__", "__complex__"}
)
SET_GRAD = frozenset({"_set_grad_enabled", "set_grad_enabled"})
_OF_INTEREST = SET_GRAD | COLLECTIVES | TO_PYTHON | READS  # also calls that give no tensor
PLAIN_RESULTS = frozenset({bool, int, str, type(None), torch.Size, torch.dtype, torch.device})
"""Types of results without tensors, as ``x.dim()`` and ``x.shape`` give."""
_NO_CHANGE = frozenset({"__init__", "__int__", "__index__", "__invert__", "__iter__"})
_COPIES = frozenset({"tensor", "new_tensor", "asarray", "as_tensor"})
_CASTS = frozenset({"long", "int", "short", "byte", "char", "bool", "to", "type", "type_as"})
# Their other operands give a type or a shape only.
_FOR_SHAPE = frozenset(
    {"to", "type_as", "expand_as", "view_as", "reshape_as", "broadcast_tensors", "meshgrid"}
)
# Their results do not depend on the operands' values, or are not forward results.
_NOT_VALUES = frozenset({"grad", "_grad", "_base", "backward", "requires_grad_", "_nested_size"})

_PLAIN_NUMBERS = (int, float, complex)  # compared by type: bool does not count
_WORDS = ("add", "sub", "mul", "div", "subtract", "multiply", "divide", "true_divide", "truediv")
_TURNED = ("radd", "rsub", "rmul", "rdiv", "rtruediv", "iadd", "isub", "imul", "idiv", "itruediv")
_ARITHMETIC = frozenset(
    form for word in (*_WORDS, *_TURNED) for form in (word, f"{word}_", f"__{word}__")
)


def function_name(function: Any) -> str:
    """Return the bare name of a function; the property's name for a property getter."""
    name: str = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(function.__self__, "__name__", name)
    return name


class CallKind(NamedTuple):
    """The facts that all calls of a function share."""

    name: str  # see `function_name`
    changes_first: bool  # whether its name says that it changes its first argument
    scales_rows: bool  # whether it scales the rows of its weight that it reads, given ``max_norm``
    inplace_at: int | None  # the position of its parameter ``inplace``, if it has one
    calculates: bool  # whether it calculates with plain numbers
    may_change: bool  # whether a call without keywords may change an operand
    takes_numbers: bool  # whether `literal` may find a number in a call
    differentiates: bool  # whether it computes derivatives
    # Whether nothing is recorded of a call that has no keywords and gives no tensor.
    only_asks: bool
    runs_backward: bool
    # Whether it changes an operand only if it returns that, and computes no derivatives.
    is_plain: bool
    draws: bool  # whether it draws random numbers


_BACKWARD = frozenset({torch.Tensor.backward, torch.autograd.backward})


@functools.lru_cache(1024)
def call_kind(function: Any) -> CallKind:
    """Describe a function of torch."""
    name = function_name(function)
    changes_first, place = _changes_first(name), _place_of_inplace(function)
    scales_rows = name in ("embedding", "embedding_bag")
    changes = changes_first or scales_rows or place is not None
    calculates = name in _ARITHMETIC
    return CallKind(
        name=name,
        changes_first=changes_first,
        scales_rows=scales_rows,
        inplace_at=place,
        calculates=calculates,
        may_change=changes,
        takes_numbers=calculates or name == "__setitem__",
        differentiates=differentiates(function),
        runs_backward=function in _BACKWARD,
        is_plain=not (changes_first or scales_rows or differentiates(function)),
        only_asks=not (changes or differentiates(function) or name in _OF_INTEREST),
        draws=name in _RANDOM or name in _MORE_RANDOM,
    )


def may_change(keywords: Mapping[str, Any]) -> bool:
    """Return whether some keywords may let a call change an operand."""
    return "out" in keywords or keywords.get("inplace") is True


def depends_on_values(name: str) -> bool:
    """Return whether a result depends on the operands' values, not on their shapes alone."""
    if name.endswith("_like") or name in _NOT_VALUES:
        return False
    return name == "new_tensor" or not name.startswith("new_")


NEVER_OPERANDS = frozenset({int, bool, str, torch.dtype, torch.device, type(None)})


def operands(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Operand]:
    """Return every tensor, float and array among a call's arguments, also those in lists."""
    found: list[Operand] = []
    places: Iterable[Operand] = enumerate(arguments)
    for group in (places, keywords.items()) if keywords else (places,):
        for place in group:
            position, value = place
            if isinstance(value, torch.Tensor):
                found.append(place)
            elif type(value) in NEVER_OPERANDS:
                continue
            elif type(value) in (list, tuple):
                if len(value) <= _MOST_ITEMS:
                    found += [
                        (f"{position}[{i}]", item)
                        for i, item in enumerate(value)
                        if isinstance(item, (torch.Tensor, float))
                    ]
                    if value and type(value[0]) is list:
                        found += [(position, n) for n in numbers_in(value, _MOST_NESTED)]
            elif not isinstance(value, tuple(NEVER_OPERANDS)):
                found.append(place)
    return found


def literal(
    kind: CallKind, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Operand | None:
    """Return the position and value of a plain number that is calculated with or assigned."""
    if not kind.calculates:
        is_assigned = kind.name == "__setitem__" and type(arguments[2]) in _PLAIN_NUMBERS
        return (2, arguments[2]) if is_assigned else None
    for at, value in enumerate(arguments[:2]):
        if type(value) in _PLAIN_NUMBERS:
            return at, value
    other = keywords.get("other") if keywords else None
    return ("other", other) if type(other) in _PLAIN_NUMBERS else None


def index_text(index: Any) -> str | None:
    """Return an index as Python writes it, "0, 1:3"; None for one with tensors or lists."""
    parts = [_place_text(part) for part in (index if type(index) is tuple else (index,))]
    known = [part for part in parts if part is not None]
    return ", ".join(known) if len(known) == len(parts) else None


def _place_text(part: Any) -> str | None:
    if part is Ellipsis:
        return "..."
    if part is None or type(part) is int:
        return str(part)
    if type(part) is not slice:
        return None
    ends = [part.start, part.stop, part.step]
    if not all(end is None or type(end) is int for end in ends):
        return None
    start, stop, step = ("" if end is None else str(end) for end in ends)
    return f"{start}:{stop}" + (f":{step}" if step else "")


def numbers_in(value: Any, most: int) -> list[Any]:
    """Return the first floating point and complex numbers in a number or nested lists."""
    return list(islice(_numbers_in(value), most))


def _numbers_in(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (float, complex)):
            yield each
        elif type(each) is list:
            waiting += reversed(each[:_MOST_ITEMS])


def _changes_first(name: str) -> bool:
    """Return whether a function of this name changes its first argument."""
    if name.endswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in _NO_CHANGE)
    return name.endswith("_") and name not in ("requires_grad_", "detach_")


def changed_by(
    kind: CallKind, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Sequence[Any]:
    """Return the operands that a call visibly changed in place.

    Example:
        >>> x = torch.zeros(2)
        >>> changed_by(call_kind(torch.nn.functional.relu), (x,), {"inplace": True})
        (tensor([0., 0.]),)
    """
    if kind.changes_first:
        return arguments[:1]
    if keywords and (keywords.get("inplace") is True or "out" in keywords):
        return arguments[:1] if "out" not in keywords else (keywords["out"],)
    if kind.scales_rows and keywords.get("max_norm", next(iter(arguments[3:4]), None)) is not None:
        return arguments[1:2]
    place = kind.inplace_at
    return arguments[:1] if place is not None and arguments[place:][:1] == (True,) else ()


def _place_of_inplace(function: Any) -> int | None:
    """Return the position of the ``inplace`` parameter of a `torch.nn.functional` function."""
    if getattr(function, "__module__", None) != torch.nn.functional.__name__:
        return None
    try:
        names = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return names.index("inplace") if "inplace" in names else None


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Return the tensors that a call returned."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in tensors_of(item)]
    return []


_RANDOM = frozenset({"bernoulli", "bernoulli_", "dropout", "rand", "rand_like", "uniform_"})
_MORE_RANDOM = frozenset(
    {"alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"}
    | {
        "gumbel_softmax",
        "multinomial",
        "normal",
        "normal_",
        "poisson",
        "rand_int_like",
        "randint_like",
    }
    | {"randn_like", "random_", "rrelu", "scaled_dot_product_attention", "exponential_"}
    | {"multi_head_attention_forward"}
)


def is_random(name: str) -> bool:
    """Return whether a function draws random numbers, as for a mask."""
    return name in _RANDOM


def how_cut(name: str, output: torch.Tensor) -> str | None:
    """Return how a call lost the gradient of an operand; None if no gradient could be expected."""
    if name in DETACH:
        return "detach"
    if name == "data":
        return "data"
    if name == DERIVATIVE:
        return name
    if name in _COPIES:
        return "copy"
    if not (output.is_floating_point() or output.is_complex()):
        return "integer cast" if name in _CASTS else "integer result"
    if torch.is_inference_mode_enabled():
        return "inference_mode"
    if not torch.is_grad_enabled():
        return "no_grad"
    return None if output.requires_grad or name in _FOR_SHAPE else NO_DERIVATIVE


def how_read(name: str) -> str:
    """Return how a call read a tensor's values out of torch."""
    if name in ("numpy", "__array__"):
        return "numpy"
    return "integer cast" if name in ("__int__", "__index__") else "item"


_MOST_NUMBERS = 64


class ReadOut:
    """The values that one thread read out of tensors, and their origins."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[Any, Origin]] = {}  # by id; held, so the id stays theirs
        self._arrays: dict[int, weakref.ref[Any]] = {}  # by the address of their memory

    @property
    def has_numbers(self) -> bool:
        """Whether Python numbers were read out."""
        return bool(self._numbers)

    def note(self, source: torch.Tensor, result: Any, origin: Origin) -> None:
        """Record an array or the latest Python numbers that hold a tensor's values."""
        if isinstance(result, (float, complex, list)):
            numbers = numbers_in(result, _MOST_NUMBERS)
            self._numbers |= {id(n): (n, origin) for n in numbers}
            for oldest in list(self._numbers)[:-_MOST_NUMBERS]:
                del self._numbers[oldest]
        elif not isinstance(result, int):
            weak_id_dict.put(result, origin)
            self._arrays[source.data_ptr()] = weakref.ref(result)

    def origin(self, value: Any) -> Origin | None:
        """Return the origin of an operand that was read out, or of a tensor that shares it."""
        if isinstance(value, torch.Tensor):
            array = self._arrays.get(value.data_ptr()) if self._arrays else None
            value = array() if array else None
        elif isinstance(value, (float, complex)):
            found = self._numbers.get(id(value))
            return found[1] if found else None
        noted = weak_id_dict.get(value) if value is not None else None
        return noted if isinstance(noted, Origin) else None
