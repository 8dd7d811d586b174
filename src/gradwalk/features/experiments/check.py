"""`check`: the backward of a custom Function beside finite differences of its forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ...backward.recorded_pass import refuse_within_backward
from ...english import plural
from ...torch_api.modes import grad_mode_kept, random_numbers_kept, unseen
from ...torch_api.nodes import custom_function, is_of_torch, op_name
from ...torch_api.reading import first_line, kind_without_data
from .arguments import argument_names, arguments_of, devices_of
from .differences import EXACT, STEP, in_double, rounding
from .real_entries import WrongDerivative, count_of, place_of, reals

MOST_ENTRIES = 200
"""Numbers of each input that are changed, spread evenly over it; a complex one counts as two."""

_SEED = 7_305_941_862
"""Of the weights: none that programs use, whose inputs would be the very numbers of the weights."""

MOST_TOLD = 10
_MOST_ROWS = 64  # numbers of an output among which the one that is wrong is looked for


@dataclass(frozen=True)
class Check:
    """What `check` found.

    Attributes:
        agrees: Whether backward is the derivative of forward, at every entry that was tried.
        wrong: Entries that are wrong, at most ten, the worst first.
        sentence: The same in words; where backward could not be used at all, why.
    """

    agrees: bool
    wrong: tuple[WrongDerivative, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@grad_mode_kept
def check(node: Node | torch.Tensor, *inputs: Any) -> Check:
    """Compare the backward of a custom ``autograd.Function`` with finite differences, in double.

    Its forward and its backward run again, on what the node saved, as double precision: twice for
    each number of its inputs, of large ones for 200 of them. No ``.grad`` changes, and the random
    state is as before.

    A complex number counts as two real ones, as in ``torch.autograd.gradcheck``: the gradient that
    torch wants of a backward has the derivative by the real part as its real part, and that by the
    imaginary part as its imaginary one.

    Args:
        node: The node of the Function, ``y.grad_fn``; or the tensor that it gave.
        *inputs: What ``apply`` was called with, where the node does not know it any more: all
            arguments, in order.

    Returns:
        What was found.

    Raises:
        TypeError: ``node`` is no node of a custom Function.
        ValueError: Its inputs are not known or are no plain tensors, or it cannot compute in double
            precision, does not give the same each time, or gives only NaN or infinities around.

    Example::

        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**2
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return -2 * x * grad
        >>> x = torch.tensor([3.0], requires_grad=True)
        >>> print(check(Square.apply(x).grad_fn))
        Square.backward is wrong: the derivative of output[0] by x[0] is 6, and backward says -6.
    """
    refuse_within_backward("Checking a backward")
    behind = node.grad_fn if isinstance(node, torch.Tensor) else node
    custom = custom_function(behind) if isinstance(behind, Node) else None
    if behind is None or custom is None or is_of_torch(custom):
        what = type(node).__name__ if not isinstance(behind, Node) else op_name(behind)
        raise TypeError(
            f"check() was given {what}, which is no node of a custom autograd.Function. Give the "
            "grad_fn of what your Function returned, such as check(y.grad_fn)."
        )
    with unseen(), torch.inference_mode(False), torch.enable_grad():
        gave = node if isinstance(node, torch.Tensor) else None
        arguments = list(inputs) if inputs else arguments_of(behind, custom, gave)
        with in_double():
            return _Checked(behind, custom, arguments).check()


@dataclass(frozen=True)
class _Output:
    """An output that is looked at: which, what it is, with what weights, and made of which leaves.

    One gradient, of random weights, says of every input at once whether it is right. Weights are
    real, one for each of `reals`.
    """

    nr: int
    given: torch.Tensor
    weights: torch.Tensor
    leaves: dict[int, torch.Tensor]

    def weighted(self, value: torch.Tensor) -> torch.Tensor:
        """As many real numbers, weighted; 0 where the output is not finite."""
        return (value * self.weights).where(self.weights != 0, 0)


class _NotFiniteError(Exception):
    """A finite difference is NaN or infinite, which says nothing of backward."""


class _Checked:
    """A Function with arguments in double precision."""

    def __init__(
        self, node: Any, custom: type[torch.autograd.Function], arguments: Sequence[Any]
    ) -> None:
        self.called = custom.__name__
        self._apply: Callable[..., Any] = custom.apply
        self._devices = devices_of(arguments)
        needed = list(node.needs_input_grad)
        self._names = argument_names(custom, len(needed))
        if len(arguments) != len(needed):
            raise ValueError(
                f"check() was given {len(arguments)} arguments for {self.called}, which was called "
                f"with {len(needed)}. Give all of them: check(node, {', '.join(self._names)})."
            )
        self._arguments = [_in_double(each) for each in arguments]
        self._varied = [
            i for i, each in enumerate(self._arguments) if needed[i] and _is_varied(each)
        ]
        for i in self._varied:
            _refuse_unreadable(self._arguments[i], f"{self.called} cannot be checked: it takes")
        if not self._varied:
            raise ValueError(
                f"{self.called} cannot be checked: none of its inputs is a tensor of real or "
                "complex numbers."
            )

    def check(self) -> Check:
        leaves = {i: self._arguments[i].requires_grad_() for i in self._varied}
        outputs = self._outputs(leaves)
        self._refuse_what_differs(outputs)
        wrong: list[WrongDerivative] = []
        generator = torch.Generator().manual_seed(_SEED)
        tried = untold = 0
        for nr, output in outputs.items():
            here = reals(output.detach())
            weights = torch.randn(here.shape, generator=generator).to(output.device)
            weights = weights.where(here.isfinite(), 0)  # of NaN there is no difference
            try:
                with random_numbers_kept(self._devices):
                    grads, again = (self._vjp(output, leaves, weights) for _ in range(2))
            except Exception as error:  # whatever somebody's backward raises
                return Check(False, (), self._why_raised(error))
            if not all(_is_same(grads[i], again[i]) for i in leaves):
                return Check(
                    False,
                    (),
                    f"{self.called}.backward is wrong: called twice with the same gradient it "
                    "gave two different ones, as one does that changes what it saved, in place, or "
                    "draws random numbers.",
                )
            for i, entry in self._entries():
                of = _Output(nr, output, weights, leaves)
                try:
                    found = self._compare(of, grads[i], i, entry)
                except _NotFiniteError:
                    untold += 1
                    continue
                tried += 1
                if found is not None:
                    wrong.append(found)
        if untold and not tried:
            raise ValueError(
                f"{self.called} cannot be checked: with these inputs every finite difference is "
                "NaN or infinite. Give others: check(node, x, ...)."
            )
        wrong.sort(key=lambda each: -_how_far(each.gradient, each.difference))
        if not wrong:
            more = f"; of {untold:,} more there is none that is finite" if untold else ""
            return Check(True, (), f"{self.called}.backward agrees: {self._tried(tried)}{more}.")
        rest = f", and so on: {len(wrong):,} of {tried:,} are wrong" if len(wrong) > 1 else ""
        sentence = f"{self.called}.backward is wrong: {wrong[0]}{rest}."
        return Check(False, tuple(wrong[:MOST_TOLD]), sentence)

    def _tried(self, count: int) -> str:
        size = sum(count_of(self._arguments[i]) for i in self._varied)
        few = "" if size <= count else f", of {size:,}"
        return f"{plural(count, 'gradient')}{few} beside finite differences of its forward"

    def _outputs(self, leaves: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """The outputs that a gradient can come from, by number."""
        # Copies: forward may work in place, which no leaf allows.
        arguments = [
            leaves[i].clone() if i in leaves else each for i, each in enumerate(self._arguments)
        ]
        try:
            with random_numbers_kept(self._devices):  # the same each time
                given = self._apply(*arguments)
        except Exception as error:
            raise ValueError(
                f"{self.called} cannot be checked: in double precision its forward raised "
                f"{type(error).__name__}: {first_line(error).rstrip('.')}. Finite differences need "
                "it. If it was called with something else, give all arguments: check(node, x, ...)."
            ) from error
        listed = list(given) if isinstance(given, (tuple, list)) else [given]
        found = {
            nr: each
            for nr, each in enumerate(listed)
            if isinstance(each, torch.Tensor) and each.requires_grad
        }
        double = torch.float64, torch.complex128
        single = [each.dtype for each in found.values() if each.dtype not in double]
        if single or not found:
            gave = f"gives {single[0]}" if single else "gives nothing that requires grad"
            raise ValueError(
                f"{self.called} cannot be checked: its forward {gave} for inputs in double "
                "precision, and in less than that finite differences say little."
            )
        for each in found.values():
            _refuse_unreadable(each, f"{self.called} cannot be checked: its forward gives")
        return found

    def _refuse_what_differs(self, outputs: dict[int, torch.Tensor]) -> None:
        again = self._values({})
        if not all(_is_same(again[nr], each.detach()) for nr, each in outputs.items()):
            raise ValueError(
                f"{self.called} cannot be checked: called twice with the same inputs its forward "
                "gave two different outputs, so it depends on something that a call changes."
            )

    def _values(self, changed: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """What forward gives with some inputs changed."""
        leaves = {
            i: changed.get(i, self._arguments[i]).detach().requires_grad_() for i in self._varied
        }
        return {nr: each.detach() for nr, each in self._outputs(leaves).items()}

    def _vjp(
        self, output: torch.Tensor, leaves: dict[int, torch.Tensor], weights: torch.Tensor
    ) -> dict[int, torch.Tensor]:
        """What backward passes on, as `reals`, zeros where it gives None."""
        start = weights.reshape(*output.shape, 2) if output.is_complex() else weights
        grads = torch.autograd.grad(
            output,
            list(leaves.values()),
            torch.view_as_complex(start) if output.is_complex() else start.reshape(output.shape),
            retain_graph=True,
            allow_unused=True,
        )
        return {
            i: torch.zeros(count_of(leaf), device=leaf.device)
            if grad is None
            else reals(grad.detach().to_dense().clone())
            for (i, leaf), grad in zip(leaves.items(), grads, strict=True)
        }

    def _entries(self) -> Iterator[tuple[int, int]]:
        """The numbers that are changed: which input, and which of its numbers."""
        for i in self._varied:
            count = count_of(self._arguments[i])
            most = min(count, MOST_ENTRIES)
            yield from ((i, at * count // most) for at in range(most))

    def _compare(
        self, of: _Output, grad: torch.Tensor, i: int, entry: int
    ) -> WrongDerivative | None:
        """An entry that is wrong; None for one that is right, or where forward has a kink.

        Raises:
            _NotFiniteError: There is no finite difference to compare with.
        """
        value = float(reals(self._arguments[i].detach())[entry])
        h = STEP * max(1.0, abs(value))
        here, said = reals(of.given.detach()), float(grad[entry])
        below, above, sides = self._around(of, i, entry, h)
        # A NaN that is left out of the weights comes back in backward, as 0 * inf.
        is_told = math.isfinite(said) or bool(here.isfinite().all())
        if not (is_told and all(map(math.isfinite, (value, *sides)))):
            raise _NotFiniteError
        if math.isfinite(said):
            size = float(of.weighted(here).abs().sum())
            off = EXACT * max(abs(said), *map(abs, sides)) + rounding(size, h)
            if min(sides) - off <= said <= max(sides) + off:
                return None
        elif _steepest(self._around(of, i, entry, h / 1000)[2]) > 1.1 * _steepest(sides):
            raise _NotFiniteError  # the nearer, the steeper: as of the cube root at 0
        column = (above - below) / (2 * h)
        rows = of.weights.nonzero().flatten()[:_MOST_ROWS].tolist()
        one, row = max(
            ((self._row(of, i, entry, at), at) for at in rows),
            key=lambda each: _how_far(each[0], float(column[each[1]])),
        )
        output_index, output_part = place_of(row, of.given)
        index, part = place_of(entry, self._arguments[i])
        return WrongDerivative(
            one,
            float(column[row]),
            of.nr,
            output_index,
            i,
            self._names[i],
            index,
            output_part,
            part,
        )

    def _around(
        self, of: _Output, i: int, entry: int, h: float
    ) -> tuple[torch.Tensor, torch.Tensor, list[float]]:
        """An output with a number moved down and up, and the weighted slopes of both sides."""
        below, above = (reals(self._values(self._moved(i, entry, step))[of.nr]) for step in (-h, h))
        here = reals(of.given.detach())
        sides = [float(of.weighted(b - a).sum()) / h for a, b in ((below, here), (here, above))]
        return below, above, sides

    def _row(self, of: _Output, i: int, entry: int, row: int) -> float:
        only = torch.zeros_like(of.weights)
        only[row] = 1
        with random_numbers_kept(self._devices):
            return float(self._vjp(of.given, of.leaves, only)[i][entry])

    def _moved(self, i: int, entry: int, step: float) -> dict[int, torch.Tensor]:
        moved = self._arguments[i].detach().clone().contiguous()
        (torch.view_as_real(moved) if moved.is_complex() else moved).view(-1)[entry] += step
        return {i: moved}

    def _why_raised(self, error: Exception) -> str:
        said = first_line(error).rstrip(".")
        if "modified by an inplace operation" in str(error):
            return (
                f"{self.called}.backward is wrong: it changes what it saved, in place, so it can "
                f"run only once. torch says: {said}."
            )
        return f"{self.called}.backward is wrong: it raised {type(error).__name__}: {said}."


def _in_double(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().clone()
    if value.is_complex():
        return value.resolve_conj().to(torch.complex128)
    return value.double() if value.is_floating_point() else value


def _refuse_unreadable(value: torch.Tensor, what: str) -> None:
    """Refuse what has no numbers that could be changed and read one by one."""
    kind = kind_without_data(value)
    if kind is not None:
        raise ValueError(f"{what} a {kind} tensor, which has no numbers. Give a real one.")
    if value.layout != torch.strided or value.is_nested:
        kind = "a nested tensor" if value.is_nested else f"a tensor of layout {value.layout}"
        raise ValueError(f"{what} {kind}, and finite differences here need torch.strided.")


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _is_varied(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return False
    return value.is_floating_point() or value.is_complex()


def _steepest(slopes: Sequence[float]) -> float:
    return max(map(abs, slopes))


def _how_far(gradient: float, difference: float) -> float:
    far = abs(gradient - difference)
    return math.inf if math.isnan(far) else far
