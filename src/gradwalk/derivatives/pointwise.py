"""Derivatives of operations that work number by number, with operands broadcast.

`derivatives.derivative` sums the result over the dimensions along which an operand was broadcast.
Rows that torch's own formulas say in the same way, such as that of `exp`, are left out.
"""

from __future__ import annotations

from typing import Any

import torch

from .behaviour import Choice
from .case import Case, Row, Table, alike

_ZEROS = "torch.zeros_like(grad)"


def _unless_rounded(code: str) -> Row:
    return lambda case: _ZEROS if case.saved["rounding_mode"] else code


def _power_of_number(case: Case) -> str:
    if case.saved["exponent"] == 0:
        return _ZEROS
    return "grad * (exponent * self ** (exponent - 1)).conj()"


def _exponent(case: Case) -> str:
    if case.is_complex:
        return "grad * (result * self.log()).conj()"
    return "grad * torch.where((self == 0) & (exponent >= 0), 0, result * self.log())"


def _exponent_of_number(case: Case) -> str:
    base = case.saved["self"]
    if isinstance(base, complex) or base < 0:
        return "grad * (result * result.new_tensor(self).log()).conj()"
    if base == 0:
        return "grad * torch.where(exponent >= 0, 0, -math.inf * result)"
    return "grad * result.conj() * math.log(self)"


def _gelu(case: Case) -> str:
    if case.saved["approximate"] == "tanh":
        return (
            "inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self ** 3)\n"
            "inner_slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * self ** 2)\n"
            "grad * 0.5 * (1 + inner.tanh() + self * (1 - inner.tanh() ** 2) * inner_slope)"
        )
    return (
        "below = 0.5 * (1 + torch.erf(self / math.sqrt(2)))\n"
        "density = torch.exp(-self ** 2 / 2) / math.sqrt(2 * math.pi)\n"
        "grad * (below + self * density)"
    )


