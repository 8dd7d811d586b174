"""A call of a custom Function that runs again, as a function of real vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import Node

from ...english import join_words
from ...graph.outputs import gone_sentence
from ...torch_api.modes import random_numbers_kept
from ...torch_api.nodes import function_arguments, is_gone, leaf_tensor
from ...torch_api.reading import in_short, kind_without_data
from ...torch_api.saved_tensors import Saved, read_saved
from .jacobian import Precision


def arguments_of(
    node: Node, custom: type[torch.autograd.Function], gave: torch.Tensor | None
) -> list[Any]:
    """Return the arguments of a Function's call, as far as its node knows them.

    An input that needs grad is found by its edge, another by its name on ``ctx``. The remaining
    saved tensors are taken for the remaining arguments if forward then gives the same output.

    ``gave``: an output of the call; None where it is not known.
    """
    if is_gone(node):
        raise ValueError(
            f"check() was given {gone_sentence(node)} Or give all arguments: check(node, x, ...)."
        )
    saved = list(read_saved(node))
    for each in saved:
        if each.note is not None:
            raise ValueError(
                f"{custom.__name__} cannot be checked on what it saved. {each.note} Give all its "
                "arguments instead: check(node, x, ...)."
            )
    needed = list(node.needs_input_grad)  # type: ignore[attr-defined]
    names = argument_names(custom, len(needed))
    edges = iter([edge for edge in node.next_functions if edge[0] is not None])
    found = {i: _input(next(edges, (None, 0)), saved) for i, need in enumerate(needed) if need}
    own, places = vars(node), range(len(needed))
    found |= {i: own[name] for i, name in enumerate(names) if i not in found and name in own}
    left = [i for i in places if i not in found]
    others = _others(node, found.values(), saved)
    known = [gave, *(each.value for each in saved if _is_given_by(node, each.value))]
    if left and len(left) == len(others) and _UNKNOWN not in found.values():
        guessed = {**found, **dict(zip(left, others, strict=True))}
        if _gives(custom, [guessed[i] for i in places], known):
            return [guessed[i] for i in places]
    missing = [names[i] for i in places if found.get(i, _UNKNOWN) is _UNKNOWN]
    if missing:
        raise ValueError(
            f"{custom.__name__} cannot be checked: its node did not save {join_words(missing)}. "
            f"Give all its arguments: check(node, {', '.join(names)})."
        )
    return [found[i] for i in places]


def devices_of(arguments: Iterable[Any]) -> set[torch.device]:
    """Return the devices of the tensors among the arguments."""
    return {each.device for each in arguments if isinstance(each, torch.Tensor)}


def _is_given_by(node: Node, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is node


def _others(node: Node, used: Iterable[Any], saved: Sequence[Saved]) -> list[Any]:
    """The saved values that are neither known arguments nor outputs."""
    ids = {id(each) for each in used}
    rest = (each.value for each in saved if id(each.value) not in ids)
    return [value for value in rest if not _is_given_by(node, value)]


def _gives(
    custom: type[torch.autograd.Function],
    arguments: list[Any],
    known: Sequence[torch.Tensor | None],
) -> bool:
    """Whether forward returns one of its known outputs."""
    apply: Callable[..., Any] = custom.apply
    with random_numbers_kept(devices_of(arguments)), torch.no_grad():
        try:
            given = apply(*_copies(arguments))
        except Exception:  # it was called with something else
            return False
    listed = given if isinstance(given, (tuple, list)) else [given]
    tensors = [each for each in listed if isinstance(each, torch.Tensor)]
    return any(
        torch.allclose(one, other.detach(), equal_nan=True)
        for one, other in itertools.product(tensors, (each for each in known if each is not None))
        if (one.shape, one.dtype) == (other.shape, other.dtype)
    )


_UNKNOWN = object()


def _input(edge: tuple[Node | None, int], saved: Sequence[Saved]) -> Any:
    """The tensor at an edge: a leaf, or the saved tensor."""
    child, output_nr = edge
    leaf = None if child is None else leaf_tensor(child)
    if leaf is not None:
        return leaf
    for each in saved:
        value = each.value
        is_there = isinstance(value, torch.Tensor) and value.grad_fn is child
        if is_there and value.output_nr == output_nr:
            return value
    return _UNKNOWN


def argument_names(custom: type[torch.autograd.Function], count: int) -> list[str]:
    """Return the names of forward's arguments; "input_2" for one without a name."""
    names = function_arguments(custom)
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


ComplexPart = Literal["real", "imaginary"]


class NotCheckableError(Exception):
    """A call that cannot run again; ``is_final`` where another precision would not help."""

    def __init__(self, words: str, *, is_final: bool = False) -> None:
        super().__init__(words)
        self.is_final = is_final


@dataclass(frozen=True)
class TensorElement:
    """One number of a tensor."""

    # The kind of tensor: an input, an output, a gradient, or a sum of outputs.
    kind: Literal["input", "output", "sum"]
    nr: int  # the number of the input or output, from 0
    name: str  # the name of the argument of ``forward``, or "output"
    index: tuple[int, ...]  # the index of the number
    part: ComplexPart | None = None  # for a complex number, which part; None for a real one

    def __str__(self) -> str:
        number = f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name
        return number if self.part is None else f"the {self.part} part of {number}"


