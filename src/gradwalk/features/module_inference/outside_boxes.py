"""Boxes for many operations outside of modules, which would else bury the modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...tracing.annotate import Annotated

MOST_OUTSIDE = 12
"""Operations outside of modules that stay as they are."""


def boxes_outside(captured: Annotated, inferred: Mapping[int, str]) -> dict[int, str]:
    """Boxes for the operations of a graph of modules that lie in none but the outermost.

    What was watched is boxed by the function that called it, unless modules ran in between: a
    method of the model or a training step, which belongs around them. Where modules are inferred,
    all that follows the last one is boxed, if it leads to one output.

    Args:
        captured: The graph.
        inferred: Node id -> namespace, where these are inferred; empty where they were watched.

    Returns:
        Node id -> "load_balancing_loss()" or "loss = …", of operations that are more than
        `MOST_OUTSIDE` in their box; no module has such a path.
    """
    spaces = inferred or dict(captured.drawn.nodes(data="namespace"))
    if not any(spaces.values()):
        return {}
    order = captured.operations
    inside = [bool(spaces.get(node)) for node in order]
    if not any(inside):
        return {}
    found: dict[str, list[int]] = defaultdict(list)  # the places of the operations of a box
    if inferred:
        last = max(place for place, is_inside in enumerate(inside) if is_inside)
        name = _output(captured)
        if name is not None:
            found[f"{name} = …"] = list(range(last + 1, len(order)))
    else:
        for place, node in enumerate(order):
            function = _function(captured, node)
            if function is not None and not inside[place]:
                found[f"{function}()"].append(place)
    modules_before = [0]
    for is_inside in inside:
        modules_before.append(modules_before[-1] + is_inside)
    return {
        order[place]: box
        for box, places in found.items()
        if len(places) > MOST_OUTSIDE and modules_before[places[0]] == modules_before[places[-1]]
        for place in places
    }


def _function(captured: Annotated, node: int) -> str | None:
    """The function that called an operation; None at the top level and for a module's forward."""
    seen = captured.annotations.get(node)
    name = seen.source.function if seen is not None and seen.source is not None else "<module>"
    return None if name == "forward" or name.startswith("<") else name


def _output(captured: Annotated) -> str | None:
    """Return the name of the only output; None for several, or if a path cannot have it."""
    roots = captured.graph.graph["roots"]
    if len(roots) != 1:
        return None
    ((node, output_nr),) = roots
    outputs = captured.graph.nodes[node]["outputs"]
    name = (outputs[output_nr]["name"] if output_nr < len(outputs) else None) or "output"
    return None if "/" in name else name
