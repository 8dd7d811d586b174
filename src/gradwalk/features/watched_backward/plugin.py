"""What this feature adds to the core: `watch()` records the backward passes of the program."""

from __future__ import annotations

from ...tracing.around_backward import AROUND_BACKWARD
from .record_own import recorded

AROUND_BACKWARD.add(recorded)
