"""Cost of files of 64 ranks, each with a graph of about 1,000 nodes, and of a page of them.

    python benchmarks/many_ranks.py

One process says that it is each rank in turn. Nothing is reduced, so that there is a finding.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from unittest import mock

import torch
from torch import nn

from gradwalk import GraphWidget, load, save

RANKS = 64


class Block(nn.Module):
    """A residual block of 13 nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of what came in and of what the layers make of it."""
        found: torch.Tensor = x + self.second(torch.relu(self.first(self.norm(x))))
        return found


def save_all(folder: Path) -> int:
    """Save the files of all ranks; the number of nodes of each graph."""
    model = nn.Sequential(*(Block() for _ in range(77)))
    count = 0
    for rank in range(RANKS):
        model.zero_grad()
        loss = model(torch.randn(4, 16)).square().mean()
        widget = GraphWidget(loss, names={"model": model})
        loss.backward()
        with mock.patch.multiple(
            torch.distributed,
            is_initialized=lambda: True,
            get_rank=lambda rank=rank: rank,
            get_world_size=lambda: RANKS,
        ):
            save(widget, folder / f"run-{rank:02}.gw")
        count = len(widget.model["nodes"])
        widget.close()
    return count


def main() -> None:
    """Print what it takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nodes = save_all(folder)
        size = sum(file.stat().st_size for file in folder.iterdir())
        start = time.process_time()
        widget = load(str(folder / "run-*.gw"))
        loaded = time.process_time()
        found = widget.diagnose()
        judged = time.process_time()
        page = widget.to_html(folder / "ranks.html")
        done = time.process_time()
    print(f"{RANKS} ranks of {nodes:,} nodes: {size / 10**6:.1f} MB of files")
    print(
        f"loaded in {loaded - start:.2f} s, {len(found)} findings in {judged - loaded:.2f} s, "
        f"a page of {len(page) / 10**6:.1f} MB in {done - judged:.2f} s of CPU"
    )


if __name__ == "__main__":
    main()
