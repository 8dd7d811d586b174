"""What ranks add to the core: `gradwalk.load` opens the files of all ranks as one."""

from __future__ import annotations

from ...export.open_file import OPENERS
from .compare_ranks import incomplete
from .ranked_graph import Ranked, read_ranks


def _open_ranks(
    files: list[tuple[bytes, str]], rank: int | None, max_nodes: int | None
) -> tuple[Ranked, list[str]]:
    """Return the graph of several ranks, and what the user should know about the files."""
    ranked = read_ranks(files, rank, max_nodes)
    return ranked, incomplete(ranked.ranks, ranked.apart)


OPENERS.add(_open_ranks)
