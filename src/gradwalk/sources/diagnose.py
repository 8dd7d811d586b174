"""`diagnose`: find common problems of gradients, with the numbers that show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..backward.recorded_pass import known_pass
from ..checks.finding import Finding
from ..checks.run_checks import Limits
from ..graph.names import caller_names
from ..types import Outputs, RecordedGraph, TensorNames
from .graph_source import DiagnosisRequest, GraphSource, TakesSnapshots
from .live_graph import LiveGraph
from .read_source import read_source
from .saved_graph import no_backward


def diagnose(
    *outputs: Outputs | RecordedGraph,
    names: TensorNames | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    vanishing: float = 1e-4,
    exploding: float = 1e4,
    dead: float = 0.9,
    largest: int = 5,
    stacklevel: int = 1,
) -> list[Finding]:
    """Find common problems of gradients, without running backward.

    Args:
        *outputs (Outputs | RecordedGraph): A ``GraphWidget`` (its shown backward pass is checked;
            one that was loaded from a file returns the saved findings), a `Recording`, or outputs
            as for `gradwalk.capture`: then their graph is checked, with the latest pass that an
            open widget has seen of it.
        names (TensorNames, optional): Names of parameters: a mapping from names to tensors or
            modules, or one module. Those that are not in the graph are reported. By default the
            caller's variables.
        optimizer (torch.optim.Optimizer | Iterable[torch.optim.Optimizer], optional): The optimizer
            that steps after this backward, or several. Its parameters are expected to get a
            gradient, and parameters that it does not hold are reported. None for no check of it.
        vanishing (float, optional): A gradient vanishes if its norm falls below this share of its
            norm at the layer nearest to the output. Default: ``1e-4``.
        exploding (float, optional): A gradient explodes if its norm grows by this factor on the
            way. Default: ``1e4``.
        dead (float, optional): A ReLU is dead if this share of its units is zero for every example.
            Default: ``0.9``.
        largest (int, optional): The number of nodes to name that hold most memory. Default: ``5``.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The findings, the most severe first. About parameters they agree with `explain_grad`. A
        healthy net has only the finding about memory, and notes (severity "info") about things
        that many programs do on purpose.

    Raises:
        TypeError: The outputs carry no graph, ``optimizer`` is not an optimizer, or a threshold is
            not a number.
        ValueError: A threshold is out of range, no output was given, the widget is closed, or it
            shows a static graph.

    Example::

        >>> import torch
        >>> from gradwalk import record
        >>> from gradwalk import diagnose
        >>> x = torch.zeros(3, requires_grad=True)
        >>> [finding.kind for finding in diagnose(record(x.sqrt().sum()), names={"x": x})]
        ['nan']
    """
    request = DiagnosisRequest(
        caller_names(names, "diagnose", stacklevel),
        Limits(vanishing, exploding, dead, largest),
        names is not None,
        read_optimizers(optimizer),
    )
    only: Any = outputs[0] if len(outputs) == 1 else None
    if isinstance(only, TakesSnapshots):
        source = only._shown().source
    else:
        source = read_source(outputs, request.called, "diagnose", infer=False)
        if isinstance(source, LiveGraph) and source.recording is None:
            source.recording = known_pass(source.captured)
    return judged(source, request)


def read_optimizers(given: Any) -> Sequence[torch.optim.Optimizer]:
    """Return the optimizers given to `diagnose` as a sequence; raise TypeError for others."""
    if given is None:
        return ()
    several = list(given) if isinstance(given, (list, tuple, set)) else [given]
    for each in several:
        if not isinstance(each, torch.optim.Optimizer):
            raise TypeError(
                f"diagnose() was given an optimizer of type {type(each).__name__}. Pass a "
                "torch.optim.Optimizer, or a list of them."
            )
    return several


def judged(source: GraphSource, request: DiagnosisRequest) -> list[Finding]:
    """Return the findings of `diagnose` for a source; raise ValueError for a static graph."""
    made_by = source.graph.graph.get("made_by")
    if made_by is not None:
        raise ValueError(f"diagnose() looks at gradients. {no_backward(made_by)}")
    return source.findings(request)
