"""Telling static graphs from tensors among what a user hands over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.outputs import Program, is_program


def only_program(given: Sequence[Any]) -> Program | None:
    """The static graph that a widget was given, alone; None when it was given something else.

    Raises:
        TypeError: There is something else along with it.
    """
    programs = [value for value in given if is_program(value)]
    if not programs:
        return None
    if len(given) > 1:
        raise TypeError(
            f"GraphWidget() was given {len(given)} values, and {_counted(len(programs))} among "
            "them. It draws one static graph, or the autograd graph of tensors: give each its own "
            "GraphWidget, or draw them side by side with gradwalk.compare({'dynamic': loss, "
            "'static': program})."
        )
    return programs[0]


def how_to_run(made_by: str) -> str:
    """Code that runs a static graph.

    Args:
        made_by: "torch.export" or "torch.fx".
    """
    return "program.module()(x)" if made_by == "torch.export" else "program(x)"


def no_backward(made_by: str) -> str:
    """Why there is no backward, and how to get one.

    Args:
        made_by: "torch.export" or "torch.fx".
    """
    return (
        "A static graph is the program written down before it runs: it holds no values to "
        "differentiate, so it has no backward. Run it and pass what it returns, for example "
        f"GraphWidget({how_to_run(made_by)})."
    )


def _counted(count: int) -> str:
    return "a static graph is" if count == 1 else f"{count} static graphs are"
