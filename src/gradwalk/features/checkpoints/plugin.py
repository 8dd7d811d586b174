"""What checkpointed regions add to the core: their boxes and sentences."""

from __future__ import annotations

from ...sources.live_drawing import FIND_REGIONS
from .regions import drawn_regions

FIND_REGIONS.add(drawn_regions)
