"""Read the arguments of `compare_numerics`: two runs of a step, and tolerances."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...backward.record import Recording, record_captured
from ...explain.freed import why_freed
from ...export.disk import read_file
from ...graph.capture import capture_nodes
from ...graph.names import Names
from ...graph.outputs import is_program, read_outputs
from ...schema.file_format import MOST_BYTES, unpack
from ...sources.graph_source import GraphSource
from ...sources.read_source import read_source
from ...sources.saved_graph import SavedGraph
from ...sources.snapshot import TakesSnapshots
from ...torch_api.modes import grad_mode_kept
from ...torch_api.saved_tensors import is_freed
from ...torch_api.tensors import dtype_of
from ...tracing.annotate import annotate
from .known_numbers import RunNumbers

NUMERICS = "compare_numerics"
"""The public name, for messages."""


def read_tolerance(rtol: Any, atol: Any) -> tuple[float, float] | None:
    """Check the tolerances and return them; None if none are given.

    Raises:
        TypeError: Only one is given, or one is not a number of at least 0.
    """
    if (rtol is None) != (atol is None):
        raise TypeError(
            f"compare_numerics() was given rtol={rtol!r} and atol={atol!r}. Give both, or neither "
            "for the tolerances of torch.testing.assert_close."
        )
    if rtol is None or atol is None:
        return None
    for name, given in (("rtol", rtol), ("atol", atol)):
        if not isinstance(given, numbers.Real) or not float(given) >= 0:
            raise TypeError(
                f"compare_numerics() was given {name}={given!r}. Give a number of at least 0, "
                "as for torch.testing.assert_close."
            )
    return float(rtol), float(atol)


@grad_mode_kept
def read_run(given: Any, side: str, names: Names, gradient: Any) -> RunNumbers:
    """Return a run with its recorded pass; for a tensor, run and record backward.

    Args:
        given: A run, as for `gradwalk.compare_numerics`.
        side: Its name: "a".
        names: The names of the user's tensors.
        gradient: The gradient that backward starts from.

    Raises:
        TypeError: The argument has no gradients to compare.
        ValueError: Backward cannot start from the tensor, the widget is closed, or the file is
            damaged.
        OSError: The file cannot be read.
        RuntimeError: Tensors that backward needs were freed.
    """
    if isinstance(given, (str, os.PathLike)):
        opened = SavedGraph(unpack(*read_file(given, NUMERICS, MOST_BYTES)))
        return RunNumbers(opened, f"{side}: {Path(given).name}")
    if isinstance(given, TakesSnapshots):
        return _known(given._shown().subject, side)
    if isinstance(given, Recording):
        return _known(read_source((given,), names, NUMERICS), side)
    if is_program(given):
        raise TypeError(
            "compare_numerics() was given a static graph, which has no numbers. Give the tensor "
            "that you would call backward() on."
        )
    captured = capture_nodes(read_outputs((given,), NUMERICS), names)
    freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
    if freed:
        raise RuntimeError(why_freed(annotate(captured, names, infer=False), freed))
    outputs = [captured.graph.nodes[node]["outputs"][nr] for node, nr in captured.roots]
    recording = record_captured(captured, gradient=_cast(gradient, outputs))
    recording.reset()
    return _known(read_source((recording,), names, NUMERICS), side, had_run=False)


def _known(subject: GraphSource, side: str, had_run: bool = True) -> RunNumbers:
    """The numbers of a run, labelled by the name of its first output."""
    ((node, _), *_) = subject.graph.graph["roots"]
    name = subject.graph.nodes[node]["name"]
    return RunNumbers(subject, f"{side}: {name}" if name and name != side else side, had_run)


def _cast(gradient: Any, outputs: Sequence[Mapping[str, Any]]) -> Any:
    """The start gradient, in the dtype and on the device of each output."""
    if isinstance(gradient, (list, tuple)):
        return [_cast(each, outputs[i : i + 1]) for i, each in enumerate(gradient)]
    if not isinstance(gradient, torch.Tensor) or not outputs or outputs[0]["dtype"] is None:
        return gradient
    return gradient.to(device=outputs[0]["device"], dtype=dtype_of(outputs[0]["dtype"]))
