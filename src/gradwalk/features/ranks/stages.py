"""Group ranks into pipelines, and tie the outputs of stages to inputs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...explain.describe_node import READY, WAITS
from ...schema.details import StageModel
from ...schema.file_format import SavedGraphModel
from ...schema.graph import NodeModel
from ...schema.ranks import RankLeafModel, RankModel, StatisticsModel
from ...schema.values import JsonNumber


@dataclass(frozen=True)
class Part:
    """A stage within the joined graph.

    Attributes:
        rank: Its rank.
        box: The name of its box.
        saved: Its graph, with the node ids of the joined graph.
        nodes: Node of the file -> node of the joined graph.
        before: The number of steps of other stages before its own.
    """

    rank: int
    box: str
    saved: SavedGraphModel
    nodes: list[int]
    before: int


@dataclass(frozen=True)
class End:
    """A tie within the joined graph.

    Attributes:
        tie: The tie.
        leaf: The node of the received tensor.
        root: The node of the sent tensor.
        edge: The index of the edge between them.
        step: The number of steps after which the gradient has arrived.
    """

    tie: Tie
    leaf: int
    root: int
    edge: int
    step: int


def details_of(part: Part, ends: Sequence[End]) -> list[list[StageModel] | None]:
    """Return the details of a stage's nodes, at the cursors of the joined pass."""
    begin: dict[int, dict[int, End]] = {}  # node -> which of its outputs -> where it was sent
    for end in ends:
        begin.setdefault(end.root, {})[end.tie.output_nr] = end
    found: list[list[StageModel] | None] = []
    for node, stages in zip(part.nodes, part.saved["details"], strict=True):
        if stages is None:
            found.append(None)
            continue
        later = [_later(stage, part.before, begin.get(node, {})) for stage in stages]
        fields = later[0]["fields"]
        if fields["state"] == "ready" and part.before:
            # No gradient arrives from the next stage before that stage runs.
            then: StageModel = {
                "from_step": part.before,
                "fields": {name: fields[name] for name in ("state", "grad_note")},
            }
            waits = {**fields, "state": "waiting", "grad_note": _waiting(fields["grad_note"])}
            is_seen = len(later) == 1 or later[1]["from_step"] > part.before
            later = [{"from_step": 0, "fields": waits}, *([then] if is_seen else []), *later[1:]]
        found.append(later)
    return found


def _later(stage: StageModel, before: int, sent: Mapping[int, End]) -> StageModel:
    """Move a change of details from a step of the stage to its step in the joined pass."""
    fields = dict(stage["fields"])
    shares = fields.get("contributions")
    if shares is not None:
        fields["contributions"] = [
            {**share, "step": before + share["step"]}
            if share["consumer"] is not None or (end := sent.get(share["output_nr"])) is None
            else {
                **share,
                "step": end.step,
                "consumer": end.leaf,
                "label": f"from rank {end.tie.to_rank}",
            }
            for share in shares
        ]
    step = stage["from_step"]
    return {"from_step": before + step if step else 0, "fields": fields}


def _waiting(notes: dict[str, str | None]) -> dict[str, str | None]:
    return {name: WAITS if note == READY else note for name, note in notes.items()}


def tie_details(
    end: End, nodes: Sequence[NodeModel], details: Sequence[list[StageModel] | None]
) -> None:
    """Add the two ends of a tie to their nodes' details."""
    # Once, however many of its outputs went there.
    sentence = (
        f"Its output was sent to rank {end.tie.to_rank}, the next stage of the pipeline, and the "
        "gradient that arrives here came from there."
    )
    leaf, root, shape = details[end.leaf], details[end.root], nodes[end.root]["shape"]
    received = (
        f"The output of the stage before, which rank {end.tie.rank} sent. The gradient that "
        f"arrives here is sent to rank {end.tie.rank}, and backward starts from it there."
    )
    for stage in leaf or ():
        _put(stage["fields"], "about", lambda about: f"{received} {about}")
        _put(stage["fields"], "kind", lambda _: "op")
        _put(
            stage["fields"],
            "inputs",
            lambda inputs: [
                *inputs,
                {
                    "arg_nr": 0,
                    "argument": None,
                    "node": end.root,
                    "output_nr": end.tie.output_nr,
                    "label": nodes[end.root]["label"],
                    "shape": shape,
                },
            ],
        )
        _put(stage["fields"], "input_count", lambda count: count + 1)
    for stage in root or ():
        _put(
            stage["fields"],
            "about",
            lambda about: about if sentence in about else f"{about} {sentence}",
        )
        _put(
            stage["fields"],
            "consumers",
            lambda consumers: [
                *consumers,
                {
                    "node": end.leaf,
                    "arg_nr": 0,
                    "argument": None,
                    "output_nr": end.tie.output_nr,
                    "label": nodes[end.leaf]["label"],
                },
            ],
        )
        _put(stage["fields"], "consumer_count", lambda count: count + 1)


