"""`what_if`: compute gradients with some of them cut, scaled or replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...backward.record import Recording
from ...backward.recorded_pass import RecordedPass
from ...backward.recorded_run import RecordedRun
from ...graph.capture import Capture, OutputKey, capture_nodes
from ...graph.names import Names, caller_names
from ...graph.outputs import read_outputs
from ...result import make, replaced, returned_by
from ...sources.graph_source import TakesSnapshots
from ...torch_api.modes import grad_mode_kept, unseen
from ...tracing.annotate import watched
from ...types import ByEdge, Edge, Gradient, Outputs, RecordedGraph, Replacement
from .experiment import Experiment, place_name, read_edits
from .program_change import program_change
from .replay import less, same
from .saved_copies import copies_of

_BEFORE = "before"


@returned_by("what_if(loss, ...)")
@dataclass(frozen=True)
class WhatIf:
    """Gradients without and with changes, from `what_if`.

    Attributes:
        before: Name of each leaf, else its id -> its gradient without changes, or None.
        after: Name of each leaf, else its id -> its gradient with the changes, or None.
        code: Python code that makes the changes in the program.
        notes: Sentences on hooks and custom Functions that the numbers depend on.
        ran: The number of nodes that ran again below the changes.
        name: Its name in a comparison; empty until `named` sets it.
    """

    before: dict[str | int, torch.Tensor | None]
    after: dict[str | int, torch.Tensor | None]
    code: str
    notes: list[str]
    ran: int
    name: str = ""

    def named(self, name: str) -> WhatIf:
        """Return a copy with a name, for `beside`.

        Args:
            name (str): The name: "no skip".

        Returns:
            The copy.

        Raises:
            TypeError: The name is not a string.
            ValueError: The name is empty, or "before".

        Example::

            >>> import torch
            >>> from gradwalk import what_if
            >>> w = torch.tensor(2.0, requires_grad=True)
            >>> what_if(w**2, scale={"w": 0.5}).named("half").before["w"]
            tensor(4.)
        """
        if not isinstance(name, str):
            raise TypeError(
                f"named() was given {name!r}, of type {type(name).__name__}. Give a text."
            )
        if name in ("", _BEFORE):
            raise ValueError(
                f"named() was given {name!r}. Give a name of its own: {_BEFORE!r} is what the "
                "gradients are called without any change."
            )
        return replaced(self, name=name)

    def beside(self, *others: WhatIf) -> dict[str, dict[str | int, torch.Tensor | None]]:
        """Return the gradients without changes and with each result's changes, as columns.

        Args:
            *others (WhatIf): Other results for the same pass.

        Returns:
            "before", and the name of each -> leaf -> its gradient, None for none;
            ``pandas.DataFrame`` takes it as it is.

        Raises:
            TypeError: Something is no `WhatIf`.
            ValueError: One has no name, or that of another one, or is of another pass.

        Example::

            >>> import torch
            >>> from gradwalk import what_if
            >>> w = torch.tensor(2.0, requires_grad=True)
            >>> h = w * 3
            >>> out = h + h**2
            >>> skip = what_if(out, cut=[(0, 0)]).named("no skip")
            >>> beside = skip.beside(what_if(out, scale={"h": 0.5}).named("half"))
            >>> {name: gradients["w"].item() for name, gradients in beside.items()}
            {'before': 39.0, 'no skip': 36.0, 'half': 19.5}
        """
        found: dict[str, dict[str | int, torch.Tensor | None]] = {_BEFORE: self.before}
        for each in (self, *others):
            if not isinstance(each, WhatIf):
                raise TypeError(
                    f"beside() was given {each!r}, of type {type(each).__name__}. Give what "
                    "what_if() returned."
                )
            if not each.name or each.name in found:
                what = f"two that are called {each.name!r}" if each.name else "one without a name"
                raise ValueError(f"beside() has {what}. Name each: what_if(...).named('no skip').")
            if each.before.keys() != self.before.keys() or not all(
                same(self.before[key], grad) for key, grad in each.before.items()
            ):
                raise ValueError(
                    f"beside() was given {each.name!r}, whose gradients without a change are "
                    f"others than those of {self.name!r}: it is of another pass, or of other "
                    "inputs."
                )
            found[each.name] = each.after
        return found

    @property
    def difference(self) -> dict[str | int, torch.Tensor | None]:
        """Return ``after - before`` of each leaf; None if neither has a gradient."""
        return {key: less(self.after[key], self.before[key]) for key in self.before}

    def __repr__(self) -> str:
        changed = sum(not same(self.before[key], self.after[key]) for key in self.before)
        called = f" {self.name!r}" if self.name else ""
        return f"<WhatIf{called}: {changed} of {len(self.before)} gradients change>"


def what_if(
    *outputs: Outputs | RecordedGraph,
    cut: Edge | Iterable[Edge] = (),
    scale: ByEdge[float | torch.Tensor] | None = None,
    replace: ByEdge[Replacement] | None = None,
    gradient: Gradient | None = None,
    inputs: torch.Tensor | str | Iterable[torch.Tensor | str] | None = None,
    stacklevel: int = 1,
) -> WhatIf:
    """Compute the gradients that backward would give with changes.

    The forward pass does not run again, no ``.grad`` changes, no hook runs, and nothing is freed.

    An edge is ``(consumer id, arg_nr)``, with the ids of `gradwalk.capture` of the same outputs;
    or a tensor, or a tensor's name, for all edges that flow to it, as one.

    Args:
        *outputs (Outputs | RecordedGraph): Tensors that require grad, gradient edges or autograd
            nodes, any number, also in lists, tuples and dicts. Or one `Recording`, or one
            `GraphWidget` that has recorded a pass: then only nodes below the change run, unless
            your hooks changed gradients. An open widget keeps the saved tensors of a graph that
            saves up to 1 MiB, so that its nodes can run after ``backward()`` has freed them.
        cut (Edge | Iterable[Edge], optional): The edges through which no gradient flows, as after
            ``detach()``. Default: ``()``.
        scale (ByEdge[float | torch.Tensor], optional): ``{edge: factor}``. None scales
            nothing.
        replace (ByEdge[Replacement], optional): ``{edge: tensor or function of the
            gradient}``, as ``Tensor.register_hook`` takes it. None replaces nothing.
        gradient (Gradient, optional): The gradient to start from, as in ``Tensor.backward``: a
            tensor of the output's shape, or a list of them, one per output. None for outputs of one
            number.
        inputs (torch.Tensor | str | Iterable[torch.Tensor | str], optional): The tensors to report,
            or their names; None for every leaf.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The gradients before and after.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name or an edge is not in the graph, or a shape does not fit.
        RuntimeError: A node cannot run again: its saved tensors were freed, it is compiled code
            that overwrites what it saved, a custom Function that can run only once. Or a function
            in ``replace`` raised; what it raised is the cause of this error.

    Example::

        >>> import torch
        >>> from gradwalk import what_if
        >>> w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(0.5)
        >>> h = w * x
        >>> out = h + h.tanh()
        >>> found = what_if(out, cut=[(0, 0)])
        >>> found.before["w"], found.after["w"]
        (tensor(0.7100), tensor(0.2100))
        >>> what_if(out, scale={"h": 10}).after["w"]
        tensor(7.0999)
    """
    names = caller_names(None, "what_if", stacklevel)
    captured, run = _read_run(outputs, names)
    return _what_if(captured, run, (cut, scale, replace), gradient, inputs)


def _read_run(outputs: tuple[Any, ...], names: Names) -> tuple[Capture, RecordedRun | None]:
    """The graph, and its completed pass if one is recorded."""
    given = outputs[0] if len(outputs) == 1 else None
    if isinstance(given, Recording):
        recorded: RecordedPass | None = given._pass
        captured: Capture | None = given._pass.captured
    elif isinstance(given, TakesSnapshots):
        source = given._shown().source
        recorded, captured = source.recording, source.autograd
    else:
        return capture_nodes(read_outputs(outputs, "what_if"), names), None
    if captured is None:
        raise TypeError(
            "what_if() was given a widget without a live graph, in which nothing can run: a static "
            "program, or a file. Give the tensor that you would call backward() on."
        )
    return captured, recorded.run if recorded is not None and recorded.run.state == "done" else None


@grad_mode_kept
def _what_if(
    captured: Capture, run: RecordedRun | None, asked: Any, gradient: Any, inputs: Any
) -> WhatIf:
    with unseen(), torch.no_grad():
        copies = copies_of(captured)
        if copies is not None and copies.lacks_any(run):
            copies = None
        experiment = Experiment(captured, gradient, inputs, recorded=run, copies=copies)
        edits = read_edits(experiment, *asked)
        outcome = experiment.what_if(edits)
        keys = keys_of(experiment, list(outcome.before))
        return make(
            WhatIf,
            before={keys[place]: grad for place, grad in outcome.before.items()},
            after={keys[place]: grad for place, grad in outcome.after.items()},
            code=program_change(watched(captured), experiment, edits, outcome.flowed),
            notes=experiment.notes(edits),
            ran=outcome.ran,
        )


def keys_of(experiment: Experiment, places: Sequence[OutputKey]) -> dict[OutputKey, str | int]:
    """Name each place: by its own name, else the id of its node, else node and output."""
    keys: dict[OutputKey, str | int] = {}
    taken: set[str | int] = set()
    for place in places:
        name = place_name(experiment.replay, place)
        choices = (name, place[0], f"node {place[0]} output {place[1]}")
        keys[place] = key = next(each for each in choices if each is not None and each not in taken)
        taken.add(key)
    return keys
