"""`diagnose`: what may be wrong with what is shown, each with the numbers behind it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from torch import nn
from traitlets import HasTraits

from .. import notebook
from ..backward.recording import Recording
from ..findings.finding import Finding, finding_models, findings_from
from ..findings.judge import Limits, judge
from ..forward.annotate import Annotated, annotate
from ..graph.capture import capture_nodes
from ..graph.names import Names, names_among, read_names
from ..graph.outputs import read_outputs
from ..modules.namespaces import inferred_namespaces
from ..program.kinds import no_backward
from .static_follower import StaticFollower


def diagnose(
    what: Any,
    *,
    names: Mapping[str, Any] | nn.Module | None = None,
    vanishing: float = 1e-4,
    exploding: float = 1e4,
    dead: float = 0.9,
    largest: int = 5,
) -> list[Finding]:
    """Look for what commonly goes wrong with gradients. Runs no backward by itself.

    Args:
        what: A ``GraphWidget`` (the backward pass that it shows is judged; of one that was opened
            from a file, what was found when it was saved), a `Recording`, or outputs as for
            `gradwalk.capture`, of which only the graph can be judged.
        names: What the program calls its parameters, as for `gradwalk.capture`; those of them that
            are not in the graph are found by it. By default the caller's variables.
        vanishing: A gradient whose norm falls below this share of what it was at the layer nearest
            to the output, is said to vanish.
        exploding: A gradient whose norm grows by this factor on the way is said to explode.
        dead: A ReLU is said to be dead when this share of its units is zero for every example.
        largest: How many of the nodes that hold most memory to name.

    Returns:
        The findings, the gravest first; a healthy net has none but the one about memory.

    Raises:
        TypeError: ``what`` carries no graph.
        ValueError: A threshold makes no sense, nothing was given, the widget is closed, or it shows
            a static graph.

    Example::

        >>> import torch
        >>> from gradwalk import record
        >>> x = torch.zeros(3, requires_grad=True)
        >>> [finding.kind for finding in diagnose(record(x.sqrt().sum()), names={"x": x})]
        ['nan', 'memory']
    """
    limits = Limits(vanishing, exploding, dead, largest)
    if names is None:
        called = names_among(notebook.caller_variables(sys._getframe(1)))
    else:
        called = read_names(names, "diagnose")
    follower = getattr(what, "_follower", None)
    if follower is not None and follower.captured.graph.graph.get("static"):
        made_by = follower.captured.graph.graph["made_by"]
        raise ValueError(f"diagnose() looks at gradients. {no_backward(made_by)}")
    saved = getattr(follower, "findings", None)
    if saved is not None:  # opened from a file: what was found where it was made
        found = findings_from(saved())
    else:
        captured, recording, namespaces = _read(what, called)
        is_explicit = names is not None
        found = judge(
            captured, recording, namespaces, called, limits=limits, is_explicit=is_explicit
        )
    if isinstance(what, HasTraits):
        what.set_trait("findings", finding_models(found))  # the widget lists them
    return found


def _read(what: Any, called: Names) -> tuple[Annotated, Recording | None, Mapping[int, str]]:
    """The graph, the pass to judge if there is one, and the modules of the nodes."""
    from ..widget.graph_widget import GraphWidget  # noqa: PLC0415  the widget may show findings

    if isinstance(what, GraphWidget):
        what._refresh()
        follower = what._open()
        assert not isinstance(follower, StaticFollower)
        return follower.captured, follower.recording, follower.namespaces
    recording = what if isinstance(what, Recording) else None
    if recording is not None:
        plain = recording._captured
    else:
        plain = capture_nodes(read_outputs((what,), "diagnose"), called)
    captured = annotate(plain, called, infer=False)
    watched = {node: space for node, space in captured.drawn.nodes(data="namespace") if space}
    return captured, recording, watched or inferred_namespaces(captured, called)
