"""What is shown of the checkpointed regions of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...explain.checkpoints import about_region, saves
from ...graph.names import Names
from ...schema import CheckpointModel
from ...tracing.annotate import Annotated
from ...tracing.checkpoint_regions import innermost
from .recompute_memory import is_chosen, not_kept
from .region_boxes import boxes_of_regions


@dataclass(frozen=True)
class Checkpointed:
    """The checkpointed regions of a graph, as they are drawn.

    Attributes:
        models: The regions, by number.
        numbers: Node id -> the number of its innermost region.
        spaces: Node id -> namespace, of the nodes in boxes that are drawn for regions.
        modules: Namespace in such a box -> namespace of the module.
    """

    models: list[CheckpointModel]
    numbers: dict[int, int]
    spaces: dict[int, str]
    modules: dict[str, str]

    def about(self, node: int) -> str | None:
        """The sentence about the region of a node; None for a node in none."""
        number = self.numbers.get(node)
        return None if number is None else self.models[number]["about"]

    def with_classes(self, classes: Mapping[str, str]) -> dict[str, str]:
        """The classes of modules by namespace, for the boxes in those of regions as well."""
        inner = {space: classes[plain] for space, plain in self.modules.items() if plain in classes}
        return {**classes, **inner}


def checkpointed(
    captured: Annotated,
    names: Names,
    places: Callable[[], tuple[Mapping[int, str], Mapping[int, str]]],
) -> Checkpointed:
    """Look at the regions of a graph; no part of the program runs.

    Args:
        captured: The graph.
        names: What the user calls modules.
        places: Gives where nodes are, asked where there are regions alone: node id -> namespace,
            where these are inferred; node id -> the box that it is in outside of modules.
    """
    if not captured.regions:
        return Checkpointed([], {}, {}, {})
    inferred, boxes = places()
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
    return Checkpointed(models, innermost(found.regions), found.spaces, found.modules)
