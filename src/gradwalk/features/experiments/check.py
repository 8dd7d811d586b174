"""`check`: the backward of a custom Function, by torch's gradcheck and by layouts of gradients."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.autograd.graph import Node

from ...backward.recorded_pass import refuse_within_backward
from ...result import make, returned_by
from ...torch_api.modes import grad_mode_kept, random_numbers_kept, unseen
from ...torch_api.nodes import custom_function, is_of_torch, op_name
from ...torch_api.reading import first_line, in_short
from .custom_call import (
    CustomCall,
    NotCheckableError,
    TensorElement,
    argument_names,
    arguments_of,
    devices_of,
)
from .jacobian import DOUBLE, SINGLE, Jacobian, in_double, jacobians, largest

MOST_ENTRIES = 200
"""Numbers of each tensor that are compared, spread evenly over it; a complex one counts as two."""

_MOST_TWICE = 40  # for the second derivative, which has as many again as inputs
MOST_TOLD = 10
_SEED = 7_305_941_862  # none that programs use: their inputs would be the very gradients drawn here

Fault = Literal[
    "error", "in place", "repeat", "derivative", "not linear", "layout", "second derivative"
]


@dataclass(frozen=True)
class WrongDerivative:
    """A derivative that backward gets wrong, and the finite difference in its place."""

    gradient: float  # the derivative by backward
    difference: float  # the finite difference
    # The output that is differentiated; for a second derivative, its gradient's argument.
    output: TensorElement
    by: TensorElement  # the argument by which it is differentiated

    def __str__(self) -> str:
        return (
            f"the derivative of {self.output} by {self.by} is {self.difference:.6g}, and backward "
            f"says {self.gradient:.6g}"
        )


@returned_by("check(output)")
@dataclass(frozen=True)
class Check:
    """The result of `check`.

    Attributes:
        agrees: Whether no fault was found.
        fault: None; "error" where backward raises; "in place" where it changes its grad_output;
            "repeat" where a second call gives another gradient; "derivative" or "second derivative"
            where finite differences disagree; "not linear" where the gradient is not a linear
            function of grad_output; "layout" where the gradient depends on the strides of
            grad_output or of an input.
        wrong: The wrong derivatives, at most ten, the worst first.
        sentence: The result in words.
    """

    agrees: bool
    fault: Fault | None
    wrong: tuple[WrongDerivative, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class _FaultError(Exception):
    def __init__(self, fault: Fault, words: str, wrong: Sequence[WrongDerivative] = ()) -> None:
        super().__init__(words)
        self.fault, self.words, self.wrong = fault, words, tuple(wrong)


@grad_mode_kept
def check(node: Node | torch.Tensor, *inputs: object) -> Check:
    """Check the backward of a custom ``autograd.Function``.

    ``torch.autograd.gradcheck`` compares first and second derivatives with finite differences, in
    double precision, or in single precision where forward refuses double. The gradients must also
    be the same for every layout of ``grad_output`` (contiguous, a slice, transposed, expanded), for
    the inputs in the layout of the call, and at a second call. They must be linear in
    ``grad_output``: its negative gives the negative. Backward must not change ``grad_output``. Of
    large tensors 200 numbers are compared. No ``.grad`` changes, and the random state stays as it
    is.

    Args:
        node (Node | torch.Tensor): The node of the Function, ``y.grad_fn``; or its output.
        *inputs (object): All arguments of ``apply``, in order, where the node did not save them.

    Returns:
        The result.

    Raises:
        TypeError: ``node`` is not a node of a custom Function.
        ValueError: The inputs are not known or are not plain tensors; or forward does not work in
            float64 or float32, gives another output each time, or has no finite differences.

    Example::

        >>> import torch
        >>> from gradwalk import check
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
            f"check() was given {what}, which is not a node of a custom autograd.Function. Give "
            "the grad_fn of your Function's output, such as check(y.grad_fn)."
        )
    with unseen(), torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gradcheck's own
        gave = node if isinstance(node, torch.Tensor) else None
        arguments = list(inputs) if inputs else arguments_of(behind, custom, gave)
        needed = list(behind.needs_input_grad)  # type: ignore[attr-defined]
        names = argument_names(custom, len(needed))
        if len(arguments) != len(needed):
            raise ValueError(
                f"check() was given {len(arguments)} arguments for {custom.__name__}, which was "
                f"called with {len(needed)}. Give all of them: check(node, {', '.join(names)})."
            )
        with in_double():
            return _check(custom, arguments, needed, names)


