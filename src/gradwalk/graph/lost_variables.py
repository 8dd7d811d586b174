"""Find functions that compute something in a variable, and return None."""

from __future__ import annotations

import dis
from types import CodeType

_RETURNS = ("RETURN_VALUE", "RETURN_CONST")
_COMPUTES = ("CALL", "BINARY_", "INPLACE_", "UNARY_")


def lost_variable(code: CodeType) -> str | None:
    """Return the variable that a function writes and never reads afterwards; None for none.

    None, too, for a function that returns anything else than None.
    """
    written: dict[str, bool] = {}
    last = None
    for each in dis.get_instructions(code):
        if each.opname in _RETURNS and not _gives_none(each, last):
            return None
        # From Python 3.13 on, one instruction may do two things.
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        parts = [part for part in each.opname.split("_FAST") if part]
        kinds = ["STORE" if "STORE" in part else "LOAD" for part in parts[: len(names)]]
        if "_FAST" in each.opname:
            for kind, name in zip(kinds, names, strict=False):
                written.pop(str(name), None)
                if kind == "STORE" and last is not None and last.opname.startswith(_COMPUTES):
                    written[str(name)] = True
        last = each
    lost = [name for name in written if not name.startswith("_")]
    return lost[-1] if lost else None


def _gives_none(one: dis.Instruction, before: dis.Instruction | None) -> bool:
    if one.opname == "RETURN_CONST":
        return one.argval is None
    return before is not None and before.opname == "LOAD_CONST" and before.argval is None
