"""What repeats adds to the core: a box for each step of a loop."""

from __future__ import annotations

from ...sources.live_drawing import BOXES
from .step_boxes import boxes_of_steps

BOXES.add(boxes_of_steps)
