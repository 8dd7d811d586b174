"""Findings about gradient that is cut inside of a model, as far as `watch` saw it."""

from __future__ import annotations

from collections.abc import Iterator

from ..forward.annotate import Annotated
from ..forward.records import Cut
from ..graph.words import described
from .finding import Finding

# The other ways to lose gradient, casts to integers and comparisons, are what masks are made by.
_MEANT = ("detach", "data", "no_grad", "inference_mode", "item", "numpy", "copy")


def cuts_inside(captured: Annotated) -> Iterator[Finding]:
    """Where gradient was cut inside of a module: one finding for each line that did it.

    A target that is detached where the loss is computed is meant to be so; it is no finding. When
    no module ran at all, every cut counts.

    Args:
        captured: The graph.

    Yields:
        The findings; none for graphs that were not watched.
    """
    annotations = captured.annotations
    is_modular = any(each.module is not None for each in annotations.values())
    places: dict[tuple[str, str], tuple[Cut, list[int]]] = {}
    for node, annotation in annotations.items():
        if is_modular and annotation.module is None:
            continue
        for cut in annotation.cuts:
            if cut.how in _MEANT:
                key = cut.how, str(cut.where)
                places.setdefault(key, (cut, []))[1].append(node)
    for (how, where), (cut, noted) in places.items():
        # A call that made several nodes gave them all the same constants: one of them takes it.
        taking = [node for node in noted if captured.graph.nodes[node]["no_grad_inputs"]]
        nodes = taking or noted
        first = annotations[nodes[0]]
        module = first.module or first.module_root
        inside = f" inside of {module}" if is_modular and module else ""
        at = f" at {where}" if cut.where is not None else ""
        yield Finding(
            "cut",
            "warning",
            list(dict.fromkeys(nodes)),
            f"Gradient is cut by {_words(how)}{at}{inside}: what a tensor of shape {cut.shape} "
            f"gave to {described(captured.graph, nodes[0])} sends no gradient back. "
            f"{len(set(nodes))} node{'s' if len(set(nodes)) > 1 else ''} used it.",
            {"nodes": len(set(nodes))},
        )


def _words(how: str) -> str:
    calls = {"detach": "detach()", "data": ".data", "item": "item()", "numpy": "numpy()"}
    return calls.get(how, "a copy" if how == "copy" else how)
