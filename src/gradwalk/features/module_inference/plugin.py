"""What module inference adds to the core: a module or a box for each node that nobody watched."""

from __future__ import annotations

from ...sources.live_drawing import BOXES, INFER_MODULES
from .infer_modules import boxes_outside, inferred_namespaces

INFER_MODULES.add(inferred_namespaces)
BOXES.add(boxes_outside)
