"""The built front end, which travels with the package."""

from __future__ import annotations

from pathlib import Path

_ASSETS = Path(__file__).parent / "assets"


def bundle(name: str) -> str:
    """Return the text of a file of the built front end."""
    path = _ASSETS / name
    if not path.exists():
        raise ImportError(
            f"gradwalk's browser bundle {path} is missing: this is a source checkout that has not "
            "been built. Run `make build` in its root, or `npm ci && npm run build` in js."
        )
    return path.read_text(encoding="utf-8")