class CustomCall:
    """A Function with its arguments, in one precision."""

    def __init__(
        self,
        custom: type[torch.autograd.Function],
        arguments: Sequence[Any],
        needed: Sequence[bool],
        names: list[str],
        precision: Precision,
    ) -> None:
        self.called = custom.__name__
        self.names = names
        self.precision, self.dtype = precision, precision.dtype
        self.is_once_differentiable = _is_once_differentiable(custom)
        self._apply: Callable[..., Any] = custom.apply
        self.arguments = [_in(self.dtype, each) for each in arguments]
        self._strides = list(map(_strides, arguments))
        self.varied = [
            i for i, each in enumerate(self.arguments) if needed[i] and _is_differentiable(each)
        ]

    @property
    def size(self) -> int:
        """The number of real numbers in the inputs."""
        return sum(len(_reals(self.arguments[i])) for i in self.varied)

    @property
    def oddly_laid(self) -> list[int]:
        """The numbers of the inputs that are not contiguous in the call."""
        return [
            i
            for i in self.varied
            if self._strides[i] not in (None, _strides(self.arguments[i].contiguous()))
        ]

    def refuse_what_differs(self) -> None:
        """Run forward twice."""
        if not self.varied:
            raise NotCheckableError(
                "none of its inputs is a tensor of real or complex numbers.", is_final=True
            )
        for i in self.varied:
            _refuse_unreadable(self.arguments[i], "it takes")
        one, other = (self.run()[0] for _ in range(2))
        if any(self.precision.differs(one[nr], other[nr]).any() for nr in one):
            raise NotCheckableError(
                "called twice with the same inputs, its forward gives two different outputs.",
                is_final=True,
            )

    def run(
        self, given: dict[int, torch.Tensor] | None = None, *, laid: bool = False
    ) -> tuple[dict[int, torch.Tensor], list[torch.Tensor]]:
        """Run forward on inputs by number; None for leaves with the numbers of the call.

        ``laid``: give such leaves the layout of the call; else they are contiguous.
        """
        leaves = [self.arguments[i].contiguous().clone().requires_grad_() for i in self.varied]
        # forward may work in place, which no leaf allows
        taken = given or {
            i: _laid(leaf, self._strides[i]) if laid else leaf.clone()
            for i, leaf in zip(self.varied, leaves, strict=True)
        }
        try:
            with random_numbers_kept(devices_of(self.arguments)):  # the same each time
                found = self._apply(
                    *(taken.get(i, each) for i, each in enumerate(_copies(self.arguments)))
                )
        except Exception as error:  # a user's forward may raise anything
            raise NotCheckableError(
                f"in {_called(self.dtype)} its forward raised {in_short(error)}. If it was called "
                "with other arguments, give all of them: check(node, x, ...)."
            ) from error
        listed = enumerate(found if isinstance(found, (tuple, list)) else [found])
        outputs = {nr: t for nr, t in listed if isinstance(t, torch.Tensor) and t.requires_grad}
        wanted = self.dtype, self.dtype.to_complex()
        other = [each.dtype for each in outputs.values() if each.dtype not in wanted]
        if other or not outputs:
            gives = str(other[0]) if other else "nothing that requires grad"
            words = f"its forward gives {gives} for inputs in {_called(self.dtype)}."
            raise NotCheckableError(words)
        for each in outputs.values():
            _refuse_unreadable(each, "its forward gives")
        return outputs, leaves

    def randn_like(self, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw a contiguous tensor on the CPU, so that it is the same on each device."""
        drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        return drawn.to(tensor.device)

    def vectors(self, most: int) -> Vectors:
        """Return the call as a function of at most so many numbers of each input."""
        return Vectors(self, most)


class Vectors:
    """A call as a function of real vectors, some numbers of each input.

    Attributes:
        inputs: The vectors, one per input that is differentiated.
        places: The places of their numbers.
    """

    def __init__(self, call: CustomCall, most: int) -> None:
        self._call, self._most = call, most
        given = [call.arguments[i] for i in call.varied]
        self._entries = [_spread(len(_reals(each)), most) for each in given]
        self.inputs = [
            _reals(each)[entries.to(each.device)].clone().requires_grad_()
            for each, entries in zip(given, self._entries, strict=True)
        ]
        self.places = [
            [_place("input", i, call.names[i], at, call.arguments[i]) for at in entries.tolist()]
            for i, entries in zip(call.varied, self._entries, strict=True)
        ]
        self._outputs: dict[int, torch.Tensor] = {}

    def forward(self, *vectors: torch.Tensor) -> list[torch.Tensor]:
        """The outputs as real vectors: some numbers of each, and a sum of all of a large one."""
        given = {}
        for i, entries, vector in zip(self._call.varied, self._entries, vectors, strict=True):
            whole = self._call.arguments[i]
            moved = _reals(whole).index_copy(0, entries.to(whole.device), vector)
            if whole.is_complex():
                moved = torch.view_as_complex(moved.reshape(*whole.shape, 2))
            given[i] = _dense(moved.reshape(whole.shape))
        self._outputs, _ = self._call.run(given)
        return [self._sampled(each) for each in self._outputs.values()]

    def _sampled(self, output: torch.Tensor) -> torch.Tensor:
        flat = _reals(output)
        if len(flat) <= self._most:
            return flat
        weights = torch.linspace(-1, 2, len(flat), dtype=flat.dtype, device=flat.device).cos()
        rows = _spread(len(flat), self._most).to(flat.device)
        return torch.cat([flat[rows], (flat * weights).sum().reshape(1)])

    def output_places(self, name: str = "output") -> list[list[TensorElement]]:
        """The places of the numbers of each output of the last call."""
        found = []
        for nr, output in self._outputs.items():
            called = name if nr == 0 else f"{name} {nr}"
            count = len(_reals(output))
            rows = _spread(count, self._most).tolist()
            places = [_place("output", nr, called, row, output) for row in rows]
            if count > self._most:
                places.append(TensorElement("sum", nr, f"a weighted sum of {called}", ()))
            found.append(places)
        return found

    def backward(self, *every: torch.Tensor) -> list[torch.Tensor]:
        """The gradients of the vectors, with a graph."""
        taken = [each if each.requires_grad else each.detach().requires_grad_() for each in every]
        vectors, grads = taken[: len(self.inputs)], taken[len(self.inputs) :]
        both = {"create_graph": True, "materialize_grads": True}
        return list(torch.autograd.grad(self.forward(*vectors), vectors, grads, **both))


class _Dense(torch.autograd.Function):
    """The identity, whose gradient is dense: a backward may return a sparse one."""

    @staticmethod
    def forward(_: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.to_dense()


_dense: Callable[[torch.Tensor], torch.Tensor] = _Dense.apply


class _Laid(torch.autograd.Function):
    """A copy in another layout. Each number has a gradient of its own, also an expanded one."""

    @staticmethod
    def forward(_: Any, tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
        if strides is None:
            return tensor.clone()
        once = tensor
        for dim, (size, stride) in enumerate(zip(tensor.shape, strides, strict=True)):
            if size > 1 and stride == 0:  # expanded: all its numbers are one
                once = once.narrow(dim, 0, 1)
        copy = torch.empty_strided(once.shape, strides, dtype=tensor.dtype, device=tensor.device)
        return copy.copy_(once).expand(tensor.shape)

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


_laid: Callable[[torch.Tensor, tuple[int, ...] | None], torch.Tensor] = _Laid.apply


def _is_once_differentiable(custom: type[torch.autograd.Function]) -> bool:
    method: Any = custom.backward
    while method is not None:
        if getattr(method, "__code__", None) is _ONCE:
            return True
        method = getattr(method, "__wrapped__", None)
    return False


# torch gives such gradients a node that raises, but autograd.grad() does not run it.
_ONCE = once_differentiable(lambda _: None).__code__


def _place(
    kind: Literal["input", "output"], nr: int, name: str, at: int, tensor: torch.Tensor
) -> TensorElement:
    part: ComplexPart | None = None
    if tensor.is_complex():
        at, second = divmod(at, 2)
        part = "imaginary" if second else "real"
    index = []
    for size in reversed(tensor.shape):
        at, one = divmod(at, size)
        index.append(one)
    return TensorElement(kind, nr, name, tuple(reversed(index)), part)


def _spread(count: int, most: int) -> torch.Tensor:
    """At most so many of ``count`` numbers, spread evenly."""
    few = min(count, most)
    return torch.tensor([at * count // few for at in range(few)], dtype=torch.long)


def _reals(tensor: torch.Tensor) -> torch.Tensor:
    """All numbers in a row; a complex one as its two parts."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1)


def _in(dtype: torch.dtype, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().clone()
    if value.is_complex():
        return value.resolve_conj().to(dtype.to_complex())
    return value.to(dtype) if value.is_floating_point() else value


def _strides(value: Any) -> tuple[int, ...] | None:
    """The strides of a tensor that has some; None for another value."""
    is_strided = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return value.stride() if is_strided and not value.is_nested else None


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]


def _called(dtype: torch.dtype) -> str:
    return "double precision" if dtype == torch.float64 else "single precision"


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _refuse_unreadable(value: torch.Tensor, what: str) -> None:
    """Refuse a tensor without numbers that can be changed and read one by one."""
    kind = kind_without_data(value)
    if kind is not None:
        raise NotCheckableError(
            f"{what} a {kind} tensor, which has no numbers. Give a real one.", is_final=True
        )
    if value.layout != torch.strided or value.is_nested:
        layout = "a nested tensor" if value.is_nested else f"a tensor of layout {value.layout}"
        raise NotCheckableError(
            f"{what} {layout}, and finite differences need torch.strided.", is_final=True
        )
