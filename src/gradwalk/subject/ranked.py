"""The graphs of the ranks of one run as one: that of one rank, with what the others say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..findings.finding import Finding
from ..findings.judge import Limits
from ..findings.over_ranks import LeafOverRanks, findings_over_ranks, in_words
from ..graph.names import Names
from ..matching.match import match
from ..wire import DetailsModel, RankGradModel
from ..wire.ranks import RankLeafModel, RankModel, rank_in, summary_of
from ..wire.saved_graph import SavedGraph, unpack
from .opened import Opened


@dataclass(frozen=True)
class RankFile:
    """The file of one rank.

    Attributes:
        name: What to call it.
        data: What stands in it.
        says: What the rank says beside its graph.
    """

    name: str
    data: bytes
    says: RankModel


class Ranked(Opened):
    """What the files of several ranks hold; see `gradwalk.subject.subject.Subject`.

    Attributes:
        ranks: What each of them says, ascending.
    """

    def __init__(
        self,
        saved: SavedGraph,
        shown: int,
        ranks: Sequence[RankModel],
        pairs: Mapping[int, Mapping[int, int]],
    ) -> None:
        """Show the graph of one rank.

        Args:
            saved: It.
            shown: Which rank's it is.
            ranks: What all of them say, ascending.
            pairs: Rank -> node of the shown graph -> the same node of that rank's; a rank that is
                not in it has the same graph.
        """
        super().__init__(saved)
        self.ranks = ranks
        self._shown = shown
        self._pairs = pairs
        self._leaves = _side_by_side(ranks, pairs)
        self._rows = {leaf.node: leaf for leaf in self._leaves if leaf.node is not None}

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """What the panel shows of a node, and of a leaf what it is on each rank."""
        found = super().details(node, cursor)
        without = sorted(rank for rank, pairs in self._pairs.items() if node not in pairs)
        about = found["about"]
        if without and self.drawn.nodes[node]["kind"] in {"op", "leaf"}:
            about = f"The graph of {in_words(without)} has no such node. {about}"
        return {**found, "about": about, "ranks": self._gradients(node)}

    def _gradients(self, node: int) -> list[RankGradModel]:
        leaf = self._rows.get(node)
        if leaf is None:
            return []
        found: list[RankGradModel] = []
        for said in self.ranks:
            on = leaf.on.get(said["rank"])
            found.append(
                {
                    "rank": said["rank"],
                    "local": None if on is None else summary_of(on["local"]),
                    "reduced": None if on is None else summary_of(on["reduced"]),
                }
            )
        return found

    def findings(
        self,
        called: Names,
        limits: Limits | None = None,
        *,
        is_explicit: bool = False,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> list[Finding]:
        """What is found between the ranks, then what was found on the one that is shown."""
        asked: dict[str, Any] = {"is_explicit": is_explicit, "optimizers": optimizers}
        own = super().findings(called, limits, **asked)
        return [
            *findings_over_ranks(self.ranks, self._leaves),
            *(
                Finding(f.kind, f.severity, f.nodes, f"Rank {self._shown}: {f.message}", f.numbers)
                for f in own
            ),
        ]


def read_ranks(
    files: Sequence[tuple[bytes, str]], rank: int | None, max_nodes: int | None
) -> Ranked:
    """Lay the files of the ranks of one run side by side.

    Args:
        files: What stands in each, and its name.
        rank: The rank whose graph to show; None for the first that there is.
        max_nodes: Of the largest graph to open; None for any size.

    Raises:
        ValueError: A file is damaged, of no rank, or of another run than the others; or two are of
            one rank; or none is of ``rank``.
    """
    ranks = _of_one_run([_read(data, name) for data, name in files])
    if rank is None:
        rank = min(ranks)
    if rank not in ranks:
        raise ValueError(
            f"load() was given rank={rank!r}, but the files are of {in_words(sorted(ranks))}. Give "
            "one of these."
        )
    shown = ranks[rank]
    saved = unpack(shown.data, shown.name, max_nodes)
    pairs: dict[int, Mapping[int, int]] = {}
    graph = None
    for other, file in ranks.items():
        if file.says["structure"] != shown.says["structure"]:
            graph = graph or Opened(saved).graph
            there = Opened(unpack(file.data, file.name, max_nodes)).graph
            pairs[other] = _with_names(match(graph, there).pairs, shown.says, file.says)
    return Ranked(saved, rank, [ranks[each].says for each in sorted(ranks)], pairs)


def _with_names(pairs: dict[int, int], here: RankModel, there: RankModel) -> dict[int, int]:
    """Nodes that are the same, and the leaves left over that have the same name."""
    taken = set(pairs.values())
    left = {leaf["name"]: leaf["node"] for leaf in there["leaves"] if leaf["node"] not in taken}
    named = {
        leaf["node"]: left[leaf["name"]]
        for leaf in here["leaves"]
        if leaf["node"] not in pairs and leaf["name"] is not None and leaf["name"] in left
    }
    return pairs | named


def _read(data: bytes, name: str) -> RankFile:
    says = rank_in(data, name)
    if says is None:
        raise ValueError(
            f"{name!r} is of no rank: it was saved where torch.distributed was not initialised. "
            "Give load() the files that the ranks of one run have saved, or this one alone."
        )
    return RankFile(name, data, says)


def _of_one_run(files: Sequence[RankFile]) -> dict[int, RankFile]:
    """The files by rank."""
    found: dict[int, RankFile] = {}
    first = files[0]
    for file in files:
        ours, theirs = first.says, file.says
        if ours["world_size"] != theirs["world_size"] or (
            None not in (ours["run"], theirs["run"]) and ours["run"] != theirs["run"]
        ):
            raise ValueError(
                f"{file.name!r} is of another run ({_run(theirs)}) than {first.name!r} "
                f"({_run(ours)}). Give the files of one run."
            )
        other = found.setdefault(theirs["rank"], file)
        if other is not file:
            raise ValueError(
                f"{other.name!r} and {file.name!r} are both of rank {theirs['rank']}. Give one "
                "file of each rank."
            )
    return found


def _run(says: RankModel) -> str:
    named = f"{says['run']}, " if says["run"] is not None else ""
    return f"{named}{says['world_size']} ranks"


def _side_by_side(
    ranks: Sequence[RankModel], pairs: Mapping[int, Mapping[int, int]]
) -> list[LeafOverRanks]:
    """The leaves of all ranks, those of the shown graph first."""
    rows: dict[int | str, dict[int, RankLeafModel]] = {}
    for said in ranks:
        rank = said["rank"]
        shown_of = {there: here for here, there in pairs[rank].items()} if rank in pairs else None
        for leaf in said["leaves"]:
            node = leaf["node"] if shown_of is None else shown_of.get(leaf["node"])
            key = node if node is not None else leaf["name"] or f"leaf {leaf['node']}"
            rows.setdefault(key, {})[rank] = leaf
    return [
        LeafOverRanks(
            next((each["name"] for each in on.values() if each["name"]), None) or f"leaf {key}",
            key if isinstance(key, int) else None,
            on,
        )
        for key, on in sorted(rows.items(), key=lambda row: (isinstance(row[0], str), row[0]))
    ]
