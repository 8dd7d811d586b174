"""Derivatives of the operations that have a Python formula, for one node.

The files beside this one (`pointwise`, `reductions`, `losses`, `shapes`, `indexing`, `layers`,
`linear_algebra`) have the rows, one per operation, written for complex numbers and with all
factors. Without a row, torch's own formula may be used (`translated`). `derivative` leaves out
the parts that are trivial for the given node.
"""

from __future__ import annotations

import re

from .case import Case, Table, call
from .indexing import INDEXING
from .layers import LAYERS
from .linear_algebra import LINEAR_ALGEBRA
from .losses import LOSSES
from .pointwise import COPIES, POINTWISE
from .reductions import REDUCTIONS
from .shapes import SHAPES
from .translated import translated

DERIVATIVES: Table = {
    **POINTWISE,
    **REDUCTIONS,
    **LOSSES,
    **SHAPES,
    **INDEXING,
    **LAYERS,
    **LINEAR_ALGEBRA,
}
"""Backward class -> forward argument -> derivative."""

_FACTORS = ("alpha", "beta", "value", "scale", "input_scale")


def derivative(op: str, argument: str, case: Case) -> str | None:
    """Return the derivative for one input of one node, as Python code.

    Args:
        op: The node's class, ``"MulBackward0"``.
        argument: The forward argument, ``"other"`` or ``"tensors[1]"``.
        case: The node's saved values, inputs and outputs.

    Returns:
        Lines of Python in terms of ``grad`` (``grads`` where the node has several outputs) and the
        names of what the node saved, the last line an expression; None where neither the table nor
        torch has one that runs.
    """
    row = DERIVATIVES.get(op.removesuffix("_copy"), {}).get(argument.partition("[")[0])
    code = row(case) if callable(row) else row
    of_torch = code is None
    if code is None:
        code = translated(op, argument, case)
    if code is None:
        return None
    if not case.is_complex:
        code = code.replace(".conj()", "").replace(".conjugate()", "")
    for name in _FACTORS:
        value = case.saved.get(name)
        if isinstance(value, (int, float)) and value == 1:
            code = re.sub(rf" [*/] {name}(\.conjugate\(\))?(?!\w)", "", code)
            code = code.replace("(grad).", "grad.")  # nothing is left to hold together
    by_number = of_torch or op in POINTWISE
    given, wanted = case.output.dtype, case.input.dtype
    to_real = given.is_complex and wanted.is_floating_point
    if to_real and (by_number or op in REDUCTIONS):
        code, given = call(code, "real"), given.to_real()
    if by_number:
        code = case.reduced(code)
    if given != wanted and (given.is_complex == wanted.is_complex or op in COPIES):
        code = call(code, f"to({wanted})")
    return code
