"""Builds the browser bundle into the package, so that every wheel carries it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundleHook(BuildHookInterface[Any]):
    """Runs the front end's build unless the bundle is there and newer than its sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Called by hatchling before it collects files."""
        root = Path(self.root)
        bundle = root / "src" / "gradwalk" / "assets" / "widget.js"
        if bundle.exists() and bundle.stat().st_mtime >= _newest_source(root / "js"):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(
                "Building gradwalk from source needs Node.js: npm was not found. Install Node 20 "
                "or newer, or install a released wheel, which carries the built bundle."
            )
        if not (root / "js" / "node_modules").exists():
            subprocess.run([npm, "ci"], cwd=root / "js", check=True)
        subprocess.run([npm, "run", "build"], cwd=root / "js", check=True)


def _newest_source(folder: Path) -> float:
    sources = (
        path
        for pattern in ("*.ts", "*.css", "*.mjs", "package*.json")
        for path in folder.rglob(pattern)
        if "node_modules" not in path.parts
    )
    return max((path.stat().st_mtime for path in sources), default=0.0)
