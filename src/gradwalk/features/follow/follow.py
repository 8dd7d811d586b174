"""`follow`: look at the training loop in a block, and name what goes wrong."""

from __future__ import annotations

import functools
import html
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from ...english import plural
from ...export.save import save
from ...result import make, returned_by
from ...schema.json_values import json_number
from ...widget.graph_widget import GraphWidget
from .engine import Engine
from .judge import Judgement
from .program import Program, living_program, program_of, read_program
from .ranks import Processes
from .run_finding import RunFinding

SCHEMA_VERSION = 1
"""The version of `FollowedRun.as_json`. Raise it when a field goes or changes its meaning."""

MOST_KEPT = 2**26
"""Bytes of the graphs of steps, after which no other is kept."""


@returned_by("follow(model, optimizer)")
class FollowedRun:
    """A followed training run. `gradwalk.follow` returns it.

    Attributes:
        findings: The findings in the order of the steps, each a `RunFinding`. A healthy run has
            none, or notes (severity "info").
    """

    def __init__(
        self,
        program: Program | None = None,
        *,
        at: int = 1,
        folder: str | os.PathLike[str] | None = None,
        say: Callable[[RunFinding | Judgement | str], None] | None = None,
        keeps: bool = True,
        keeps_look: bool = True,
    ) -> None:
        self.findings: list[RunFinding] = []
        self._notes: list[str] = []
        self._listener = say
        self._folder = None if folder is None else Path(folder)
        self._kept_steps: dict[int, tuple[bytes, int | None]] = {}  # files, nodes in question
        read: Callable[[], Program] = living_program
        only: Sequence[torch.optim.Optimizer] = ()
        if program is not None:
            only, models = program.optimizers, list(program.models.values())
            # A callback knows the model alone.
            read = functools.partial(read_program, models, only)
            if not only:
                read = functools.partial(program_of, models)
        keep = self._kept if keeps else None
        self._engine = Engine(read, self._heard, at=at, only=only, keep=keep, keeps_look=keeps_look)

    def __enter__(self) -> FollowedRun:
        """Follow the steps of this thread from now on."""
        self._engine.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Follow no longer."""
        self._engine.close(error)

    @property
    def steps(self) -> int:
        """The number of steps that the optimizer took, of several the one with most."""
        return max((each.count for each in self._engine.steps.values()), default=0)

    @property
    def is_open(self) -> bool:
        """Whether it still follows."""
        return self._engine.is_open

    def rows(self) -> list[dict[str, float]]:
        """Return the numbers of the steps as flat dicts, for any tracker.

        Returns:
            A dict for each of the latest 10,000 steps: "step", "grad_norm", and "grad_norm/NAME"
            for each parameter that had a gradient; for step 2 and every tenth also "update/NAME",
            how far the step moved its compared numbers, as a share of their norm. With several
            optimizers, "optimizer" is the number of one. A norm of -1 could not be read.

        Example::

            >>> import torch
            >>> from gradwalk import follow
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> with follow(model, optimizer) as run:
            ...     model(torch.ones(1, 2)).sum().backward()
            ...     optimizer.step()
            >>> [row["grad_norm/bias"] for row in run.rows()]
            [1.0]
        """
        every = list(self._engine.steps.values())
        for each in every:
            each.statistics.flush()
        if len(every) == 1:
            return every[0].statistics.as_dicts()
        return [
            {**row, "optimizer": i}
            for i, each in enumerate(every)
            for row in each.statistics.as_dicts()
        ]

    def open(self, step: int) -> GraphWidget:
        """Open the graph of a step that was looked at or run again, as a widget.

        Args:
            step (int): The number of the step.

        Returns:
            A `GraphWidget` on the saved graph, with its recorded backward pass. The node in
            question is selected.

        Raises:
            ValueError: The graph of that step was not kept.

        Example::

            >>> import torch
            >>> from gradwalk import follow
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> with follow(model, optimizer) as run:
            ...     model(torch.ones(1, 2)).sum().backward()
            ...     optimizer.step()
            >>> len(run.open(1).model["nodes"])
            6
        """
        # Layers: the comparison's door opens any file, and is above this feature's core.
        from ...comparison.load import load  # noqa: PLC0415

        if step not in self._kept_steps:
            kept = ", ".join(map(str, sorted(self._kept_steps))) or "none"
            raise ValueError(
                f"open() was given step {step}, whose graph was not kept. Kept: {kept}. Pass at= "
                "to follow() to look at another step."
            )
        content, node = self._kept_steps[step]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"step-{step}.gw")
            path.write_bytes(content)
            found = load(path)
        assert isinstance(found, GraphWidget)
        found.selected = node
        return found

    def as_json(self) -> dict[str, object]:
        """Return the report as plain JSON values.

        Returns:
            A dict whose fields the how-to "My training does not learn" describes.

        Example::

            >>> import torch
            >>> from gradwalk import follow
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> with follow(model, optimizer) as run:
            ...     model(torch.ones(1, 2)).sum().backward()
            ...     optimizer.step()
            >>> run.as_json()["looks"][0]["with_gradient"]
            2
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "gradwalk": sys.modules["gradwalk"].__version__,
            "torch": torch.__version__,
            "rank": _rank(),
            "steps": self.steps,
            "looks": [
                {
                    "step": each.step,
                    "trainable": each.trainable,
                    "with_gradient": each.reached,
                    "passes": each.passes,
                    "losses": [json_number(loss) for loss in each.losses],
                }
                for each in self._engine.judgements
            ],
            "findings": [each._as_json() for each in self.findings],
            "notes": self._notes,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _lines(self) -> list[str]:
        grave = sum(each.severity != "info" for each in self.findings)
        head = f"{plural(self.steps, 'step')}, {plural(grave, 'warning')}"
        looks = [f"- {each}" for each in self._engine.judgements]
        return [head, *looks, *(f"- {each}" for each in self.findings), *self._notes]

    def _heard(self, what: RunFinding | Judgement | str) -> None:
        if isinstance(what, RunFinding):
            self.findings.append(what)
        elif isinstance(what, str):
            self._notes.append(what)
        if self._listener is not None:
            self._listener(what)

    def _kept(
        self, outputs: Sequence[torch.Tensor], names: Mapping[str, Any], step: int, node: int | None
    ) -> None:
        size = sum(len(content) for content, _ in self._kept_steps.values())
        if step in self._kept_steps or size > MOST_KEPT:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder if self._folder is None else self._folder, f"step-{step}.gw")
            save(tuple(outputs), path, names=names or None)
            self._kept_steps[step] = path.read_bytes(), node


