"""The graph of one rank, with the gradients of the other ranks of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from ...checks.finding import Finding
from ...schema.details import DetailsModel, RankGradModel
from ...schema.file_format import SavedGraphModel, is_autograd, unpack
from ...schema.findings import FindingModel
from ...schema.graph import EdgeRanksModel, GraphModel
from ...schema.ranks import RankLeafModel, RankModel, rank_in, summary_of
from ...sources.graph_source import DiagnosisRequest
from ...sources.saved_graph import SavedGraph
from .compare_ranks import about_leaf, are_replicas, findings_over_ranks
from .leaf_over_ranks import (
    LeafOverRanks,
    are_odd,
    as_ranks,
    not_as_most,
    number_of,
    ranks_model,
    reduced_of,
)
from .united_graph import United


@dataclass(frozen=True)
class RankFile:
    """The file of one rank."""

    name: str  # its name
    data: bytes  # its contents
    report: RankModel  # the rank's report


def opened_file(file: RankFile, max_nodes: int | None) -> SavedGraphModel:
    """Return the graph of a rank, with the rank's number in its findings."""
    saved = unpack(file.data, file.name, max_nodes)
    prefix = f"Rank {file.report['rank']}: "
    findings: list[FindingModel] = [
        {**found, "message": f"{prefix}{found['message']}"} for found in saved["findings"]
    ]
    return {**saved, "findings": findings}


def read_rank_file(data: bytes, name: str) -> RankFile:
    """Read the report of a rank from its file."""
    report = rank_in(data, name)
    if report is None:
        raise ValueError(
            f"{name!r} is of no rank: it was saved where torch.distributed was not initialised. "
            "Give load() the files that the ranks of one run have saved, or this one alone."
        )
    return RankFile(name, data, report)


def of_one_run(files: Sequence[RankFile]) -> dict[int, RankFile]:
    """Sort the files by rank."""
    found: dict[int, RankFile] = {}
    first = files[0]
    for file in files:
        ours, theirs = first.report, file.report
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
                "file of each rank. If a rank has several pipeline stages (an interleaved "
                "schedule), give the file of one stage."
            )
    return found


def _run(report: RankModel) -> str:
    named = f"{report['run']}, " if report["run"] is not None else ""
    return f"{named}{report['world_size']} ranks"


_MOST_ROWS = 64  # most ranks whose gradients of every leaf go into a page or file

_MOST_KINDS = 8  # most differing graphs that are drawn, because matching each takes time


