"""What this feature adds to the core: a look at the backward passes of a followed step."""

from __future__ import annotations

from ...tracing.around_backward import AROUND_BACKWARD
from .look import around

AROUND_BACKWARD.add(around)