def follow(
    model: nn.Module | Iterable[nn.Module],
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    *,
    at: int = 1,
    folder: str | os.PathLike[str] | None = None,
) -> FollowedRun:
    """Follow the training loop in a block, and name what goes wrong.

    One step is looked at fully: which parameters get a gradient, and why the others do not. Between
    such looks only the norms of gradients are read. Weights, gradients, random state and the
    program's output do not change. It reports a failure of the look itself once, and the
    training goes on.

    Args:
        model (nn.Module | Iterable[nn.Module]): The model that is trained, or several.
        optimizer (torch.optim.Optimizer | Iterable[torch.optim.Optimizer]): Its optimizer, or
            several.
        at (int, optional): The number of the step to look at, from 1. Default: ``1``.
        folder (str | os.PathLike[str], optional): Where to keep the graphs of these steps, as files
            that `gradwalk.load` opens. By default they are held in memory.

    Returns:
        A `FollowedRun`, whose block follows. It shows its report in a notebook.

    Raises:
        TypeError: ``model`` or ``optimizer`` is of another type.
        ValueError: ``at`` is below 1.

    Example::

        >>> import torch
        >>> from torch import nn
        >>> from gradwalk import follow
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with follow(model, optimizer) as run:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         model[1](model[0](torch.ones(1, 2)).detach()).sum().backward()
        ...         optimizer.step()
        >>> [(finding.kind, finding.parameters) for finding in run.findings]
        [('no-gradient', ('0.weight', '0.bias'))]
    """
    models = _listed(model, nn.Module, "a torch.nn.Module", "model")
    optimizers = _listed(optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer", "optimizer")
    if not isinstance(at, int) or at < 1:
        raise ValueError(f"follow() was given at={at!r}. Give the number of a step, from 1.")
    program = Program(optimizers, models={str(i): each for i, each in enumerate(models)})
    return make(FollowedRun, program, at=at, folder=folder)


def _listed(given: Any, kind: type, what: str, name: str) -> list[Any]:
    found = [given] if isinstance(given, kind) else given
    if isinstance(found, (list, tuple)) and found and all(isinstance(x, kind) for x in found):
        return list(found)
    raise TypeError(
        f"follow() was given {name}={type(given).__name__}. Pass {what}, or a list of them."
    )


def _rank() -> int:
    is_there = torch.distributed.is_available() and torch.distributed.is_initialized()
    # A script that has ended has left its group.
    return torch.distributed.get_rank() if is_there else Processes.read().rank
