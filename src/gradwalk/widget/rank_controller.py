"""The files of several ranks, one of which is in the picture."""

from __future__ import annotations

from typing import Any

from ..checks.finding import finding_models
from ..explain import describe_node as why
from ..graph.integers import read_int
from ..graph.names import Names
from ..sources.graph_source import GraphSource
from .controllers import Controller
from .graph_traits import GraphTraits
from .update_controller import UpdateController


class RankController(Controller[GraphTraits]):
    """Shows the graph and the numbers of another rank in the same picture."""

    def __init__(self, widget: GraphTraits, updates: UpdateController) -> None:
        super().__init__(widget)
        self._updates = updates

    def on_graph(self, source: GraphSource) -> None:
        """Say which ranks there are, and which is shown."""
        self.widget.set_trait("_ranks", [*source.loaded_ranks])
        self.widget.rank = _rank_of(source)

    def validate(self, trait: str, value: Any) -> Any:
        """Return a value of the trait ``rank``, checked."""
        if trait != "rank":
            return value
        self.widget._refuse_closed()
        source = self.widget._source
        assert source is not None
        shown = _rank_of(source)
        ranks = [*source.loaded_ranks] or ([] if shown is None else [shown])
        if value is None and not ranks:
            return None
        if not ranks:
            raise ValueError(
                f"rank was given {value!r}, but this graph is not of the files of several ranks. "
                "Load them, as in gradwalk.load('run-*.gw')."
            )
        instead = f"Give it the number of a rank: {_listed(ranks)}."
        rank = read_int(value, "rank was given ", instead)
        if rank not in ranks:
            raise ValueError(f"rank was given {rank}, but there is: {_listed(ranks)}.")
        return rank

    def react(self, trait: str) -> None:
        """Show the rank that was chosen, at the same cursor."""
        widget = self.widget
        before = widget._source
        if trait != "rank" or before is None or before.on_rank is None:
            return
        if widget.rank == _rank_of(before):
            return
        try:
            source = before.on_rank(widget.rank)
        except Exception as error:  # the file of that rank is damaged
            widget.rank = _rank_of(before)
            widget.send_state("rank")
            widget._say(why.failure(error))
            raise
        steps = len(source.steps)
        is_over = widget.cursor == len(widget._steps)
        source.seek(steps if is_over else min(widget.cursor, steps))
        is_diagnosed = widget._findings is not None
        with widget._change():
            self._updates.replace(source)
            widget._refresh(describe=False)
            if is_diagnosed:
                widget.set_trait("_findings", finding_models(source.findings(Names())))


def _rank_of(source: GraphSource) -> int | None:
    ranks = source.model["ranks"]
    return None if ranks is None else ranks["shown"]


def _listed(ranks: list[int]) -> str:
    """Ranks for an error: the ends of many."""
    if len(ranks) > 8 and ranks == [*range(ranks[0], ranks[-1] + 1)]:
        return f"rank {ranks[0]} to {ranks[-1]}"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