class Ranked(SavedGraph):
    """The files of several ranks; see `gradwalk.sources.graph_source.GraphSource`.

    Attributes:
        ranks: The reports of the ranks, ascending.
        apart: The ranks whose graphs have nothing in common with the shown one, although they are
            not stages of a pipeline.
    """

    def __init__(
        self,
        saved: SavedGraphModel,
        rank: int,
        ranks: Sequence[RankModel],
        pairs: Mapping[int, Mapping[int, int]],
        alike: Alike,
        *,
        on_rank: Callable[[int], Ranked],
    ) -> None:
        """Show the graph of one rank.

        ``rank``: its rank, or the requested one. ``pairs``: rank -> node of the shown graph -> the
        same node of that rank's graph; a missing rank has the same graph.
        """
        super().__init__(saved)
        self.ranks = ranks
        staged = any(report["stage"] is not None for report in ranks)
        self.apart = [] if staged else sorted(alike.sets.keys() - alike.replicas)
        self.on_rank = on_rank
        self.loaded_ranks = [report["rank"] for report in ranks]
        count = sum(map(is_autograd, saved["graph"]["nodes"]))
        bars = ranks_model(rank, ranks, count, pairs, alike.replicas, edges=_edges(saved))
        self._model: GraphModel = {**saved["graph"], "ranks": bars}
        self._pairs = pairs
        self._alike = alike
        self._compared: dict[int, tuple[str, list[RankGradModel]]] = {}

    @cached_property
    def _leaves(self) -> list[LeafOverRanks]:
        return _side_by_side(self.ranks, self._pairs, self._alike)

    @cached_property
    def _rows(self) -> dict[int, LeafOverRanks]:
        return {leaf.node: leaf for leaf in self._leaves if leaf.node is not None}

    @cached_property
    def _are_copies(self) -> bool:
        return are_replicas(self._leaves)

    @property
    def model(self) -> GraphModel:
        """The drawn graph, with each node's gradient norms on the other ranks."""
        return self._model

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """Return the details of a node, and of a leaf also its gradients on each rank."""
        found = super().details(node, cursor)
        among = self._alike.replicas
        without = sorted(r for r, pairs in self._pairs.items() if r in among and node not in pairs)
        about = found["about"]
        if without and self.drawn.nodes[node]["kind"] in {"op", "leaf"}:
            about = f"The graph of {as_ranks(without)} has no such node. {about}"
        sentence, rows = self._on_ranks(node)
        return {
            **found,
            "about": about,
            "explained": " ".join(filter(None, (found["explained"], sentence))) or None,
            "ranks": rows,
        }

    def details_reader(self) -> Callable[[int, int | None], DetailsModel]:
        """Return `details`; of many ranks it lists the outliers and the first of the others."""

        def look(node: int, cursor: int | None = None) -> DetailsModel:
            found = self.details(node, cursor)
            if len(found["ranks"]) > _MOST_ROWS:
                kept = sorted(found["ranks"], key=lambda row: not row["odd"])[:_MOST_ROWS]
                found["ranks"] = sorted(kept, key=lambda row: row["rank"])
            return found

        return look

    def _on_ranks(self, node: int) -> tuple[str, list[RankGradModel]]:
        """The comparison of a leaf between the ranks, which does not depend on the cursor."""
        leaf = self._rows.get(node)
        if leaf is None:
            return "", []
        if node not in self._compared:
            sentence = about_leaf(self.ranks, leaf, self._are_copies)
            self._compared[node] = sentence, self._gradients(leaf)
        return self._compared[node]

    def _gradients(self, leaf: LeafOverRanks) -> list[RankGradModel]:
        found: list[RankGradModel] = []
        for report in self.ranks:
            on = leaf.on.get(report["rank"])
            if on is None and report["rank"] not in leaf.among:
                continue  # another stage of a pipeline has other leaves
            row: RankGradModel = {
                "rank": report["rank"],
                "local": on and summary_of(on["local"]),
                "reduced": on and summary_of(on["reduced"]),
                "difference": on and summary_of(on["difference"]),
                "bucket": on and on["bucket"],
                "ready": on and on["ready"],
                "odd": False,
            }
            found.append(row)
        local = are_odd([number_of(row["local"] and row["local"]["norm"]) for row in found])
        _, others = not_as_most(leaf, reduced_of)
        for row, is_odd in zip(found, local, strict=True):
            row["odd"] = is_odd or row["rank"] in others
        return found

    def findings(self, request: DiagnosisRequest | None = None) -> list[Finding]:
        """Return the findings between the ranks, then those on the shown ranks."""
        own = super().findings(request)
        return [*findings_over_ranks(self.ranks, self._leaves, self.apart), *own]


@dataclass(frozen=True)
class Alike:
    """The sets of replicas: all ranks, or the ranks of one pipeline stage."""

    sets: Mapping[int, int]  # rank -> the number of its set
    shown: int  # the number of the shown set

    @property
    def replicas(self) -> frozenset[int]:
        """The ranks of the shown set."""
        return self.ranks_of(self.shown)

    def ranks_of(self, number: int) -> frozenset[int]:
        """Return the ranks of one set."""
        return frozenset(rank for rank, each in self.sets.items() if each == number)


def sets_of(ranks: Sequence[RankModel]) -> dict[int, int]:
    """Number the set of each rank: its stage, or the ranks with a leaf of the same name."""
    found: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for report in ranks:
        names = [leaf["name"] for leaf in report["leaves"] if leaf["name"] is not None]
        new = len(set(by_name.values())) if names else 0
        known = next((by_name[name] for name in names if name in by_name), new)
        found[report["rank"]] = known if report["stage"] is None else report["stage"]
        for name in names:
            by_name.setdefault(name, known)
    return found


def read_ranks(
    files: Sequence[tuple[bytes, str]], rank: int | None, max_nodes: int | None
) -> Ranked:
    """Combine the files of the ranks of one run.

    Ranks with the same graph share one drawing. A pipeline shows the stage of one rank, with
    its replicas.

    ``rank``: the rank whose graph to show; None for the first one. ``max_nodes``: the largest
    number of nodes to open; None for no limit.
    """
    ranks = of_one_run([read_rank_file(data, name) for data, name in files])
    if rank is None:
        rank = min(ranks)
    if rank not in ranks:
        raise ValueError(
            f"load() was given rank={rank!r}, but the files are of {as_ranks(sorted(ranks))}. Give "
            "one of these."
        )
    return _with_graph_of(rank, ranks, max_nodes, {})


