"""The derivatives of the operations most used, as Python that can be read and run.

The rows stand in the files beside this one (`pointwise`, `reductions`, `losses`, `shapes`,
`layers`), one per operation. They are written for complex
numbers and with all factors; `derivative` leaves out what is trivial for the node at hand.
"""

from __future__ import annotations

import re

from .case import Case, Table, call
from .layers import LAYERS
from .losses import LOSSES
from .pointwise import POINTWISE
from .reductions import REDUCTIONS
from .shapes import SHAPES

DERIVATIVES: Table = {**POINTWISE, **REDUCTIONS, **LOSSES, **SHAPES, **LAYERS}
"""Backward class -> forward argument -> derivative."""

_FACTORS = ("alpha", "beta", "value", "scale", "input_scale")


def derivative(op: str, argument: str, case: Case) -> str | None:
    """The derivative for one input of one node, as Python code.

    Args:
        op: The node's class, ``"MulBackward0"``.
        argument: The forward argument, ``"other"`` or ``"tensors[1]"``.
        case: What is known of the node.

    Returns:
        Lines of Python in terms of ``grad`` (``grads`` where the node has several outputs) and the
        names of what the node saved, the last line an expression; None where the table has none.
    """
    row = DERIVATIVES.get(op.removesuffix("_copy"), {}).get(argument.partition("[")[0])
    code = row(case) if callable(row) else row
    if code is None:
        return None
    if not case.is_complex:
        code = code.replace(".conj()", "").replace(".conjugate()", "")
    for name in _FACTORS:
        value = case.saved.get(name)
        if isinstance(value, (int, float)) and value == 1:
            code = re.sub(rf" [*/] {name}(\.conjugate\(\))?(?!\w)", "", code)
            code = code.replace("(grad).", "grad.")  # nothing is left to hold together
    given, wanted = case.output.dtype, case.input.dtype
    if op in POINTWISE:
        if given.is_complex and wanted.is_floating_point:
            code = call(code, "real")
        code = case.reduced(code)
    if given != wanted and given.is_floating_point and wanted.is_floating_point:
        code = call(code, f"to({wanted})")
    return code
