"""What `held` adds to the core: a finding, and a controller of `GraphWidget`."""

from __future__ import annotations

from ...checks.run_checks import MORE_CHECKS
from ...widget.graph_widget import CONTROLLERS
from .held_controller import HeldController, held_findings

CONTROLLERS.add(HeldController)
MORE_CHECKS.add(held_findings)
