"""The details of the nodes of pipeline stages that are shown as one graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...explain.describe_node import READY, WAITS
from ...explain.rank_nodes import about_received, about_sent, sent_by
from ...schema.details import StageModel
from ...schema.file_format import SavedGraphModel
from ...schema.graph import NodeModel
from .stages import Tie


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
    """Return the details of a stage's nodes, at the cursors of the joined pass.

    Args:
        part: The stage.
        ends: All ties.

    Returns:
        Copies, one for each of its nodes.
    """
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
                "label": sent_by(end.tie.to_rank),
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
    """Add the two ends of a tie to their nodes' details.

    Args:
        end: The tie.
        nodes: The drawn nodes of the joined graph.
        details: Copies of the details, which are changed.
    """
    # Once, however many of its outputs went there.
    told = about_sent(end.tie.to_rank)
    leaf, root, shape = details[end.leaf], details[end.root], nodes[end.root]["shape"]
    received = about_received(end.tie.rank)
    for stage in leaf or ():
        _put(stage["fields"], "about", lambda about: f"{received} {about}")
        _put(stage["fields"], "kind", lambda _: "op")
        _put(
            stage["fields"],
            "inputs",
            lambda inputs: [
                *inputs,
                {
                    "input_nr": 0,
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
        _put(stage["fields"], "about", lambda about: about if told in about else f"{about} {told}")
        _put(
            stage["fields"],
            "consumers",
            lambda consumers: [
                *consumers,
                {
                    "node": end.leaf,
                    "input_nr": 0,
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
