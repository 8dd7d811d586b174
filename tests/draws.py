"""Draws without Node and without a browser: what `make release-check` runs with the wheel."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

import gradwalk


def main() -> None:
    assert shutil.which("node") is None, "there is a Node on the PATH, so this proves nothing"
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    widget = gradwalk.GraphWidget((x * 3).exp().sum(), names={"x": x})
    widget.backward()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("svg", "png", "pdf", "html", "json"):
            file = Path(folder) / f"graph.{kind}"
            getattr(widget, f"to_{kind}")(file)
            print(f"gradwalk {gradwalk.__version__} wrote {file.stat().st_size:,} bytes of {kind}")


if __name__ == "__main__":
    main()
