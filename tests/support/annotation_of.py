"""What `watch` recorded about one node, without a capture of its graph."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.autograd.graph import Node

from gradwalk.tracing.annotations import Annotation, _annotation
from gradwalk.tracing.records import find_record, threads_of


def annotation_of(node: Node, outputs: Iterable[torch.Tensor] = ()) -> Annotation | None:
    """None for leaves and unwatched nodes; ``outputs`` say which threads may have made it."""
    record = find_record(node, threads_of(outputs))
    return None if record is None else _annotation(record, node)