@dataclass(frozen=True)
class _Laid:
    """The union of the graphs of some replicas."""

    whole: United | None  # the union; None if all graphs are equal
    # Rank -> node of the union -> node of that rank's graph; empty if all are equal.
    pairs: Mapping[int, Mapping[int, int]]


def _with_graph_of(
    rank: int, ranks: Mapping[int, RankFile], max_nodes: int | None, known: dict[str, _Laid]
) -> Ranked:
    """Return the graph of one rank; ``known`` caches the unions."""
    reports = [ranks[each].report for each in sorted(ranks)]
    sets = sets_of(reports)
    shown = ranks[rank]
    saved = opened_file(shown, max_nodes)
    same = [ranks[other] for other in sorted(ranks) if sets[other] == sets[rank]]
    laid = _laid(shown, saved, same, max_nodes=max_nodes, known=known)
    if laid.whole is not None:
        saved = laid.whole.showing(shown.report["structure"], saved)
    others: dict[int, Mapping[int, int]] = {
        each: {} for each in sorted(ranks) if sets[each] != sets[rank]
    }
    again = partial(_with_graph_of, ranks=ranks, max_nodes=max_nodes, known=known)
    alike = Alike(sets, sets[rank])
    return Ranked(saved, rank, reports, {**laid.pairs, **others}, alike, on_rank=again)


def _laid(
    shown: RankFile,
    saved: SavedGraphModel,
    files: Sequence[RankFile],
    *,
    max_nodes: int | None,
    known: dict[str, _Laid],
) -> _Laid:
    """Unite the graphs of replicas."""
    kinds: dict[str, RankFile] = {}
    for file in files:
        kinds.setdefault(file.report["structure"], file)
    if len(kinds) == 1:
        return _Laid(None, {})
    structure = shown.report["structure"]
    drawn = [*kinds][:_MOST_KINDS]
    if structure not in drawn:
        drawn[-1] = structure
    key = " ".join(drawn)
    if key not in known:
        graphs = {
            kind: saved if kinds[kind] is shown else opened_file(kinds[kind], max_nodes)
            for kind in drawn
        }
        first = {kind: file.report["rank"] for kind, file in kinds.items()}
        whole = United(graphs, {kind: first[kind] for kind in drawn})
        pairs = {kind: whole.pairs(kind) for kind in drawn}
        for kind, file in kinds.items():
            if kind not in pairs:
                there = SavedGraph(unpack(file.data, file.name, max_nodes)).graph
                pairs[kind] = whole.matched(there)
        known[key] = _Laid(whole, {f.report["rank"]: pairs[f.report["structure"]] for f in files})
    return known[key]


def _edges(saved: SavedGraphModel) -> list[EdgeRanksModel]:
    """Return the edges that some ranks lack."""
    return [
        {"edge": place, "here": more["ranks"] == "some"}
        for place, more in enumerate(saved["network"]["edges"])
        if "ranks" in more
    ]


def _side_by_side(
    ranks: Sequence[RankModel], pairs: Mapping[int, Mapping[int, int]], alike: Alike
) -> list[LeafOverRanks]:
    """Return the leaves of all ranks, the shown graph's first.

    A leaf without a name that is not matched is compared between equal graphs alone.
    """
    graphs: dict[int, set[str]] = {}
    for report in ranks:
        graphs.setdefault(alike.sets[report["rank"]], set()).add(report["structure"])
    rows: dict[int | tuple[int, str], dict[int, RankLeafModel]] = {}
    for report in ranks:
        rank = report["rank"]
        shown_of = {there: here for here, there in pairs[rank].items()} if rank in pairs else None
        for leaf in report["leaves"]:
            node = leaf["node"] if shown_of is None else shown_of.get(leaf["node"])
            if leaf["name"] is None and node is None and len(graphs[alike.sets[rank]]) > 1:
                continue
            other = alike.sets[rank], leaf["name"] or f"leaf {leaf['node']}"
            rows.setdefault(other if node is None else node, {})[rank] = leaf
    among = {number: alike.ranks_of(number) for number in set(alike.sets.values())}
    found = []
    for key in sorted(rows, key=lambda k: (0, k, "") if isinstance(k, int) else (1, *k)):
        on = rows[key]
        named = next((each["name"] for each in on.values() if each["name"]), None)
        name = named or (f"leaf {key}" if isinstance(key, int) else key[1])
        node = key if isinstance(key, int) else None
        due = among[alike.sets[next(iter(on))]]
        found.append(LeafOverRanks(name, node, on, due if named else due & on.keys()))
    return found