# A product with a mask would make NaN of an infinite gradient where nothing is passed on.
def _one_bound(name: str, inside: str, outside: str) -> tuple[Choice, Choice]:
    """Return the choices of ``clamp`` on one side: at a tensor, and at a number."""

    def call(self: torch.Tensor, bound: Any) -> torch.Tensor:
        return torch.clamp(self, bound) if name == "min" else torch.clamp(self, max=bound)

    def call_with_number(self: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        return call(self, bound.item())

    points = ((-1.0, 0.0), (0.0, 0.0), (1.0, 0.0))
    shared = f"shared = torch.where(self == {name}, grad / 2, grad)\n"
    passed = (
        f"torch.where(self {inside}= {name}, grad, 0)",
        f"torch.where(self {inside} {name}, grad, 0)",
        f"{shared}torch.where(self {outside} {name}, 0, shared)",
    )
    to_bound = (
        f"torch.where(self {outside} {name}, grad, 0)",
        f"{shared}torch.where(self {inside} {name}, 0, shared)",
    )
    inputs = ("self", name)
    return (
        Choice(call, inputs, points, {"self": passed, name: to_bound}),
        Choice(call_with_number, inputs, points, {"self": passed}),
    )


_POINTS = (
    *((self, 0.0, 1.0) for self in (-1.0, 0.0, 0.5, 1.0, 2.0)),
    *((self, 1.0, 1.0) for self in (0.0, 1.0, 2.0)),
    (0.5, 1.0, 0.0),
)
_BOTH = (
    Choice(
        torch.clamp,
        ("self", "min", "max"),
        _POINTS,
        {
            "self": (
                "torch.where((self >= min) & (self <= max), grad, 0)",
                "is_tie = ((self == min) | (self == max)) & (min < max)\n"
                "shared = torch.where(is_tie, grad / 2, grad)\n"
                "torch.where((self < min) | (self > max), 0, shared)",
            ),
            "min": (
                "torch.where((self < min) & (min < max), grad, 0)",
                "shared = torch.where((self == min) & (min < max), grad / 2, 0)\n"
                "torch.where((self < min) & (min <= max), grad, shared)",
            ),
            "max": (
                "torch.where((self > max) | (max < min), grad, 0)",
                "shared = torch.where((self == max) & (min < max), grad / 2, 0)\n"
                "torch.where((min > max) | (self > max) & (min <= max), grad, shared)",
            ),
        },
    ),
    Choice(
        lambda self, low, high: torch.clamp(self, low.item(), high.item()),
        ("self", "min", "max"),
        _POINTS,
        {
            "self": (
                "torch.where((self >= min) & (self <= max), grad, 0)",
                "torch.where((self > min) & (self < max), grad, 0)",
            )
        },
    ),
)
_CLAMPS = {
    ("min",): _one_bound("min", ">", "<"),
    ("max",): _one_bound("max", "<", ">"),
    ("min", "max"): _BOTH,
}
"""The limits of ``clamp`` -> the choices for tensors and for numbers."""


def _clamp(argument: str, *, numbers: bool = False) -> Row:
    def row(case: Case) -> str | None:
        limits = tuple(name for name in ("min", "max") if case.has(name))
        return _CLAMPS[limits][numbers].code(argument)

    return row


def _dropped(case: Case) -> str | None:
    if case.saved["p"] == 1:
        return "grad * 0"
    # A node made outside of training scales nothing, and shows it only by dropping nothing.
    kept = case.saved.get("result1")
    return None if kept is not None and bool(kept.all()) else "grad * result1 / (1 - p)"


def _of_complex(code: str) -> Row:
    """``code`` for complex numbers; zero for real ones."""
    return lambda case: code if case.is_complex else _ZEROS


_ARITHMETIC: Table = {
    "AddBackward0": {"self": "grad", "other": "grad * alpha.conjugate()"},
    "AddBackward1": {"self": "grad"},
    "SubBackward0": {"self": "grad", "other": "-grad * alpha.conjugate()"},
    "SubBackward1": {"self": "grad"},
    "RsubBackward0": {"self": "-grad * alpha.conjugate()", "other": "grad"},
    "RsubBackward1": {"self": "-grad * alpha.conjugate()"},
    "MulBackward0": {"self": "grad * other.conj()", "other": "grad * self.conj()"},
    "MulBackward1": {"self": "grad * other.conjugate()"},
    "DivBackward0": {
        "self": "grad / other.conj()",
        "other": "-grad * (self / other / other).conj()",
    },
    "DivBackward1": {"self": "grad / other.conjugate()"},
    "DivBackward2": {
        "self": _unless_rounded("grad / other.conj()"),
        "other": _unless_rounded("-grad * (self / other / other).conj()"),
    },
    "DivBackward3": {"self": _unless_rounded("grad / other.conjugate()")},
    "NegBackward0": {"self": "-grad"},
    "ReciprocalBackward0": {"self": "-grad * (result ** 2).conj()"},
    "AddcmulBackward0": {
        "self": "grad",
        "tensor1": "grad * tensor2.conj() * value.conjugate()",
        "tensor2": "grad * tensor1.conj() * value.conjugate()",
    },
    "AddcdivBackward0": {
        "self": "grad",
        "tensor1": "grad * value.conjugate() / tensor2.conj()",
        "tensor2": "-grad * value.conjugate() * (tensor1 / tensor2 / tensor2).conj()",
    },
    "LerpBackward0": {"self": "grad * (1 - weight).conjugate()"},
}

_POWERS: Table = {
    "PowBackward0": {"self": _power_of_number},
    "PowBackward1": {
        "self": "torch.where(exponent == 0, 0, grad * (exponent * self ** (exponent - 1)).conj())",
        "exponent": _exponent,
    },
    "PowBackward2": {"exponent": _exponent_of_number},
    "RsqrtBackward0": {"self": "-0.5 * grad * (result ** 3).conj()"},
    "LogBackward0": {"self": "grad / self.conj()"},
    "Log2Backward0": {"self": "grad / (self.conj() * math.log(2))"},
    "Log10Backward0": {"self": "grad / (self.conj() * math.log(10))"},
    "Log1PBackward0": {"self": "grad / (self + 1).conj()"},
    "MvlgammaBackward0": {
        "self": "shifted = self.unsqueeze(-1) - torch.arange(p, device=self.device) / 2\n"
        "grad * shifted.digamma().sum(-1)"
    },
    "XlogyBackward0": {
        "self": "torch.xlogy(grad, other).masked_fill((self == 0) & (other <= 0), 0)"
    },
}

_INVERSE_SQUARE = (
    "square = self ** 2 + other ** 2\ninverse = square.reciprocal().masked_fill(square == 0, 0)\n"
)

_TRIGONOMETRY: Table = {
    "CosBackward0": {"self": "-grad * self.sin().conj()"},
    "TanBackward0": {"self": "grad * (1 + result ** 2).conj()"},
    "AsinBackward0": {"self": "grad / (1 - self ** 2).sqrt().conj()"},
    "AcosBackward0": {"self": "-grad / (1 - self ** 2).sqrt().conj()"},
    "AtanBackward0": {"self": "grad / (1 + self ** 2).conj()"},
    "Atan2Backward0": {
        "self": f"{_INVERSE_SQUARE}grad * other * inverse",
        "other": f"{_INVERSE_SQUARE}-grad * self * inverse",
    },
    "TanhBackward0": {"self": "grad * (1 - result ** 2).conj()"},
    "AsinhBackward0": {"self": "grad / (self ** 2 + 1).sqrt().conj()"},
    "AtanhBackward0": {"self": "grad / (1 - self ** 2).conj()"},
    "SincBackward0": {
        "self": "slope = ((math.pi * self).cos() - torch.sinc(self)) / self\n"
        "torch.where(self == 0, 0, grad * slope.conj())"
    },
    "Deg2RadBackward0": {"self": "grad * (math.pi / 180)"},
    "Rad2DegBackward0": {"self": "grad * (180 / math.pi)"},
    "ErfBackward0": {"self": "grad * 2 / math.sqrt(math.pi) * torch.exp(-self ** 2)"},
}

_ACTIVATIONS: Table = {
    "SigmoidBackward0": {"self": "grad * (result * (1 - result)).conj()"},
    "LogSigmoidBackward0": {"self": "grad * torch.sigmoid(-self)"},
    "ReluBackward0": {"self": "torch.where(result <= 0, 0, grad)"},
    "LeakyReluBackward0": {"self": "torch.where(self > 0, grad, grad * negative_slope)"},
    "LeakyReluBackward1": {"self": "torch.where(result > 0, grad, grad * negative_slope)"},
    "PreluKernelBackward0": {
        "self": "torch.where(self > 0, grad, grad * weight)",
        "weight": "torch.where(self > 0, 0, grad * self)",
    },
    "EluBackward0": {
        "self": "grad * scale * torch.where("
        "self <= 0, torch.exp(self * input_scale) * alpha * input_scale, 1)"
    },
    "EluBackward1": {
        "self": "grad * torch.where(result <= 0, (result + alpha * scale) * input_scale, scale)"
    },
    "CeluBackward0": {"self": "grad * torch.where(self <= 0, torch.exp(self / alpha), 1)"},
    "CeluBackward1": {"self": "grad * torch.where(result <= 0, result / alpha + 1, 1)"},
    "GeluBackward0": {"self": _gelu},
    "SiluBackward0": {"self": "grad * self.sigmoid() * (1 + self * (1 - self.sigmoid()))"},
    "MishBackward0": {
        "self": "inner = torch.nn.functional.softplus(self).tanh()\n"
        "grad * (inner + self * self.sigmoid() * (1 - inner ** 2))"
    },
    "SoftplusBackward0": {
        "self": "torch.where(self * beta > threshold, grad, grad * torch.sigmoid(self * beta))"
    },
    **alike(
        "ThresholdBackward0", "ThresholdBackward1", self="torch.where(self <= threshold, 0, grad)"
    ),
    **alike(
        "SoftshrinkBackward0",
        "HardshrinkBackward0",
        self="torch.where(self.abs() <= lambd, 0, grad)",
    ),
    "HardtanhBackward0": {"self": "torch.where((self <= min_val) | (self >= max_val), 0, grad)"},
    "HardsigmoidBackward0": {"self": "torch.where((self > -3) & (self < 3), grad / 6, 0)"},
    "HardswishBackward0": {
        "self": "inner = torch.where(self <= -3, 0, grad * (self / 3 + 0.5))\n"
        "torch.where(self >= 3, grad, inner)"
    },
}

_CHOICES: Table = {
    "SgnBackward0": {
        "self": _of_complex(
            "((grad - (grad * result.conj()).real * result) / self.abs()).masked_fill(self == 0, 0)"
        )
    },
    "AngleBackward0": {
        "self": _of_complex("torch.where(self == 0, 0, grad * 1j * self / self.abs() ** 2)")
    },
    "PolarBackward0": {
        "abs": "(grad.conj() * result.sgn()).real",
        "angle": "(grad.conj() * result * 1j).real",
    },
    "ClampBackward0": {name: _clamp(name) for name in ("self", "min", "max")},
    "ClampBackward1": {"self": _clamp("self", numbers=True)},
    **alike(
        "CopysignBackward0",
        "CopysignBackward1",
        self="grad * (result / self).masked_fill(self == 0, 0)",
    ),
    "MaskedFillBackward1": {"value": "torch.where(mask, grad, 0)"},
    "NanToNumBackward0": {"self": "grad * self.isfinite()"},
    "NativeDropoutBackward0": {"input": _dropped},
}

COPIES: Table = {
    "CloneBackward0": {"self": "grad"},
    "AliasBackward0": {"self": "grad"},
    "ToCopyBackward0": {"self": "grad"},
    "CopyBackwards": {"self": _ZEROS, "src": "grad"},
    "FillBackward0": {"self": _ZEROS},
    "FillBackward1": {"self": _ZEROS, "value": "grad"},
    "FillBackward2": {"self": _ZEROS},
    "FillBackward3": {"self": _ZEROS, "value": "grad"},
    "ConjBackward0": {"self": "grad.conj()"},
}
"""Those whose gradient is the same number, whatever the dtype on either side."""

POINTWISE: Table = {
    **_ARITHMETIC,
    **_POWERS,
    **_TRIGONOMETRY,
    **_ACTIVATIONS,
    **_CHOICES,
    **COPIES,
}
"""Backward class -> forward argument -> derivative, before broadcasting is undone."""
