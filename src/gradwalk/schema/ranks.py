"""What the file of one rank says beside its graph, to be laid beside those of the other ranks."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .columns import decode, encode
from .details import SourceModel, TensorSummary
from .validate import check, check_version
from .values import Count, JsonNumber

RANK_VERSION = 4
OLDEST_RANK_VERSION = 4  # as in `gradwalk.schema.file_format`

_END = b"gwrank1\n"
_LENGTH = 8  # bytes of the number before it

_MOST_BYTES = 64 * 2**20  # of text
_MOST_VALUES = 10_000_000
_FEW = 8


class StatisticsModel(TypedDict):
    """A tensor's statistics, as `TensorSummary` has them, and its values if they are few."""

    shape: list[Count]
    dtype: str
    device: str
    numel: Count
    few: list[JsonNumber] | None
    """All of its numbers, if it has one dimension and at most 8 of them."""
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: Count | None
    inf: Count | None
    zeros: Count | None
    note: str | None


class RankLeafModel(TypedDict):
    """What a leaf is on one rank."""

    node: Count
    name: str | None
    is_parameter: bool
    parallel: Literal["DDP", "FSDP2"] | None
    """Who reduces its gradient, as far as that is known."""
    bucket: Count | None
    """In which bucket of DistributedDataParallel, from 0, as far as its log tells."""
    ready: Count | None
    """Which of its gradients it was, from 0, in the order in which they were there."""
    line: SourceModel | None
    """Where it is used first, if that was watched."""
    branch: SourceModel | None
    """The condition that this line stands under, if there is one."""
    copies: list[Count] | None
    """Of a DTensor the ranks that hold the same of it and of its ``.grad`` as this one, by their
    placement; None of any other tensor."""
    value: StatisticsModel | None
    local: StatisticsModel | None
    """What arrived at it in the pass that is shown: the gradient of this rank alone."""
    reduced: StatisticsModel | None
    """Its ``.grad``; under FSDP2 this rank's part of it."""
    difference: StatisticsModel | None
    """``local`` less ``reduced``, number by number; under FSDP2 of that part. None where the rank
    did not have both, with their values, when it saved."""


class RankOutputModel(TypedDict):
    """One tensor that was handed to the widget, on one rank."""

    node: Count
    output_nr: Count
    grad: StatisticsModel | None
    """The gradient that arrived at it in the pass that is shown: in a stage of a pipeline what the
    next stage sent."""


class RankModel(TypedDict):
    """Everything that a rank says beside its graph."""

    format: Literal["gradwalk rank"]
    version: int
    rank: Count
    world_size: Count
    stage: Count | None
    """The pipeline stage that `gradwalk.save` was given."""
    run: str | None
    """What the launcher says of the run, the same on all its ranks; None where it says nothing."""
    torch_version: str
    structure: str
    """The same for graphs of the same operations, edges and names of leaves."""
    recorded: bool
    """Whether a backward pass was recorded."""
    leaves: list[RankLeafModel]
    outputs: list[RankOutputModel]
    norms: list[JsonNumber | None]
    """Per node, the norm of the gradient that arrived at it; of several outputs the largest."""


def statistics_of(summary: TensorSummary | None) -> StatisticsModel | None:
    """A summary without most of its values, of which there would be many on many ranks."""
    if summary is None:
        return None
    values = summary["values"]
    is_few = isinstance(values, list) and len(summary["shape"]) == 1 and summary["numel"] <= _FEW
    return {
        "shape": summary["shape"],
        "dtype": summary["dtype"],
        "device": summary["device"],
        "numel": summary["numel"],
        "few": values if is_few else None,
        "min": summary["min"],
        "max": summary["max"],
        "mean": summary["mean"],
        "norm": summary["norm"],
        "nan": summary["nan"],
        "inf": summary["inf"],
        "zeros": summary["zeros"],
        "note": summary["note"],
    }


def summary_of(found: StatisticsModel | None) -> TensorSummary | None:
    """The statistics as a summary; its ``values`` are None where they were not kept."""
    if found is None:
        return None
    return {
        "shape": found["shape"],
        "dtype": found["dtype"],
        "device": found["device"],
        "numel": found["numel"],
        "values": found["few"],
        "truncated": False,
        "indices": None,
        "min": found["min"],
        "max": found["max"],
        "mean": found["mean"],
        "norm": found["norm"],
        "nan": found["nan"],
        "inf": found["inf"],
        "zeros": found["zeros"],
        "note": found["note"],
    }


def with_rank(graph: bytes, rank: RankModel) -> bytes:
    """The contents of a file that holds a graph, and what a rank says beside it.

    It stands at the end, so that it is read without the graph, and the graph without it.
    """
    said = encode(rank)
    return b"".join([graph, said, len(said).to_bytes(_LENGTH, "little"), _END])


def rank_in(data: bytes, name: str) -> RankModel | None:
    """What a rank says in a file, checked; None where the file has nothing of the kind.

    Args:
        data: The contents of the file.
        name: Its name, for errors.

    Raises:
        ValueError: It is damaged, or of another version.
    """
    if not data.endswith(_END):
        return None
    end = len(data) - len(_END) - _LENGTH
    length = int.from_bytes(data[max(end, 0) : end + _LENGTH], "little")
    again = "Copy the file again, or save the graph again on that rank."
    if length > end:
        raise ValueError(f"{name!r} is damaged: what its rank says is cut off. {again}")
    try:
        value: Any = decode(memoryview(data)[end - length : end], _MOST_BYTES, _MOST_VALUES)
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged: {error}. {again}") from None
    version = value.get("version") if isinstance(value, dict) else None
    check_version(version, OLDEST_RANK_VERSION, RANK_VERSION, f"what the rank says in {name!r}")
    try:
        check(value, RankModel, "what its rank says")
        if not 0 <= value["rank"] < value["world_size"]:
            raise ValueError(f"it says rank {value['rank']} of {value['world_size']}")
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged: {error}. {again}") from None
    found: RankModel = value
    return found
