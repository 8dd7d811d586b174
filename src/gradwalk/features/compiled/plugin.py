"""What compiled code adds to the core: nodes that open, and names for what they saved."""

from __future__ import annotations

from collections.abc import Sequence

from torch.autograd.graph import Node

from ...comparison.difference import COUNTERPARTS
from ...panel.details import SAVED_NAMES
from ...sources.inner_graph import Inside
from ...sources.open_nodes import OPENERS
from ...torch_api.nodes import compiled_nodes
from ...tracing.annotate import Annotated
from .compiled_calls import compiled_inside, names_of_saved
from .counterparts import counterparts


class _CompiledOpener:
    """Opens what `torch.compile` made into the calls of its backward program."""

    def places(self, nodes: Sequence[Node]) -> Sequence[int]:
        """Return the places of the nodes that run compiled code."""
        return compiled_nodes(nodes)

    def read(self, captured: Annotated, node: int, max_bytes: int) -> Inside:
        """Read the calls of its backward program."""
        return compiled_inside(captured, node, max_bytes)


OPENERS.add(_CompiledOpener())
SAVED_NAMES.add(names_of_saved)
COUNTERPARTS.add(counterparts)
