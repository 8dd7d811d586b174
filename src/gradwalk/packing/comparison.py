"""The graphs of a comparison and their backward passes, as they travel."""

from __future__ import annotations

from collections.abc import Sequence

from ..wire import PackedPane, PackedPass, PaneModel, PassModel
from .backward import (
    pack_run,
    pack_state,
    pack_steps,
    unpack_run,
    unpack_state,
    unpack_steps,
)
from .graph import pack_graph, unpack_graph


def pack_panes(panes: Sequence[PaneModel]) -> list[PackedPane]:
    """Pack the graphs."""
    return [{"label": pane["label"], "graph": pack_graph(pane["graph"])} for pane in panes]


def unpack_panes(packed: Sequence[PackedPane]) -> list[PaneModel]:
    """The inverse of `pack_panes`."""
    return [{"label": pane["label"], "graph": unpack_graph(pane["graph"])} for pane in packed]


def pack_passes(passes: Sequence[PassModel]) -> list[PackedPass]:
    """Pack what has been seen of backward through each graph."""
    return [
        {
            "state": pack_state(each["state"]),
            "steps": pack_steps(each["steps"]),
            "run": None if each["run"] is None else pack_run(each["run"]),
            "transport": each["transport"],
        }
        for each in passes
    ]


def unpack_passes(packed: Sequence[PackedPass]) -> list[PassModel]:
    """The inverse of `pack_passes`."""
    return [
        {
            "state": unpack_state(each["state"]),
            "steps": unpack_steps(each["steps"]),
            "run": None if each["run"] is None else unpack_run(each["run"]),
            "transport": each["transport"],
        }
        for each in packed
    ]
