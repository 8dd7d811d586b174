"""Group ranks into pipelines, and join the graphs of the stages into one, a box for each stage."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from ...explain.describe_node import READY, WAITS
from ...schema.backward import RunModel, StateModel, StepModel
from ...schema.details import StageModel
from ...schema.file_format import SavedGraphModel, is_autograd
from ...schema.findings import FindingModel, MemoryModel
from ...schema.graph import DtypesModel, EdgeModel, ModulesModel, NodeModel
from ...schema.ranks import RankLeafModel, RankModel, StatisticsModel
from ...schema.validate import renumbered
from ...schema.values import JsonNumber
from ...sources.graph_model import modules_model


@dataclass(frozen=True)
class Part:
    """A stage within the joined graph."""

    rank: int  # its rank
    box: str  # the name of its box
    saved: SavedGraphModel  # its graph, with the node ids of the joined graph
    nodes: list[int]  # node of the file -> node of the joined graph
    before: int  # the number of steps of other stages before its own


@dataclass(frozen=True)
class End:
    """A tie within the joined graph."""

    tie: Tie  # the tie
    leaf: int  # the node of the received tensor
    root: int  # the node of the sent tensor
    edge: int  # the index of the edge between them
    step: int  # the number of steps after which the gradient has arrived


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
        fields["contributions"] = []
        for share in shares:
            end = sent.get(share["output_nr"]) if share["consumer"] is None else None
            changed = {"step": before + share["step"]}
            if end is not None:
                label = f"from rank {end.tie.to_rank}"
                changed = {"step": end.step, "consumer": end.leaf, "label": label}
            fields["contributions"].append({**share, **changed})
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
    edge = {"arg_nr": 0, "argument": None, "output_nr": end.tie.output_nr}
    sent = {**edge, "node": end.root, "label": nodes[end.root]["label"], "shape": shape}
    taken = {**edge, "node": end.leaf, "label": nodes[end.leaf]["label"]}
    for stage in leaf or ():
        _put(stage["fields"], "about", lambda about: f"{received} {about}")
        _put(stage["fields"], "kind", lambda _: "op")
        _put(stage["fields"], "inputs", lambda inputs: [*inputs, sent])
        _put(stage["fields"], "input_count", lambda count: count + 1)
    for stage in root or ():
        _put(stage["fields"], "about", lambda it: it if sentence in it else f"{it} {sentence}")
        _put(stage["fields"], "consumers", lambda consumers: [*consumers, taken])
        _put(stage["fields"], "consumer_count", lambda count: count + 1)


def _put(fields: dict[str, Any], name: str, change: Callable[[Any], Any]) -> None:
    if name in fields:
        fields[name] = change(fields[name])


@dataclass(frozen=True)
class Tie:
    """An output of one stage, and the input that it is in the next stage."""

    rank: int  # the rank of the output
    node: int  # the node of the output in that rank's graph
    output_nr: int  # the output's number at this node
    to_rank: int  # the rank of the next stage
    leaf: int  # the leaf of the input in that rank's graph


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


_Each = TypeVar("_Each")

_A_NODE = re.compile(r"\(node (\d+)\)")


@dataclass(frozen=True)
class Stage:
    """The graph of one stage."""

    rank: int  # its rank
    number: int  # the number of the stage, from the input on
    saved: SavedGraphModel  # its graph


def joined(
    stages: Sequence[Stage], ties: Sequence[Tie]
) -> tuple[SavedGraphModel, dict[int, dict[int, int]]]:
    """Join the graphs of several stages.

    Returns the joined graph, whose pass runs the stages one after the other; and rank -> node of
    the joined graph -> node of that rank's graph.
    """
    parts = _parts(stages, len(ties))
    ends = _ends(parts, ties)
    sent = {(end.root, end.tie.output_nr) for end in ends}
    first = parts[0].saved
    nodes = _gathered(
        parts, lambda part: [_within(node, part) for node in part.saved["graph"]["nodes"]]
    )
    details = _gathered(parts, lambda part: details_of(part, ends))
    came: dict[int, int] = {}
    for end in ends:
        came[end.root] = max(came.get(end.root, 0), end.step)
    edges, beyond = _edges(parts, ends)
    for end in ends:
        nodes[end.leaf] = _received(nodes[end.leaf], end)
        tie_details(end, nodes, details)
    saved: SavedGraphModel = {
        **first,
        "graph": {
            "static": False,
            "modules": _modules(parts),
            "nodes": nodes,
            "edges": edges,
            "roots": [
                root
                for part in parts
                for root in part.saved["graph"]["roots"]
                if (root["node"], root["output_nr"]) not in sent
            ],
            "checkpoints": [
                {**region, "box": region["box"] and _boxed(region["box"], part)}
                for part in parts
                for region in part.saved["graph"]["checkpoints"]
            ],
            "derivatives": [each for part in parts for each in part.saved["graph"]["derivatives"]],
            "ranks": None,
            "plan": None,
        },
        "network": {
            "graph": {
                "roots": [
                    [part.nodes[node], output_nr]
                    for part in parts
                    for node, output_nr in part.saved["network"]["graph"]["roots"]
                    if (part.nodes[node], output_nr) not in sent
                ],
                "torch_version": first["network"]["graph"]["torch_version"],
            },
            "nodes": _gathered(parts, lambda part: part.saved["network"]["nodes"]),
            "edges": beyond,
        },
        "dtypes": dtypes_model(_gathered(parts, lambda part: dtypes_of(part.saved))),
        "overlays": [],
        "watched": any(part.saved["watched"] for part in parts),
        "memory": _memory(parts),
        "findings": [
            finding_at(each, part.nodes) for part in parts for each in part.saved["findings"]
        ],
        "constants": any(part.saved["constants"] for part in parts),
        "selected": None,
        "cursor": _cursor(parts),
        "inner": 0,
        "state": _state(parts, ends),
        "steps": [_step(step, part, came) for part in parts for step in part.saved["steps"]],
        "run": _run(parts, ends, sent),
        "details": details,
        "undetailed": None,
        "all_cursors": all(part.saved["all_cursors"] for part in parts),
    }
    return saved, {part.rank: {new: old for old, new in enumerate(part.nodes)} for part in parts}


def _parts(stages: Sequence[Stage], ties: int) -> list[Part]:
    """Autograd nodes come first, and so do the edges along which gradients flow."""
    autograd = [sum(map(is_autograd, stage.saved["graph"]["nodes"])) for stage in stages]
    flowing = [
        sum(edge["kind"] == "gradient" for edge in stage.saved["graph"]["edges"])
        for stage in stages
    ]
    next_node, next_extra = 0, sum(autograd)
    next_region = 0
    next_edge, next_other = 0, sum(flowing) + ties
    before = 0
    found = []
    for stage, own, flows in zip(stages, autograd, flowing, strict=True):
        extra = len(stage.saved["graph"]["nodes"]) - own
        others = len(stage.saved["graph"]["edges"]) - flows
        regions = len(stage.saved["graph"]["checkpoints"])
        nodes = [*range(next_node, next_node + own), *range(next_extra, next_extra + extra)]
        edges = [*range(next_edge, next_edge + flows), *range(next_other, next_other + others)]
        boxes = range(next_region, next_region + regions)
        saved = renumbered_at(stage.saved, nodes, edges, boxes)
        box = f"stage {stage.number} on rank {stage.rank}"
        found.append(Part(stage.rank, box, saved, nodes, before))
        next_node, next_extra = next_node + own, next_extra + extra
        next_edge, next_other = next_edge + flows, next_other + others
        next_region += regions
        before += len(saved["steps"])
    return found


def _ends(parts: Sequence[Part], ties: Sequence[Tie]) -> list[End]:
    of_rank = {part.rank: part for part in parts}
    ran = {
        step["node"]: step["step"] + part.before for part in parts for step in part.saved["steps"]
    }
    flowing = sum(
        edge["kind"] == "gradient" for part in parts for edge in part.saved["graph"]["edges"]
    )
    found = []
    for i, tie in enumerate(ties):
        leaf = of_rank[tie.to_rank].nodes[tie.leaf]
        root = of_rank[tie.rank].nodes[tie.node]
        found.append(End(tie, leaf, root, flowing + i, ran.get(leaf, 0)))
    return found


def _gathered(parts: Iterable[Part], of: Callable[[Part], Sequence[_Each]]) -> list[_Each]:
    """Collect the parts' values of each node, by its id."""
    found = {node: each for part in parts for node, each in zip(part.nodes, of(part), strict=True)}
    return [found[node] for node in range(len(found))]


