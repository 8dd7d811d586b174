"""Read and check the files of the ranks of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...schema.file_format import SavedGraphModel, unpack
from ...schema.findings import FindingModel
from ...schema.ranks import RankModel, rank_in


@dataclass(frozen=True)
class RankFile:
    """The file of one rank.

    Attributes:
        name: Its name.
        data: Its contents.
        says: The rank's report.
    """

    name: str
    data: bytes
    says: RankModel


def opened_file(file: RankFile, max_nodes: int | None) -> SavedGraphModel:
    """Return the graph of a rank, with the rank's number in its findings."""
    saved = unpack(file.data, file.name, max_nodes)
    said = f"Rank {file.says['rank']}: "
    findings: list[FindingModel] = [
        {**found, "message": f"{said}{found['message']}"} for found in saved["findings"]
    ]
    return {**saved, "findings": findings}


def read_rank_file(data: bytes, name: str) -> RankFile:
    """Read the report of a rank from its file.

    Raises:
        ValueError: It is damaged, or has no rank.
    """
    says = rank_in(data, name)
    if says is None:
        raise ValueError(
            f"{name!r} is of no rank: it was saved where torch.distributed was not initialised. "
            "Give load() the files that the ranks of one run have saved, or this one alone."
        )
    return RankFile(name, data, says)


def of_one_run(files: Sequence[RankFile]) -> dict[int, RankFile]:
    """Sort the files by rank.

    Raises:
        ValueError: They come from different runs, or two come from one rank.
    """
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
                "file of each rank; of a rank with several stages of a pipeline (an interleaved "
                "schedule) that of one stage."
            )
    return found


def _run(says: RankModel) -> str:
    named = f"{says['run']}, " if says["run"] is not None else ""
    return f"{named}{says['world_size']} ranks"
