"""One picture of several ranks: the numbers and the graph of another take the place of one's."""

from __future__ import annotations

from typing import Any

import traitlets

from ..checks.finding import finding_models
from ..explain import describe_node as why
from ..graph.integers import read_int
from ..graph.names import Names
from ..schema import FindingModel
from ..sources.graph_source import GraphSource
from ..torch_api.modes import grad_mode_kept
from .inner_steps import InnerWidget
from .traits import Cursor, reacts


class RankingWidget(InnerWidget):
    """A widget of the files of several ranks, one of which is shown. Base of `GraphWidget`.

    Attributes:
        rank: Of what `gradwalk.load` has of several ranks, the one whose numbers and graph are
            shown; None of any other graph. Set it, or choose in the picture: what is the same on
            both ranks stays where it is, with the camera, what is selected and what is folded.
    """

    rank = Cursor(None).tag(sync=True)
    _ranks: list[int] = traitlets.Any([], read_only=True).tag(sync=True)  # type: ignore[assignment]

    findings: list[FindingModel] | None

    def _draw(self, subject: GraphSource) -> bool:
        is_new = super()._draw(subject)
        if is_new:
            self._tell_ranks(subject)
        return is_new

    def _tell_ranks(self, subject: GraphSource) -> None:
        """Say which ranks there are, and which is shown."""
        self.set_trait("_ranks", [*subject.loaded_ranks])
        self.rank = _shown_in(subject)

    @traitlets.validate("rank")
    def _check_rank(self, proposal: Any) -> int | None:
        value, subject = proposal["value"], self._behind
        if subject is None:
            self._refuse_closed()
        assert subject is not None
        shown = _shown_in(subject)
        there = [*subject.loaded_ranks] or ([] if shown is None else [shown])
        if value is None and not there:
            return None
        if not there:
            raise ValueError(
                f"rank was given {value!r}, but this graph is not of the files of several ranks. "
                "Load them, as in gradwalk.load('run-*.gw')."
            )
        instead = f"Give it the number of a rank: {_listed(there)}."
        rank = read_int(value, "rank was given ", instead)
        if rank not in there:
            raise ValueError(f"rank was given {rank}, but there is: {_listed(there)}.")
        return rank

    @reacts("rank")
    @grad_mode_kept
    def _on_rank(self, _: Any) -> None:
        before = self._behind
        if before is None or self.rank == _shown_in(before) or before.on_rank is None:
            return
        try:
            subject = before.on_rank(self.rank)
        except Exception as error:  # the file of that rank is damaged
            self.rank = _shown_in(before)
            self.send_state("rank")
            self._say(why.failure(error))
            raise
        steps = len(subject.steps)
        is_over = self.cursor == len(self.steps)
        subject.seek(steps if is_over else min(self.cursor, steps))
        is_diagnosed = self.findings is not None
        with self._change():
            self._replace(subject)
            self._refresh(describe=False)
            if is_diagnosed:
                self.set_trait("findings", finding_models(subject.findings(Names())))


def _shown_in(subject: GraphSource) -> int | None:
    ranks = subject.model["ranks"]
    return None if ranks is None else ranks["shown"]


def _listed(ranks: list[int]) -> str:
    """Ranks for an error: the ends of many."""
    if len(ranks) > 8 and ranks == [*range(ranks[0], ranks[-1] + 1)]:
        return f"rank {ranks[0]} to {ranks[-1]}"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
