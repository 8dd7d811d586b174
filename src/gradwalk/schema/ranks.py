"""The second part of a rank's file: data to compare with other ranks."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .columns import decode, encode, whole_length
from .details import SourceModel, TensorSummary
from .validate import check, check_version
from .values import Count, JsonNumber

RANK_VERSION = 6
OLDEST_RANK_VERSION = 6  # as in `gradwalk.schema.file_format`

_END = b"gwrank1\n"
_LENGTH = 8  # bytes of the length before the end mark

_MOST_BYTES = 64 * 2**20  # of text
_MOST_VALUES = 10_000_000
_FEW = 8


class StatisticsModel(TypedDict):
    """The statistics of a `TensorSummary`, and the values of a short vector."""

    shape: list[Count]
    dtype: str
    device: str
    numel: Count
    few: list[JsonNumber] | None
    """All values, if the tensor has one dimension and at most 8 of them."""
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: Count | None
    inf: Count | None
    zeros: Count | None
    note: str | None


class RankLeafModel(TypedDict):
    """A leaf on one rank."""

    node: Count
    name: str | None
    is_parameter: bool
    parallel: Literal["DDP", "FSDP2"] | None
    """The wrapper that reduces its gradient, if known."""
    bucket: Count | None
    """Its DistributedDataParallel bucket, from 0; None where DDP's log does not have it."""
    ready: Count | None
    """Its position, from 0, in the order in which the gradients were ready."""
    line: SourceModel | None
    """The line that uses it first, if watched."""
    branch: SourceModel | None
    """The condition around this line, if any."""
    copies: list[Count] | None
    """For a DTensor, the ranks whose placement gives them the same part of it and of its ``.grad``;
    None for any other tensor."""
    changes: Count | None
    """How often it had been changed in place, as by steps of an optimizer; None if unknown."""
    value: StatisticsModel | None
    local: StatisticsModel | None
    """This rank's own gradient in the shown pass, before the reduction."""
    reduced: StatisticsModel | None
    """Its ``.grad``; under FSDP2 this rank's shard."""
    difference: StatisticsModel | None
    """``local - reduced``; under FSDP2 of the shard. None where the rank did not have the values
    of both when it saved."""


class RankModel(TypedDict):
    """The data of one rank beside its graph."""

    format: Literal["gradwalk rank"]
    version: int
    rank: Count
    world_size: Count
    stage: Count | None
    """The pipeline stage that was passed to `gradwalk.save`."""
    run: str | None
    """The launcher's id of the run, the same on all ranks; None without one."""
    torch_version: str
    structure: str
    """A hash of operations, edges and leaf names: equal for equal graphs."""
    recorded: bool
    """Whether a backward pass was recorded."""
    leaves: list[RankLeafModel]
    norms: list[JsonNumber | None]
    """Per node, the norm of its incoming gradient; the largest if it has several outputs."""


def statistics_of(summary: TensorSummary | None) -> StatisticsModel | None:
    """Drop most values of a summary, because many ranks would store many."""
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
    """Return the statistics as a summary; ``values`` is None where they were dropped."""
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
    """Append a rank's data to the contents of a graph file. Each part can be read alone."""
    data = encode(rank)
    return b"".join([graph, data, len(data).to_bytes(_LENGTH, "little"), _END])


def rank_in(data: bytes, name: str) -> RankModel | None:
    """Read and check the rank's data in a file; None for a file without any."""
    again = "Copy the file again, or save the graph again on that rank."
    try:
        length = whole_length(data)
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged: {error}. {again}") from None
    if length == len(data):
        return None
    if not data.endswith(_END):
        raise ValueError(f"{name!r} is damaged: it is cut off, its end is missing. {again}")
    end = len(data) - len(_END) - _LENGTH
    length = int.from_bytes(data[max(end, 0) : end + _LENGTH], "little")
    if length > end:
        raise ValueError(f"{name!r} is damaged: the data of its rank is cut off. {again}")
    try:
        value: Any = decode(memoryview(data)[end - length : end], _MOST_BYTES, _MOST_VALUES)
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged: {error}. {again}") from None
    version = value.get("version") if isinstance(value, dict) else None
    check_version(version, OLDEST_RANK_VERSION, RANK_VERSION, f"the data of the rank in {name!r}")
    try:
        check(value, RankModel, "the data of its rank")
        if not 0 <= value["rank"] < value["world_size"]:
            raise ValueError(f"it says rank {value['rank']} of {value['world_size']}")
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged: {error}. {again}") from None
    found: RankModel = value
    return found
