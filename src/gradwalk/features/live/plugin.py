"""What live pages add to the core: `to_html` with ``live=True``."""

from __future__ import annotations

from ...export.html import LIVE
from .write_page import live_parts

LIVE.add(live_parts)
