"""The classes of the modules that the nodes of a graph belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..graph.module_paths import ancestors
from ..tracing.annotate import Annotated


def classes_of_modules(
    captured: Annotated, known: Mapping[str, str], inferred: Mapping[int, str]
) -> dict[str, str]:
    """Return the known class of each module that has nodes.

    Args:
        captured: The graph.
        known: Dotted path -> class, for the modules that the user named.
        inferred: Node id -> inferred namespace. All other nodes have their own namespace.

    Returns:
        Namespace -> class name, ``{"encoder/layers/0": "TransformerEncoderLayer"}``. A module that
        no `watch` saw running, and that is not known by name, is left out; so is the outermost one.

    Example::

        >>> import torch
        >>> from gradwalk.features.module_inference.infer_modules import inferred_namespaces
        >>> from gradwalk.graph.capture import capture_nodes
        >>> from gradwalk.graph.names import read_names
        >>> from gradwalk.graph.outputs import read_outputs
        >>> from gradwalk.tracing.annotate import annotate
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        >>> names = read_names(net, "capture")
        >>> outputs = read_outputs((net(torch.ones(1, 2)).sum(),), "capture")
        >>> captured = annotate(capture_nodes(outputs, names), names, infer=False)
        >>> classes_of_modules(captured, names.classes, inferred_namespaces(captured, names)())
        {'0': 'Linear', '1': 'Linear'}
    """
    drawn = captured.drawn
    spaces: Iterable[str | None] = inferred.values()
    if not inferred:
        spaces = (space for _, space in drawn.nodes(data="namespace"))
        known = _watched(captured, known)
    used = {space for inner in set(spaces) if inner for space in ancestors(inner, "/")} - {""}
    by_space = {path.replace(".", "/"): kind for path, kind in known.items()}
    return {space: by_space[space] for space in sorted(used) if space in by_space}


def _watched(captured: Annotated, known: Mapping[str, str]) -> dict[str, str]:
    """Path -> class of modules that ran, and of containers whose name is known."""
    seen: dict[str, set[str]] = {}
    for call in {call for each in captured.annotations.values() for call in each.modules}:
        seen.setdefault(call[0], set()).add(call[1])
    # Two watched models may both have a module of this name.
    ran = {path: kinds.pop() for path, kinds in seen.items() if len(kinds) == 1}
    if len(seen.get("", ())) > 1 or "" not in ran:
        return ran
    for prefix in (path for path, kind in known.items() if kind == ran[""]):
        start = f"{prefix}." if prefix else ""
        if all(known.get(start + path if path else prefix) == kind for path, kind in ran.items()):
            inner = {p[len(start) :]: k for p, k in known.items() if p.startswith(start)}
            return {**inner, **ran}
    return ran