def _check(
    custom: type[torch.autograd.Function],
    arguments: list[Any],
    needed: list[bool],
    names: list[str],
) -> Check:
    refused: NotCheckableError | None = None
    for precision in (DOUBLE, SINGLE):
        torch.set_default_dtype(precision.dtype)
        call = CustomCall(custom, arguments, needed, names, precision)
        try:
            call.refuse_what_differs()
            return _Checker(call).result()
        except NotCheckableError as error:
            refused = refused or error
            if error.is_final:
                break
    assert refused is not None
    raise ValueError(f"{custom.__name__} cannot be checked: {refused}")


class _Checker:
    """The checks of one call, from the simplest on."""

    def __init__(self, call: CustomCall) -> None:
        self.call, self.precision = call, call.precision
        self.generator = torch.Generator().manual_seed(_SEED)

    def result(self) -> Check:
        name = f"{self.call.called}.backward"
        try:
            with random_numbers_kept(devices_of(self.call.arguments)):
                base = self.repeated()
                tried, compared = self.first()
                self.linear(base)
                self.layouts(base)
                self.input_layouts(base)
                twice = self.second()
        except _FaultError as found:
            sentence = f"{name} {found.words}"
            return make(Check, False, found.fault, found.wrong[:MOST_TOLD], sentence)
        size, left = self.call.size, tried - compared
        few = "" if tried == size else f" of {size:,}"
        unknown = f", {left:,} of them without a finite difference" if left else ""
        single = "" if self.precision is DOUBLE else " in single precision"
        sentence = (
            f"{name} agrees with finite differences{single} for {tried:,}{few} "
            f"number{'s' * (tried != 1)} of its inputs{unknown}, and with every layout of its "
            f"grad_output. {twice}"
        )
        return make(Check, True, None, (), sentence)

    def repeated(self) -> list[torch.Tensor]:
        """Return the incoming gradients, after two calls of backward with them."""
        outputs, leaves = self.call.run()
        grads = [self.call.randn_like(each, self.generator) for each in outputs.values()]
        first, again = (self._vjp(outputs, leaves, grads) for _ in range(2))
        if any(self.precision.differs(*each).any() for each in zip(first, again, strict=True)):
            raise _FaultError(
                "repeat",
                "is wrong: its second call gives another gradient for the same grad_output. It "
                "changes a saved tensor or another state in place, or draws random numbers.",
            )
        return grads

    def _vjp(
        self,
        outputs: dict[int, torch.Tensor],
        leaves: list[torch.Tensor],
        grads: list[torch.Tensor],
        layout: str = "",
    ) -> list[torch.Tensor]:
        """The gradients of the inputs; zeros where backward returns None."""
        given = [each.clone() for each in grads]  # to compare with
        try:
            found = torch.autograd.grad(
                list(outputs.values()), leaves, grads, retain_graph=True, materialize_grads=True
            )
        except Exception as error:  # a user's backward may raise anything
            raise self._raised(error, layout) from error
        if not all(map(_is_same, grads, given)):
            raise _FaultError(
                "in place",
                "changes its grad_output in place. Other nodes may receive the same tensor, so "
                "work on a copy: grad_output.clone().",
            )
        return [grad.detach().to_dense().clone() for grad in found]

    def _raised(self, error: Exception, layout: str = "") -> _FaultError:
        reason = in_short(error)
        if "modified by an inplace operation" in str(error):
            words = "is wrong: it changes a saved tensor in place, so it runs only once."
            return _FaultError("repeat", words)
        if layout:
            remedy = "Call grad_output.contiguous() in backward."
            words = f"raises {reason}, when grad_output is {layout}. {remedy}"
            return _FaultError("layout", words)
        return _FaultError("error", f"is wrong: it raised {reason}.")

    def first(self) -> tuple[int, int]:
        """Return how many numbers were tried, and of how many there is a finite difference."""
        vectors = self.call.vectors(MOST_ENTRIES)
        found = self._compare(vectors.forward, vectors.inputs, whole=True)
        tried = sum(map(len, vectors.inputs))
        if found is None:
            return tried, tried
        compared = sum(int(each.known.sum()) for each in found)
        if tried and not compared:
            raise ValueError(
                f"{self.call.called} cannot be checked: with these inputs every finite difference "
                "is NaN or infinite. Give others: check(node, x, ...)."
            )
        wrong = self._wrong(found, vectors.places, vectors.output_places())
        if wrong:
            more = f", and so on: {len(wrong):,} derivatives are wrong" if len(wrong) > 1 else ""
            raise _FaultError("derivative", f"is wrong: {wrong[0]}{more}.", wrong)
        return tried, compared

    def second(self) -> str:
        """Return what is known of the second derivatives."""
        if self.call.is_once_differentiable:
            return "It is marked with @once_differentiable."
        vectors = self.call.vectors(_MOST_TWICE)
        outputs = vectors.forward(*vectors.inputs)
        drawn = (self.call.randn_like(each, self.generator) for each in outputs)
        weights = [each.requires_grad_() for each in drawn]
        given = [*vectors.inputs, *weights]
        there = [nr for nr, grad in enumerate(vectors.backward(*given)) if grad.requires_grad]
        if not there:
            return "Its gradients have no graph, so it cannot be differentiated twice."

        def backward(*every: torch.Tensor) -> list[torch.Tensor]:
            found = vectors.backward(*every)
            return [found[nr] for nr in there]

        try:
            total = sum(grad.sum() for grad in backward(*given))
            assert isinstance(total, torch.Tensor)
            torch.autograd.grad(total, given, allow_unused=True)
        except NotCheckableError:
            raise
        except Exception as error:
            return f"It cannot be differentiated twice: {in_short(error)}."
        found = self._compare(backward, given, whole=False)
        if found is not None:
            by = vectors.places + vectors.output_places("grad_output")
            of = [
                [replace(each, name=f"the gradient of {each.name}") for each in vectors.places[nr]]
                for nr in there
            ]
            wrong = self._wrong(found, by, of)
            if wrong:
                raise _FaultError(
                    "second derivative",
                    f"is right, but its own derivative is wrong: {wrong[0]}. Compute it from saved "
                    "inputs and outputs alone, with operations that autograd records, or mark it "
                    "with @once_differentiable.",
                    wrong,
                )
        return "Its second derivatives agree too."

    def _compare(
        self, function: Callable[..., Any], inputs: list[torch.Tensor], *, whole: bool
    ) -> list[Jacobian] | None:
        """Return None where gradcheck finds nothing; else all derivatives."""
        flat = torch.cat([each.detach().reshape(-1) for each in function(*inputs)])
        step = self.precision.steps[1]
        try:
            gradcheck(
                lambda *vectors: tuple(function(*vectors)),
                tuple(inputs),
                eps=step,
                atol=self.precision.rounding(flat, step),
                rtol=self.precision.relative,
                check_undefined_grad=whole,
            )
        except GradcheckError as error:
            if "undefined" in str(error) or "multiplied by grad_output" in str(error):
                words = f"is wrong: gradcheck says: {first_line(error).rstrip('.')}."
                raise _FaultError("error", words) from error
        except NotCheckableError:
            raise
        except Exception as error:
            raise self._raised(error) from error
        else:
            return None
        return jacobians(function, inputs, self.precision)

    def _wrong(
        self,
        found: list[Jacobian],
        inputs: list[list[TensorElement]],
        outputs: list[list[TensorElement]],
    ) -> list[WrongDerivative]:
        """The wrong derivatives, the worst first."""
        rows = list(itertools.chain(*outputs))
        wrong = []
        for one, places in zip(found, inputs, strict=True):
            for entry, row in one.wrong(self.precision).nonzero().tolist():
                both = float(one.gradient[entry, row]), float(one.difference[entry, row])
                wrong.append(WrongDerivative(*both, rows[row], places[entry]))
        return sorted(wrong, key=lambda each: -_distance(each))

    def linear(self, grads: list[torch.Tensor]) -> None:
        """Compare the gradients for other incoming ones with sums and multiples of those."""
        outputs, leaves = self.call.run()
        more = [self.call.randn_like(each, self.generator) for each in outputs.values()]
        base, other = (self._vjp(outputs, leaves, each) for each in (grads, more))
        for what, factor in (("its negative", -1), ("its double", 2)):
            found = self._vjp(outputs, leaves, [each * factor for each in grads])
            for got, one, i in zip(found, base, self.call.varied, strict=True):
                off = self.precision.differs(got, one * factor)
                self._refuse_not_linear(off, got, one * factor, i, f"for {what}")
        found = self._vjp(outputs, leaves, list(map(torch.add, grads, more)))
        for got, one, two, i in zip(found, base, other, self.call.varied, strict=True):
            rounding = _ROUNDING * max(largest(one), largest(two))
            off = (got - one - two).abs() > rounding
            self._refuse_not_linear(off, got, one + two, i, "for a sum of two gradients")

    def _refuse_not_linear(
        self, off: torch.Tensor, got: torch.Tensor, wanted: torch.Tensor, i: int, what: str
    ) -> None:
        if not off.any():
            return
        at = tuple(off.nonzero()[0].tolist())
        place = TensorElement("input", i, self.call.names[i], at)
        raise _FaultError(
            "not linear",
            f"is wrong: it is not linear in grad_output. The gradient of {place} {what} is "
            f"{got[at].item():.6g}, and {wanted[at].item():.6g} by its other gradients. Multiply "
            "grad_output by factors that do not depend on it.",
        )

    def input_layouts(self, grads: list[torch.Tensor]) -> None:
        """Compare the gradients for the inputs as they were with those for contiguous ones."""
        odd = self.call.oddly_laid
        if not odd:
            return
        plain, laid = self.call.run(), self.call.run(laid=True)
        if any(self.precision.differs(plain[0][nr], laid[0][nr]).any() for nr in plain[0]):
            return  # forward itself depends on it
        found, true = (self._vjp(*each, grads) for each in (laid, plain))
        names = " and ".join(self.call.names[i] for i in odd)
        self._refuse_layout(
            *(found, true, "its inputs", f"{names} not contiguous, as in this call"),
            "Call contiguous() on what is saved.",
        )

    def layouts(self, grads: list[torch.Tensor]) -> None:
        """Compare the gradients for each layout of the incoming ones with those for contiguous."""
        outputs, leaves = self.call.run()
        for layout, lay in _LAYOUTS.items():
            given = [lay(each) for each in grads]
            found = self._vjp(outputs, leaves, given, layout)
            true = self._vjp(outputs, leaves, [each.contiguous() for each in given])
            self._refuse_layout(
                *(found, true, "grad_output", f"one that is {layout}"),
                "Call grad_output.contiguous() in backward.",
            )

    def _refuse_layout(
        self,
        found: Sequence[torch.Tensor],
        true: Sequence[torch.Tensor],
        of: str,
        given: str,
        advice: str,
    ) -> None:
        for i, got, wanted in zip(self.call.varied, found, true, strict=True):
            off = self.precision.differs(got, wanted)
            if not off.any():
                continue
            at = tuple(off.nonzero()[0].tolist())
            place = TensorElement("input", i, self.call.names[i], at)
            raise _FaultError(
                "layout",
                f"depends on the layout of {of}: with {given}, the gradient of {place} is "
                f"{got[at].item():.6g}, and {wanted[at].item():.6g} with the same numbers "
                f"contiguous. {advice}",
            )


_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a slice of a wider tensor": lambda grad: torch.stack([grad, grad + 1], -1)[..., 0],
    "transposed": lambda grad: grad.mT.contiguous().mT if grad.dim() > 1 else grad,
    "expanded (as by y.sum())": lambda grad: grad.flatten()[:1].sum().expand(grad.shape),
}


_ROUNDING = 0.05  # of the largest number: a Function may compute in bfloat16


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _distance(wrong: WrongDerivative) -> float:
    far = abs(wrong.gradient - wrong.difference)
    return math.inf if math.isnan(far) else far
