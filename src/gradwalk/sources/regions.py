"""The checkpointed regions of a graph, as they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..schema.graph import CheckpointModel


@dataclass(frozen=True)
class Regions:
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
        """Return the sentence about a node's region; None outside of regions."""
        number = self.numbers.get(node)
        return None if number is None else self.models[number]["about"]

    def with_classes(self, classes: Mapping[str, str]) -> dict[str, str]:
        """The classes of modules by namespace, for the boxes in those of regions as well."""
        inner = {space: classes[plain] for space, plain in self.modules.items() if plain in classes}
        return {**classes, **inner}


NO_REGIONS = Regions([], {}, {}, {})
"""The regions of a graph without checkpointed parts."""
