"""What `dependencies` adds to the core: a finding about rows that mix."""

from __future__ import annotations

from ...checks.run_checks import MORE_CHECKS
from .mixed_rows import mixed_rows

MORE_CHECKS.add(mixed_rows)
