"""Group ranks into pipelines, and tie the outputs of stages to inputs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...schema.ranks import RankLeafModel, RankModel, StatisticsModel
from ...schema.values import JsonNumber


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
    """Group ranks by pipeline; replica i of each stage is in pipeline i.

    Args:
        ranks: The reports of the ranks' files, ascending.

    Returns:
        The ranks of each pipeline, the last stage first; nothing where no file has a stage.

    Raises:
        ValueError: A stage is missing, has other replicas than the others, or is not in each file.
    """
    by_stage: dict[int | None, list[int]] = defaultdict(list)
    for said in ranks:
        by_stage[said["stage"]].append(said["rank"])
    if by_stage.keys() == {None}:
        return []
    stages = [by_stage.get(stage, []) for stage in range(len(by_stage))]
    if len({len(replicas) for replicas in stages}) > 1 or [] in stages:
        found = ", ".join(f"{said['rank']}: {said['stage']}" for said in ranks)
        raise ValueError(
            f"These files lack a stage or some of its ranks (stage by rank: {found}). Save each "
            "rank with gradwalk.save(..., stage=), from stage 0, and give load() all of the files."
        )
    return [list(pipeline) for pipeline in zip(*reversed(stages), strict=True)]


def ties_among(ranks: Sequence[RankModel], pipelines: Iterable[Sequence[int]]) -> list[Tie]:
    """Tie the outputs of each stage to the inputs of the next stage.

    An output and an input fit where their gradients have the same shape, dtype, norm and extremes.
    Where several do, the order decides.

    Args:
        ranks: The reports of the ranks' files.
        pipelines: As `pipelines_of` gave them.

    Raises:
        ValueError: No output of a stage fits an input of the next one.
    """
    of_rank = {said["rank"]: said for said in ranks}
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


def _inputs(said: RankModel) -> list[RankLeafModel]:
    """The leaves that may be a stage's inputs, unnamed ones first."""
    found = [leaf for leaf in said["leaves"] if not leaf["is_parameter"]]
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
    """Number the set of each rank: its stage, or the ranks whose leaves share a name with its own.

    Args:
        ranks: The reports of the ranks' files.
    """
    found: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for said in ranks:
        names = [leaf["name"] for leaf in said["leaves"] if leaf["name"] is not None]
        new = len(set(by_name.values())) if names else 0
        known = next((by_name[name] for name in names if name in by_name), new)
        found[said["rank"]] = known if said["stage"] is None else said["stage"]
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
