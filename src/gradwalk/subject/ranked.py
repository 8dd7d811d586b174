"""The graphs of the ranks of one run as one: that of one rank, with what the others say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..findings.finding import Finding
from ..findings.judge import Limits
from ..findings.leaf_over_ranks import LeafOverRanks, in_words, not_as_most, number_of, reduced_of
from ..findings.over_ranks import about_leaf, findings_over_ranks
from ..findings.replicas import are_replicas
from ..graph.names import Names
from ..matching.match import match
from ..wire import DetailsModel, FindingModel, GraphModel, RankGradModel
from ..wire.ranks import RankLeafModel, RankModel, rank_in, summary_of
from ..wire.saved_graph import SavedGraph, unpack
from .joined import Stage, joined
from .opened import Opened
from .rank_bars import are_odd, ranks_model
from .stages import chain_of, received_by, stages_of, ties_among

_MOST_ROWS = 64
"""Ranks of which a page or a file has the gradients of every leaf: it would grow with both."""


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
        apart: Those whose graphs have nothing in common with the one that is shown.
    """

    def __init__(
        self,
        saved: SavedGraph,
        rank: int,
        ranks: Sequence[RankModel],
        pairs: Mapping[int, Mapping[int, int]],
        alike: Alike,
        *,
        on_rank: Callable[[int], Ranked],
    ) -> None:
        """Show the graph of one rank, or those of the stages of a pipeline as one.

        Args:
            saved: It.
            rank: Which rank's it is, or was asked for.
            ranks: What all of them say, ascending.
            pairs: Rank -> node of the shown graph -> the same node of that rank's; a rank that is
                not in it has the same graph.
            alike: Which ranks do the same.
            on_rank: Gives the same with the graph of another of them.
        """
        super().__init__(saved)
        self.ranks = ranks
        self.apart = alike.apart
        self.on_rank = on_rank
        self.loaded_ranks = [said["rank"] for said in ranks]
        bars = ranks_model(rank, ranks, len(self.graph), pairs, alike.ranks_at)
        self._model: GraphModel = {**saved["graph"], "ranks": bars}
        self._pairs = pairs
        self._alike = alike
        self._leaves = _side_by_side(ranks, pairs, alike)
        self._are_copies = are_replicas(self._leaves)
        self._rows = {leaf.node: leaf for leaf in self._leaves if leaf.node is not None}
        self._told: dict[int, tuple[str, list[RankGradModel]]] = {}

    @property
    def model(self) -> GraphModel:
        """What is drawn, with what the other ranks say of each node."""
        return self._model

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """What the panel shows of a node, and of a leaf what it is on each rank."""
        found = super().details(node, cursor)
        among = self._alike.ranks_at(node)
        without = sorted(r for r, pairs in self._pairs.items() if r in among and node not in pairs)
        about = found["about"]
        if without and self.drawn.nodes[node]["kind"] in {"op", "leaf"}:
            about = f"The graph of {in_words(without)} has no such node. {about}"
        told, rows = self._on_ranks(node)
        return {
            **found,
            "about": about,
            "explained": " ".join(filter(None, (found["explained"], told))) or None,
            "ranks": rows,
        }

    def looking(self) -> Callable[[int, int | None], DetailsModel]:
        """`details`, of many ranks with those that are not as most and the first of the others."""

        def look(node: int, cursor: int | None = None) -> DetailsModel:
            found = self.details(node, cursor)
            if len(found["ranks"]) > _MOST_ROWS:
                kept = sorted(found["ranks"], key=lambda row: not row["odd"])[:_MOST_ROWS]
                found["ranks"] = sorted(kept, key=lambda row: row["rank"])
            return found

        return look

    def _on_ranks(self, node: int) -> tuple[str, list[RankGradModel]]:
        """What there is to say of a leaf between the ranks, the same at every cursor."""
        leaf = self._rows.get(node)
        if leaf is None:
            return "", []
        if node not in self._told:
            told = about_leaf(self.ranks, leaf, self._are_copies)
            self._told[node] = told, self._gradients(leaf)
        return self._told[node]

    def _gradients(self, leaf: LeafOverRanks) -> list[RankGradModel]:
        found: list[RankGradModel] = []
        for said in self.ranks:
            on = leaf.on.get(said["rank"])
            if on is None and said["rank"] not in leaf.among:
                continue  # another stage of a pipeline has other leaves
            found.append(
                {
                    "rank": said["rank"],
                    "local": None if on is None else summary_of(on["local"]),
                    "reduced": None if on is None else summary_of(on["reduced"]),
                    "difference": None if on is None else summary_of(on["difference"]),
                    "bucket": None if on is None else on["bucket"],
                    "ready": None if on is None else on["ready"],
                    "odd": False,
                }
            )
        local = are_odd([number_of(row["local"] and row["local"]["norm"]) for row in found])
        _, others = not_as_most(leaf, reduced_of)
        for row, is_odd in zip(found, local, strict=True):
            row["odd"] = is_odd or row["rank"] in others
        return found

    def findings(
        self,
        called: Names,
        limits: Limits | None = None,
        *,
        is_explicit: bool = False,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> list[Finding]:
        """What is found between the ranks, then what was found on those that are shown."""
        asked: dict[str, Any] = {"is_explicit": is_explicit, "optimizers": optimizers}
        own = super().findings(called, limits, **asked)
        return [*findings_over_ranks(self.ranks, self._leaves, self.apart), *own]


@dataclass(frozen=True)
class Alike:
    """Which ranks do the same: all replicas, or those of one stage of a pipeline.

    Attributes:
        sets: By rank the number of the set that it is of.
        shown: By node of the shown graph that number, where more than one set is shown.
        whole: The number of the set that is shown, if it is one.
        apart: Ranks whose graphs have nothing in common with the one that is shown.
    """

    sets: Mapping[int, int]
    shown: Mapping[int, int]
    whole: int
    apart: Sequence[int]

    def ranks_at(self, node: int) -> frozenset[int]:
        """The ranks that should have a node of the shown graph."""
        return self.ranks_of(self.shown.get(node, self.whole))

    def ranks_of(self, number: int) -> frozenset[int]:
        """The ranks of one set."""
        return frozenset(rank for rank, each in self.sets.items() if each == number)


def read_ranks(
    files: Sequence[tuple[bytes, str]], rank: int | None, max_nodes: int | None
) -> Ranked:
    """Lay the files of the ranks of one run side by side.

    Ranks with the same graph are one picture. So are the stages of a pipeline, each in its box,
    where what one sent the other can be told from what the files say.

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
    return _with_graph_of(rank, ranks, max_nodes)


def _with_graph_of(rank: int, ranks: Mapping[int, RankFile], max_nodes: int | None) -> Ranked:
    says = [ranks[each].says for each in sorted(ranks)]
    ties = ties_among(says)
    sets = stages_of(says, ties)
    chain = chain_of(rank, ties)
    graphs = {each: _opened(ranks[each], max_nodes) for each in chain}
    saved = graphs[rank]
    pairs: dict[int, Mapping[int, int]] = {}
    if len(chain) > 1:
        last = max(sets[each] for each in chain)
        stages = [Stage(each, last - sets[each], graphs[each]) for each in chain]
        saved, whole = joined(stages, [tie for tie in ties if tie.rank in graphs])
        pairs.update(whole)
    shown = {node: sets[each] for each, own in pairs.items() for node in own}
    for like in chain:
        same = [file for each, file in ranks.items() if sets[each] == sets[like]]
        differing = _differing(ranks[like], graphs[like], same, max_nodes)
        for other, found in differing.items():
            found.update(zip(received_by(like, ties), received_by(other, ties), strict=False))
        own = pairs.get(like)
        if own is None:
            pairs.update(differing)
            continue
        for other in (file.says["rank"] for file in same if file.says["rank"] not in graphs):
            theirs = differing.get(other)
            pairs[other] = (
                own
                if theirs is None
                else {node: theirs[mine] for node, mine in own.items() if mine in theirs}
            )
    are_shown = {sets[each] for each in chain}
    apart = sorted(each for each in ranks if sets[each] not in are_shown)
    pairs.update({each: {} for each in apart})
    alike = Alike(sets, shown, sets[rank], apart)
    again = partial(_with_graph_of, ranks=ranks, max_nodes=max_nodes)
    return Ranked(saved, rank, says, pairs, alike, on_rank=again)


def _differing(
    shown: RankFile, saved: SavedGraph, files: Sequence[RankFile], max_nodes: int | None
) -> dict[int, dict[int, int]]:
    """By rank whose graph is another: node of the shown one -> the same node there."""
    found: dict[int, dict[int, int]] = {}
    known: dict[str, dict[int, int]] = {}  # ranks that lack the same are opened once
    graph = None
    for file in files:
        structure = file.says["structure"]
        if structure == shown.says["structure"]:
            continue
        if structure not in known:
            graph = graph or Opened(saved).graph
            there = Opened(unpack(file.data, file.name, max_nodes)).graph
            pairs = match(graph, there).pairs
            known[structure] = _with_names(pairs, shown.says, file.says)
        found[file.says["rank"]] = known[structure]
    return found


def _opened(file: RankFile, max_nodes: int | None) -> SavedGraph:
    """The graph of a rank, whose findings say that they are its own."""
    saved = unpack(file.data, file.name, max_nodes)
    said = f"Rank {file.says['rank']}: "
    findings: list[FindingModel] = [
        {**found, "message": f"{said}{found['message']}"} for found in saved["findings"]
    ]
    return {**saved, "findings": findings}


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
    ranks: Sequence[RankModel], pairs: Mapping[int, Mapping[int, int]], alike: Alike
) -> list[LeafOverRanks]:
    """The leaves of all ranks, those of the shown graph first."""
    rows: dict[int | tuple[int, str], dict[int, RankLeafModel]] = {}
    for said in ranks:
        rank = said["rank"]
        shown_of = {there: here for here, there in pairs[rank].items()} if rank in pairs else None
        for leaf in said["leaves"]:
            node = leaf["node"] if shown_of is None else shown_of.get(leaf["node"])
            other = alike.sets[rank], leaf["name"] or f"leaf {leaf['node']}"
            rows.setdefault(other if node is None else node, {})[rank] = leaf
    among = {number: alike.ranks_of(number) for number in set(alike.sets.values())}
    return [
        LeafOverRanks(
            next((each["name"] for each in on.values() if each["name"]), None)
            or (key[1] if isinstance(key, tuple) else f"leaf {key}"),
            key if isinstance(key, int) else None,
            on,
            among[alike.sets[next(iter(on))]],
        )
        for key, on in sorted(rows.items(), key=lambda row: _place(row[0]))
    ]


def _place(key: int | tuple[int, str]) -> tuple[bool, int, str]:
    return (False, key, "") if isinstance(key, int) else (True, *key)
