"""Edits of gradients, checks of a backward and shares of a gradient, in the widget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...backward.kept_gradients import DEFAULT_BUDGET, KeptGradient
from ...backward.recorded_pass import refuse_within_backward
from ...explain import describe_node as why
from ...graph.capture import OutputKey
from ...schema.backward import FewModel
from ...schema.updates import CheckedModel
from ...schema.what_if import (
    EditModel,
    LeafChangeModel,
    NodeChangeModel,
    ShareModel,
    WhatIfModel,
)
from ...sources.graph_model import few_of
from ...sources.graph_source import GraphSource
from ...torch_api.modes import unseen
from ...tracing.annotations import Annotation
from ...widget.controllers import Controller
from ...widget.graph_traits import GraphTraits
from .check import check
from .contributions import shares
from .experiment import Experiment, Outcome, place_name
from .program_change import program_change
from .replay import Edit, Gradient, less, same
from .saved_copies import SavedCopies

MOST_LEAVES = 100  # the largest number of listed leaves; those that change come first

MOST_COMPARED = 6  # the largest number of compared names: each costs a partial backward pass

_KINDS = ("cut", "scale", "replace")

_BLOCKED = (
    "To change gradients, run the forward pass again and call backward(retain_graph=True): this "
    "backward pass has freed the saved tensors that a change needs."
)


def read_edit(given: Any) -> EditModel:
    """Check one edit of the trait ``edits``, as far as possible without the graph."""
    example = "{'kind': 'scale', 'edge': (2, 0), 'value': 0.5, 'name': 'half'}"
    if not isinstance(given, Mapping) or "kind" not in given or "edge" not in given:
        raise TypeError(f"edits was given {given!r}. Give a list of dicts such as {example}.")
    kind, edge, value = given["kind"], given["edge"], given.get("value")
    if kind not in _KINDS:
        raise ValueError(
            f"edits was given the kind {kind!r}; it is one of {', '.join(map(repr, _KINDS))}."
        )
    if not isinstance(edge, (str, list, tuple)):
        raise TypeError(
            f"edits was given the edge {edge!r}, of type {type(edge).__name__}. Give it as "
            "(consumer id, arg_nr), or the name of a tensor for all edges that flow to it."
        )
    name, off = given.get("name"), given.get("off", False)
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"edits was given the name {name!r}, of type {type(name).__name__}. Give a text, or "
            "None for an edit without a name."
        )
    if not isinstance(off, bool):
        raise TypeError(f"edits was given off={off!r}. Give True or False.")
    if unknown := sorted(map(str, given.keys() - EditModel.__annotations__.keys())):
        raise ValueError(
            f"edits was given an edit with {', '.join(map(repr, unknown))}, which it does not have."
            f" Give a list of dicts such as {example}."
        )
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return {
        "kind": kind,
        "edge": edge if isinstance(edge, str) else list(edge),
        "value": value,
        "name": (name or "").strip() or None,
        "off": off,
    }


def edit_of(experiment: Experiment, model: EditModel) -> Edit:
    """Return the change that an edit describes."""
    kind, value = model["kind"], model["value"]
    edge = model["edge"] if isinstance(model["edge"], str) else tuple(model["edge"])
    if kind == "replace":
        found = experiment.read("cut", edge)
        like = experiment.like(found.place)
        value = _numbers(value, like, found.label)
        shape = tuple(like.shape)
        if value.dim() == 0:
            value = value.expand(shape)
        elif value.dim() == 1 and value.numel() == math.prod(shape):
            value = value.reshape(shape)
    return experiment.read(kind, edge, value)


def _numbers(value: Any, like: Any, label: str) -> torch.Tensor:
    try:
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(
            f"edits was given a {type(value).__name__} to replace the gradient at {label}, which "
            f"is of {like.dtype} and has shape {tuple(like.shape)}. Give a number, or a list of as "
            "many numbers as it has."
        ) from error


def what_if_model(
    experiment: Experiment, models: Sequence[EditModel], annotations: Mapping[int, Annotation]
) -> WhatIfModel:
    """Return the effect of edits: of all active ones together, and of each name alone."""
    edits = [edit_of(experiment, model) for model in models]
    on = [edit for edit, model in zip(edits, models, strict=True) if not model["off"]]
    named: dict[str, list[Edit]] = {}
    for edit, model in zip(edits, models, strict=True):
        if model["name"] is not None:
            named.setdefault(model["name"], []).append(edit)
    names = list(named)[:MOST_COMPARED] if len(named) > 1 else []
    outcome = experiment.what_if(on)
    leaves = _leaves(experiment, outcome, [experiment.what_if(named[name]) for name in names])
    was = _few({i: outcome.flowing.get(i) for i in range(len(on))})
    now = _few({i: outcome.flowed.get(i) for i in range(len(on))})
    values = iter([(was.get(i), now.get(i)) for i in range(len(on))])
    notes = experiment.notes(on) if on else []
    if names and len(names) < len(named):
        notes.append(f"Only the first {len(names)} of {len(named)} names are compared.")
    return {
        "failed": None,
        "edits": [
            {"label": edit.label, "was": before, "now": after}
            for edit, model in zip(edits, models, strict=True)
            for before, after in [(None, None) if model["off"] else next(values)]
        ],
        "leaves": leaves[:MOST_LEAVES],
        "leaf_count": len(leaves),
        "names": names,
        "reached": sorted(outcome.reached),
        "nodes": _nodes(outcome),
        "ran": outcome.ran,
        "code": program_change(annotations, experiment, on, outcome.flowed),
        "notes": notes,
    }


def without_answer(sentence: str) -> WhatIfModel:
    """The answer for edits that failed, with the reason."""
    return {
        "failed": sentence,
        "edits": [],
        "leaves": [],
        "leaf_count": 0,
        "names": [],
        "reached": [],
        "nodes": [],
        "ran": 0,
        "code": "",
        "notes": [],
    }


def _few(gradients: Mapping[Any, Gradient]) -> dict[Any, FewModel]:
    there = {key: KeptGradient(grad) for key, grad in gradients.items() if grad is not None}
    return few_of(there)


def _leaves(
    experiment: Experiment, outcome: Outcome, named: Sequence[Outcome]
) -> list[LeafChangeModel]:
    """The leaves, with the effect of all active edits and of each name; changed ones first."""
    differences = _differences(outcome)
    # Norms of all leaves are the largest cost of an edit: those before it are cached.
    missing = {at: grad for at, grad in outcome.before.items() if at not in experiment.values}
    new = _few(missing)
    experiment.values |= {place: new.get(place) for place in missing}
    was, less = experiment.values, _few(differences)
    now = _few({place: outcome.after[place] for place in differences})
    by_name = [_after(each) for each in named]
    found: list[LeafChangeModel] = [
        {
            "node": at[0],
            "name": place_name(experiment.replay, at),
            "before": was[at],
            "after": now.get(at) if at in differences else was[at],
            "difference": less.get(at),
            "rest": _rest(was[at], now.get(at)) if at in differences else None,
            "named": [{"after": each.get(at, was[at]), "changed": at in each} for each in by_name],
        }
        for at in outcome.before
    ]

    def is_same(leaf: LeafChangeModel) -> bool:
        return leaf["difference"] is None and not any(each["changed"] for each in leaf["named"])

    return sorted(found, key=is_same)


def _nodes(outcome: Outcome) -> list[NodeChangeModel]:
    """The new incoming gradients of the reached nodes."""
    few = _few(outcome.arrived)
    return [{"node": i, "after": few.get(i)} for i in sorted(outcome.arrived)]


def _differences(outcome: Outcome) -> dict[OutputKey, Gradient]:
    """After minus before, where they differ."""
    pairs = {at: (outcome.after[at], before) for at, before in outcome.before.items()}
    return {at: less(*pair) for at, pair in pairs.items() if not same(*pair)}


def _after(outcome: Outcome) -> dict[OutputKey, FewModel | None]:
    """The gradients that change."""
    changed = [at for at, before in outcome.before.items() if not same(before, outcome.after[at])]
    few = _few({at: outcome.after[at] for at in changed})
    return {at: few.get(at) for at in changed}


def _rest(before: FewModel | None, after: FewModel | None) -> float | None:
    norm = None if before is None else before["norm"]
    left = 0.0 if after is None else after["norm"]
    if not isinstance(norm, (int, float)) or not isinstance(left, (int, float)) or not norm:
        return None
    return left / norm


class EditController(Controller[GraphTraits]):
    """Compute the effect of edits, and the shares of the selected node's gradient."""

    _experiment: Experiment | None = None  # on the graph that is shown, once it is needed
    _copies: SavedCopies | None = None  # of that graph, if it can be followed through backward

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``edits``, checked as far as it can be without the graph."""
        if trait != "edits":
            return value
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"edits was given {value!r}, of type {type(value).__name__}. Give a list of dicts "
                "such as {'kind': 'cut', 'edge': (2, 0)}."
            )
        return [read_edit(each) for each in value]

    def react(self, trait: str) -> None:
        """Compute the effect of the edits."""
        if trait == "edits":
            edits = self.widget.edits
            self.widget.set_trait("effect", self._answer_to(edits) if edits else None)

    def _answer_to(self, edits: list[EditModel]) -> WhatIfModel:
        try:
            refuse_within_backward("A what-if")
            source = self.stage.open()
            captured = source.autograd
            if captured is None:
                return without_answer(
                    "This graph has no tensors (it comes from a file or from a static graph), so "
                    "no gradient can be computed."
                )
            with unseen(), torch.no_grad():
                if self._experiment is None or self._experiment.replay.captured is not captured:
                    run = None if source.recording is None else source.recording.run
                    seeds = None if run is None else run.seeds
                    self._experiment = Experiment(
                        captured, seeds, max_bytes=DEFAULT_BUDGET, copies=self._copies
                    )
                return what_if_model(self._experiment, edits, captured.annotations)
        except Exception as error:  # of the user's own backward; shown in the picture
            self._experiment = None
            return without_answer(why.failure(error))

    def on_source(self, source: GraphSource) -> None:
        """Copy what the nodes of a small live graph saved, before a backward pass frees it."""
        captured = source.autograd
        self._copies = None
        if captured is not None and source.runs_backward:
            self._copies = self.stage.parts.build(
                "copies of saved tensors", lambda: SavedCopies(captured), None
            )
        self.widget.set_trait("_edits_blocked", None)

    def on_pass(self, source: GraphSource) -> None:
        """Note whether a backward pass has freed what an edit needs."""
        copies, shown = self._copies, source.recording
        run = None if shown is None else shown.run
        is_blocked = copies is not None and copies.lacks_any(run)
        self.widget.set_trait("_edits_blocked", _BLOCKED if is_blocked else None)

    def handle(self, message: dict[str, Any]) -> bool:
        """Check the custom backward of a node."""
        if message.get("kind") != "check":
            return False
        node = int(message["node"])
        agrees, sentence = False, ""
        try:
            captured = self.stage.open().autograd
            if captured is None:
                raise ValueError(
                    "This graph has no tensors (it comes from a file), so nothing can run again."
                )
            known = captured.tensors.get((node, 0))
            gave = None if known is None else known()
            is_known = gave is not None and gave.grad_fn is captured.nodes[node]
            found = check(gave if is_known and gave is not None else captured.nodes[node])
            agrees, sentence = found.agrees, found.sentence
        except Exception as error:  # of the user's own forward; shown in the panel
            sentence = str(error) or type(error).__name__
        model: CheckedModel = {"node": node, "agrees": agrees, "sentence": sentence}
        self.widget.set_trait("_checked", model)
        return True

    def describe(self, source: GraphSource) -> None:
        """Show the shares of the selected node's gradient, in the pass that is shown."""
        widget = self.widget
        none: list[ShareModel] = []
        found = self.stage.parts.build(
            "the shares of its gradient", lambda: _shares_of(source, widget.selected), none
        )
        widget.set_trait("_shares", widget._masked("_shares", found))

    def on_graph(self, source: GraphSource) -> None:  # noqa: ARG002
        """Apply the edits to the new graph if it has the same edges; else drop them."""
        update = self.widget._update
        if self.widget.edits and update is not None:
            before = update["before"]
            if before is None or before == [*range(len(before))]:
                self.react("edits")
            else:
                self.widget.edits = []

    def let_go(self) -> None:
        """Release the graph."""
        self._experiment = self._copies = None

    def close(self) -> None:
        """Release the graph, and drop its edits and checks."""
        self.let_go()
        self.widget.set_trait("_checked", None)
        self.widget.edits = []


def _shares_of(source: GraphSource, node: int | None) -> list[ShareModel]:
    recorded, captured = source.recording, source.autograd
    if recorded is None or captured is None or node is None or node >= len(captured.nodes):
        return []
    with unseen(), torch.no_grad():
        return shares(recorded, node)
