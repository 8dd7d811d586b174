"""What repeats adds to the core: boxes for the steps of loops, and for parts."""

from __future__ import annotations

from ...sources.live_drawing import BOXES
from .part_boxes import boxes_of_parts
from .step_boxes import boxes_of_steps

BOXES.add(boxes_of_steps)
BOXES.add(boxes_of_parts)
