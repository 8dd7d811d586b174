"""Why a static graph has no backward. Files are read with it, so it needs no torch."""

from __future__ import annotations


def how_to_run(made_by: str) -> str:
    """Return code that runs a static graph of "torch.export" or "torch.fx"."""
    return "program.module()(x)" if made_by == "torch.export" else "program(x)"


def no_backward(made_by: str) -> str:
    """Say why the graph has no backward, and how to get one."""
    return (
        "A static graph is the program written down before it runs: it holds no values to "
        "differentiate, so it has no backward. Run it and pass what it returns, for example "
        f"GraphWidget({how_to_run(made_by)})."
    )
