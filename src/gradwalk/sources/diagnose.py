"""`diagnose`: what may be wrong with what is shown, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ..checks.finding import Finding
from ..checks.run_checks import Limits
from ..graph.names import Names, caller_names
from ..static.descriptions import no_backward
from .graph_source import GraphSource
from .read_source import read_source
from .snapshot import TakesSnapshots


def diagnose(
    *outputs: Any,
    names: Mapping[str, Any] | nn.Module | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    vanishing: float = 1e-4,
    exploding: float = 1e4,
    dead: float = 0.9,
    largest: int = 5,
) -> list[Finding]:
    """Look for what commonly goes wrong with gradients. Runs no backward by itself.

    Args:
        *outputs: A ``GraphWidget`` (the backward pass that it shows is judged; of one that was
            loaded from a file, what was found when it was saved), a `Recording`, or outputs as for
            `gradwalk.capture`, of which only the graph can be judged.
        names: What the program calls its parameters, as for `gradwalk.capture`; those of them that
            are not in the graph are found by it. By default the caller's variables.
        optimizer: The optimizer that steps after this backward, or several. Then the parameters
            that it holds are those that a gradient is expected for, and what it does not hold is
            found.
        vanishing: A gradient whose norm falls below this share of what it was at the layer nearest
            to the output, is said to vanish.
        exploding: A gradient whose norm grows by this factor on the way is said to explode.
        dead: A ReLU is said to be dead when this share of its units is zero for every example.
        largest: How many of the nodes that hold most memory to name.

    Returns:
        The findings, the gravest first. What is known of parameters is what `explain_grad` says.
        A healthy net has none but the one about memory, and notes (of severity "info") about what
        many programs do on purpose.

    Raises:
        TypeError: What was given carries no graph, ``optimizer`` is none, or a threshold is no
            number.
        ValueError: A threshold makes no sense, nothing was given, the widget is closed, or it shows
            a static graph.

    Example::

        >>> import torch
        >>> from gradwalk import record
        >>> x = torch.zeros(3, requires_grad=True)
        >>> [finding.kind for finding in diagnose(record(x.sqrt().sum()), names={"x": x})]
        ['nan']
    """
    limits = Limits(vanishing, exploding, dead, largest)
    optimizers = read_optimizers(optimizer)
    called = caller_names(names, "diagnose")
    only = outputs[0] if len(outputs) == 1 else None
    if isinstance(only, TakesSnapshots):
        subject = only._shown().subject
    else:
        subject = read_source(outputs, called, "diagnose", infer=False)
    return judged(subject, called, limits, is_explicit=names is not None, optimizers=optimizers)


def read_optimizers(given: Any) -> Sequence[torch.optim.Optimizer]:
    """One optimizer or several, as `diagnose` takes them.

    Args:
        given: What the user gave.

    Raises:
        TypeError: Something is no optimizer.
    """
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


def judged(
    subject: GraphSource,
    called: Names,
    limits: Limits,
    *,
    is_explicit: bool,
    optimizers: Sequence[torch.optim.Optimizer] = (),
) -> list[Finding]:
    """What `diagnose` finds in what is shown.

    Args:
        subject: What is shown.
        called: What the program calls its parameters.
        limits: The thresholds.
        is_explicit: Whether all that is called so belongs to the model.
        optimizers: What will update the parameters.

    Raises:
        ValueError: It is a static graph.
    """
    made_by = subject.graph.graph.get("made_by")
    if made_by is not None:
        raise ValueError(f"diagnose() looks at gradients. {no_backward(made_by)}")
    return subject.findings(called, limits, is_explicit=is_explicit, optimizers=optimizers)