def _within(node: NodeModel, part: Part) -> NodeModel:
    return {**node, "namespace": _boxed(node["namespace"], part)}


def _boxed(namespace: str | None, part: Part) -> str:
    return f"{part.box}/{namespace}" if namespace else part.box


def _received(node: NodeModel, end: End) -> NodeModel:
    """A received leaf has an edge to its sender, so it is drawn like an operation."""
    came = f"from rank {end.tie.rank}"
    return {**node, "kind": "op", "label": came, "sign": came}


def renumbered_at(
    saved: SavedGraphModel, nodes: Sequence[int], edges: Sequence[int], regions: Sequence[int]
) -> SavedGraphModel:
    """Return a graph with other numbers for its nodes, edges and checkpointed regions."""
    places = {"nodes": nodes, "edges": edges, "checkpoints": regions}
    places |= {"autograd nodes": nodes, "edges with gradients": edges}
    found: SavedGraphModel = renumbered(saved, SavedGraphModel, places)
    return found


def dtypes_of(saved: SavedGraphModel) -> list[str | None]:
    """Return the dtype of each node."""
    dtypes = saved["dtypes"]
    return [None if place < 0 else dtypes["names"][place] for place in dtypes["nodes"]]


def dtypes_model(dtypes: Sequence[str | None]) -> DtypesModel:
    """Return the dtypes of nodes, each name once."""
    places = {name: i for i, name in enumerate(dict.fromkeys(filter(None, dtypes)))}
    return {"names": [*places], "nodes": [-1 if each is None else places[each] for each in dtypes]}