def _put(fields: dict[str, Any], name: str, change: Callable[[Any], Any]) -> None:
    if name in fields:
        fields[name] = change(fields[name])


@dataclass(frozen=True)
class Tie:
    """An output of one stage, and the input that it is in the next stage.

    Attributes:
        rank: The rank of the output.
        node: The node of the output in that rank's graph.
        output_nr: The output's number at this node.
        to_rank: The rank of the next stage.
        leaf: The leaf of the input in that rank's graph.
    """

    rank: int
    node: int
    output_nr: int
    to_rank: int
    leaf: int


def pipelines_of(ranks: Sequence[RankModel]) -> list[list[int]]:
    """Group ranks by pipeline; replica i of each stage is in pipeline i."""
    by_stage: dict[int | None, list[int]] = defaultdict(list)
    for report in ranks:
        by_stage[report["stage"]].append(report["rank"])
    if by_stage.keys() == {None}:
        return []
    stages = [by_stage.get(stage, []) for stage in range(len(by_stage))]
    if len({len(replicas) for replicas in stages}) > 1 or [] in stages:
        found = ", ".join(f"{report['rank']}: {report['stage']}" for report in ranks)
        raise ValueError(
            f"These files lack a stage or some of its ranks (stage by rank: {found}). Save each "
            "rank with gradwalk.save(..., stage=), from stage 0, and give load() all of the files."
        )
    return [list(pipeline) for pipeline in zip(*reversed(stages), strict=True)]


def ties_among(ranks: Sequence[RankModel], pipelines: Iterable[Sequence[int]]) -> list[Tie]:
    """Tie the outputs of each stage to the inputs of the next stage.

    An output and an input fit where their gradients have the same shape, dtype, norm and extremes.
    Where several do, the order decides.
    """
    of_rank = {report["rank"]: report for report in ranks}
    found: list[Tie] = []
    for pipeline in pipelines:
        for later, earlier in pairwise(pipeline):
            ties = _ties(of_rank[earlier], of_rank[later])
            if not ties:
                raise ValueError(
                    f"No output on rank {earlier} fits an input of the next stage, rank {later}: "
                    "their gradients differ in shape or values. Save all stages after the backward "
                    "pass of the same micro-batch."
                )
            found += ties
    return found


def _ties(earlier: RankModel, later: RankModel) -> list[Tie]:
    inputs = [(leaf, leaf["local"]) for leaf in _inputs(later)]
    found = []
    for output in earlier["outputs"]:
        sent = output["grad"]
        place = next((i for i, (_, grad) in enumerate(inputs) if _is_same(sent, grad)), None)
        if place is not None:
            leaf, _ = inputs.pop(place)
            end = later["rank"], leaf["node"]
            found.append(Tie(earlier["rank"], output["node"], output["output_nr"], *end))
    return found


def _inputs(report: RankModel) -> list[RankLeafModel]:
    """The leaves that may be a stage's inputs, unnamed ones first."""
    found = [leaf for leaf in report["leaves"] if not leaf["is_parameter"]]
    return sorted(found, key=lambda leaf: leaf["name"] is not None)


def _is_same(one: StatisticsModel | None, other: StatisticsModel | None) -> bool:
    if one is None or other is None:
        return False
    is_kind = one["shape"] == other["shape"] and one["dtype"] == other["dtype"]
    pairs = (one["norm"], other["norm"]), (one["min"], other["min"]), (one["max"], other["max"])
    return is_kind and all(_is_close(*pair) for pair in pairs)


def _is_close(one: JsonNumber | None, other: JsonNumber | None) -> bool:
    """Compare statistics; norms may be summed in different orders."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-6)
    return one == other


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


def received_by(rank: int, ties: Iterable[Tie]) -> list[int]:
    """List the inputs of a rank's stage, in the order of the outputs that they were."""
    found = [tie for tie in ties if tie.to_rank == rank]
    return [tie.leaf for tie in sorted(found, key=lambda tie: (tie.node, tie.output_nr))]


def pipeline_of(rank: int, pipelines: Iterable[Sequence[int]]) -> Sequence[int]:
    """Give the pipeline of a rank; the rank alone where it is in none."""
    return next((each for each in pipelines if rank in each), [rank])
