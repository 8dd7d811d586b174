"""The command ``gradwalk plan module:function``."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ...amounts import read_bytes
from ...export.text import printable
from .advice import Advice
from .plan import Plan, plan

_DONE, _FAILED, _TOO_LARGE, _UNKNOWN = 0, 1, 2, 3


def main(arguments: Sequence[str]) -> int:
    """Print the plan; return 0, 1 for an error, 2 if the step does not fit the budget.

    3 means that the peak is a lower bound within the budget.
    """
    given = _parser().parse_args(arguments)
    try:
        budget = None if given.budget is None else read_bytes(given.budget)
        found = _planned(_function(given.step), given.step, given.ranks)
        advice = None if budget is None else found.advise(budget)
    except Exception as error:  # the user's program may raise anything
        print(printable(str(error) or type(error).__name__), file=sys.stderr)  # noqa: T201
        return _FAILED
    sys.stdout.write(f"{printable_lines(found, advice)}\n")
    if advice is None:
        return _DONE
    if found.peak > advice.budget:
        return _TOO_LARGE
    return _UNKNOWN if found.lower_bound else _DONE


def printable_lines(found: Plan, advice: Advice | None) -> str:
    """Return the text of a plan and of an advice."""
    text = str(found) if advice is None else f"{found}\n\n{advice}"
    return "\n".join(map(printable, text.splitlines()))


def _planned(function: Callable[[], Any], name: str, ranks: int | None) -> Plan:
    returned = function()
    if isinstance(returned, Plan):
        return returned
    if not isinstance(returned, Mapping) or not {"model", "batch"} <= set(returned):
        raise TypeError(
            f"{name} returned a {type(returned).__name__}. Return a dict of arguments of "
            "gradwalk.plan with at least 'model' and 'batch', or a plan."
        )
    chosen = dict(returned)
    if ranks is not None:
        chosen["ranks"] = ranks
    elif chosen.get("ranks") is None:
        chosen.pop("shard", None)
    return plan(**chosen)


def _function(step: str) -> Callable[[], Any]:
    """Import a function by "module:function" or "file.py:function"."""
    module, _, name = step.rpartition(":")
    if not module:
        raise ValueError(f"{step!r} names no function. Write module:function or file.py:function.")
    if module.endswith(".py"):
        found = runpy.run_path(module).get(name)
    else:
        sys.path.insert(0, "")
        try:
            found = getattr(importlib.import_module(module), name, None)
        finally:
            sys.path.remove("")
    if not callable(found):
        raise ValueError(f"{module} has no function {name!r}. Name one that takes no arguments.")
    function: Callable[[], Any] = found
    return function


class _Parser(argparse.ArgumentParser):
    """A parser whose errors exit with 1, because 2 means too large."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_FAILED, f"{self.prog}: {printable(message)}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gradwalk plan",
        description="Plan the memory and FLOPs of a training step, without weights.",
        epilog="Exits with 2 if the step does not fit the budget as it is written, and with 3 if "
        "its peak is a lower bound within it.",
    )
    parser.add_argument(
        "step",
        metavar="module:function",
        help="a function that returns a dict of arguments of gradwalk.plan, or a plan; "
        "also file.py:function",
    )
    parser.add_argument(
        "--ranks",
        type=int,
        metavar="N",
        help="plan one of N ranks; the dict needs 'shard', which is not used without --ranks",
    )
    parser.add_argument(
        "--budget", metavar="SIZE", help="advise which blocks to checkpoint, such as 80GB"
    )
    return parser
