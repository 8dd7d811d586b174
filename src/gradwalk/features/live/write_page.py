"""Write a live page: the page of a graph, with a program that it computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...export.html import PageParts
from ...schema.file_format import SavedGraphModel
from ...sources.graph_source import GraphSource
from ...torch_api.modes import grad_mode_kept
from .program import Forward, ProgramModel, program_model
from .replay import watched_forward
from .tape import NotLiveError

QUIZZES = ("grad", "value")
"""The quantities that a live page can ask for, and mark by itself."""


@grad_mode_kept
def live_parts(source: GraphSource, quiz: str | None, forward: Forward | None = None) -> PageParts:
    """Return what makes the page of a graph live; ``forward``: the watched calls if None."""
    captured = source.autograd
    if captured is None:
        raise NotLiveError(
            "to_html() was given live=True for a graph without tensors, such as a static or a "
            "saved one. Give it the GraphWidget of a loss, or leave live=True out."
        )
    if quiz is not None and quiz not in QUIZZES:
        raise ValueError(f"quiz was given {quiz!r}. Give one of {', '.join(map(repr, QUIZZES))}.")
    if source.recording is None:
        blocked = source.transport()["blocked"]
        raise NotLiveError(f"A live page shows gradients. {blocked or 'Call backward() first.'}")
    chosen = watched_forward(captured) if forward is None else forward
    model = program_model(source, chosen)
    prepare = _prepared(model)
    if quiz is not None:
        model["values"] = [{**each, "now": None} for each in model["values"]]  # the answers
    return PageParts(
        name="live",
        data={"gradwalk-program": _data(model), "gradwalk-quiz": _data(quiz)},
        prepare=prepare,
        has_text=quiz is None,
    )


def _data(model: Any) -> str:
    """Return JSON that no text in it can end: ``<`` is escaped."""
    text = json.dumps(model, separators=(",", ":"))  # ASCII, so no U+2028
    return text.replace("<", "\\u003c")


def _prepared(model: ProgramModel) -> Callable[[SavedGraphModel], SavedGraphModel]:
    """Return a function that shows the end of the pass, and each value that the page computes."""
    shown = {each["node"]: each["now"] for each in model["values"]}

    def prepare(saved: SavedGraphModel) -> SavedGraphModel:
        graph = saved["graph"]
        nodes: Any = [
            {**node, "value": shown.get(node["id"]) if node["value"] is None else node["value"]}
            for node in graph["nodes"]
        ]
        return {
            **saved,
            "graph": {**graph, "nodes": nodes},
            "cursor": len(saved["steps"]),
            "inner": 0,
        }

    return prepare