def _edges(parts: Sequence[Part], ends: Sequence[End]) -> tuple[list[EdgeModel], list[Any]]:
    """Those that are drawn, and what the captured graphs say of them beyond."""
    flowing: list[tuple[EdgeModel, Any]] = []
    others: list[tuple[EdgeModel, Any]] = []
    for part in parts:
        both = zip(part.saved["graph"]["edges"], part.saved["network"]["edges"], strict=True)
        for edge, more in both:
            (flowing if edge["kind"] == "gradient" else others).append((edge, more))
    for end in ends:
        tied: EdgeModel = {
            "source": end.leaf,
            "target": end.root,
            "argument": None,
            "arg_nr": 0,
            "output_nr": end.tie.output_nr,
            "kind": "gradient",
            "via": None,
        }
        flowing.append((tied, {"key": 0}))
    found = flowing + others
    return [edge for edge, _ in found], [more for _, more in found]


def _modules(parts: Sequence[Part]) -> ModulesModel:
    """The classes of the modules by box; a stage's box has the outermost module's class."""
    classes = [(part, classes_of(part.saved).items()) for part in parts]
    return modules_model({_boxed(name, part): kind for part, own in classes for name, kind in own})


def classes_of(saved: SavedGraphModel) -> dict[str, str]:
    """Return the class of each module, by namespace."""
    modules = saved["graph"]["modules"]
    pairs = zip(modules["namespaces"], modules["classes"], strict=True)
    return {namespace: modules["names"][place] for namespace, place in pairs}


def _memory(parts: Sequence[Part]) -> MemoryModel:
    found = [part.saved["memory"] for part in parts]
    return {
        "nodes": [node for each in found for node in each["nodes"]],
        "bytes": [count for each in found for count in each["bytes"]],
        "total": sum(each["total"] for each in found),
        "unknown": sum(each["unknown"] for each in found),
    }


def finding_at(found: FindingModel, places: Sequence[int]) -> FindingModel:
    """Return a rank's finding with the node numbers of the whole, in its message too."""

    def node(text: str) -> str:
        place = int(text)
        return str(places[place] if place < len(places) else place)

    return {
        **found,
        "message": _A_NODE.sub(lambda match: f"(node {node(match[1])})", found["message"]),
        "numbers": [
            {**each, "name": node(each["name"]) if each["name"].isdigit() else each["name"]}
            for each in found["numbers"]
        ],
    }


def _cursor(parts: Sequence[Part]) -> int:
    """At the end of the pass, or at the cursor of the first stage that is not at its end."""
    for part in parts:
        if part.saved["cursor"] < len(part.saved["steps"]):
            return part.before + part.saved["cursor"]
    return sum(len(part.saved["steps"]) for part in parts)


def _state(parts: Sequence[Part], ends: Sequence[End]) -> StateModel:
    states = [part.saved["state"] for part in parts]
    notes = (f"Rank {part.rank}: {part.saved['state']['note']}" for part in parts)
    return {
        "runs": max(state["runs"] for state in states),
        "reached": [node for state in states for node in state["reached"]],
        "flowed": [
            *(edge for state in states for edge in state["flowed"]),
            *(end.edge for end in ends),
        ],
        "freed": [node for state in states for node in state["freed"]],
        "held": [held for state in states for held in state["held"]],
        "note": " ".join(notes),
    }


def _step(step: StepModel, part: Part, came: Mapping[int, int]) -> StepModel:
    """A step at its place in the whole pass; ``came``: when gradients of other stages arrived."""
    is_sent = step["ready"] == 0 and step["node"] in came
    return {
        **step,
        "step": part.before + step["step"],
        "ready": came[step["node"]] if is_sent else part.before + step["ready"],
    }


def _run(parts: Sequence[Part], ends: Sequence[End], sent: set[tuple[int, int]]) -> RunModel:
    """The joined pass; every stage has one, because ties match gradients."""
    runs = [run for part in parts if (run := part.saved["run"]) is not None]
    seeds = [seed for run in runs for seed in run["seeds"]]
    few = {(seed["node"], seed["output_nr"]): seed for seed in seeds}
    between = [few.get((end.root, end.tie.output_nr)) for end in ends]
    return {
        "run": runs[0]["run"],
        "ended": "stopped" if any(run["ended"] == "stopped" for run in runs) else "done",
        "seeds": [seed for place, seed in few.items() if place not in sent],
        "edges": [*(edge for run in runs for edge in run["edges"]), *(end.edge for end in ends)],
        "values": [
            *(each for run in runs for each in run["values"]),
            *(None if seed is None else seed["values"] for seed in between),
        ],
        "norms": [
            *(norm for run in runs for norm in run["norms"]),
            *(None if seed is None else seed["norm"] for seed in between),
        ],
        "arrived": [each for run in runs for each in run["arrived"]],
        "grads": [each for run in runs for each in run["grads"]],
        "marks": [each for run in runs for each in run["marks"]],
    }
