"""Boxes and sentences for the checkpointed regions of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from ...explain.checkpoints import about_region, saves
from ...graph.names import Names
from ...schema.graph import CheckpointModel
from ...sources.regions import Regions
from ...tracing.annotate import Annotated
from ...tracing.checkpoint_regions import innermost
from .recompute_memory import is_chosen, not_kept
from .region_boxes import boxes_of_regions


def drawn_regions(
    captured: Annotated, names: Names, inferred: Mapping[int, str], boxes: Mapping[int, str]
) -> Regions:
    """Describe the checkpointed regions of a graph; no part of the program runs.

    Args:
        captured: The graph.
        names: The user's names for modules.
        inferred: Node id -> namespace, where these are inferred.
        boxes: Node id -> the box of a node outside of modules.
    """
    found = boxes_of_regions(captured, names, inferred, boxes)
    models: list[CheckpointModel] = []
    for region, box in zip(found.regions, found.boxes, strict=True):
        memory = not_kept(captured, region)
        size = None if memory is None else memory.bytes
        is_all = memory is not None and memory.is_all and region.is_exact
        models.append(
            {
                "parent": region.parent,
                "box": box,
                "saves": saves(size, is_all=is_all),
                "about": about_region(
                    region,
                    size,
                    None if memory is None else memory.inputs,
                    is_all=is_all,
                    has_policy=is_chosen(region),
                ),
            }
        )
    return Regions(models, innermost(found.regions), found.spaces, found.modules)
