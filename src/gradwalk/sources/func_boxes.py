"""Boxes and a sentence for the ``torch.func`` transforms around a graph."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.graph import GraphModel


def within_transforms(model: GraphModel, transforms: Sequence[str]) -> GraphModel:
    """The same graph in boxes, one in the other.

    Args:
        model: The graph.
        transforms: As `gradwalk.torch_api.func_transforms.transforms_around` gives them; without
            any the
            graph itself is given back.
    """
    if not transforms:
        return model
    box = "/".join(f"torch.func.{each}" for each in transforms)

    def boxed(space: str) -> str:
        return f"{box}/{space}" if space else box

    modules = model["modules"]
    return {
        **model,
        "nodes": [
            {**node, "namespace": boxed(node["namespace"] or "")}
            if node["kind"] == "op" or node["namespace"] is not None
            else node
            for node in model["nodes"]
        ],
        "modules": {**modules, "namespaces": [boxed(each) for each in modules["namespaces"]]},
        "checkpoints": [
            {**region, "box": None if region["box"] is None else boxed(region["box"])}
            for region in model["checkpoints"]
        ],
    }


def about_transforms(transforms: Sequence[str]) -> str:
    """Describe the transforms in a sentence; empty without any."""
    if not transforms:
        return ""
    hides = any(each.startswith("vmap") for each in transforms)
    samples = " Shapes are per sample, without the dimension of vmap." if hides else ""
    return f"Recorded within torch.func: {', in it '.join(transforms)}.{samples} "
