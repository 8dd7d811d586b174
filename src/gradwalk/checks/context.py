"""Evidence for findings: the graph, a pass, and the names of the program."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..backward.kept_gradients import KeptGradient, norms
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..explain.constants_and_cuts import at_line
from ..explain.loss_graph import LossGraph, graph_of
from ..graph.labels import described
from ..graph.names import Names
from ..torch_api.nodes import leaf_tensor
from ..torch_api.saved_tensors import read_saved
from ..tracing.annotate import Annotated
from ..tracing.source_line import SourceLine


@dataclass(frozen=True)
class CheckContext:
    """Everything that findings are made from."""

    captured: Annotated  # the graph
    recording: RecordedPass | None  # the pass to judge, if there was one
    namespaces: Mapping[int, str]  # node id -> the module that ran it, as far as it is known
    called: Names  # the names of the program for its parameters
    is_explicit: bool  # whether all that is called so belongs to the model
    optimizers: Sequence[torch.optim.Optimizer] = ()  # the optimizers that were given
    # Leaves whose ``.grad`` is made of the gradients of several processes.
    reduced: Collection[int] = ()

    @property
    def run(self) -> RecordedRun | None:
        """The recorded pass, if there was one whose steps were seen."""
        run = None if self.recording is None else self.recording.run
        return None if run is None or run.is_unseen else run

    @functools.cached_property
    def leaves(self) -> dict[int, int]:
        """``id`` of each leaf of the graph -> its node."""
        found = map(leaf_tensor, self.captured.nodes)
        return {id(leaf): node for node, leaf in enumerate(found) if leaf is not None}

    @functools.cached_property
    def arrived(self) -> dict[int, tuple[KeptGradient | None, float | None]]:
        """Each leaf that ran in the pass -> its incoming gradient, and the norm of that."""
        steps = {} if self.run is None else self.run.steps
        ran = [node for node in self.leaves.values() if node in steps and steps[node].grad_outputs]
        came = [steps[node].grad_outputs[0] for node in ran]
        return dict(zip(ran, zip(came, norms(came), strict=True), strict=True))

    @functools.cached_property
    def loss(self) -> LossGraph:
        """The graph as one behind a loss."""
        return graph_of(self.captured)

    @functools.cached_property
    def models(self) -> dict[str, dict[int, str]]:
        """The variables whose modules are used in the graph -> ``id`` of parameters -> name."""
        return {
            variable: parameters
            for variable, parameters in self.called.parameters.items()
            if self.is_explicit or any(self.is_used(key) for key in parameters)
        }

    @functools.cached_property
    def expected(self) -> dict[int, str]:
        """``id`` of each leaf that a gradient may be expected for -> its name."""
        found: dict[int, str] = {}
        for parameters in self.models.values():
            for key, name in parameters.items():
                found.setdefault(key, self.called.leaves.get(key, name))
        if self.is_explicit:
            found = {**self.called.leaves, **found}
        if self.optimizers:
            held = self.held
            found = {key: name for key, name in found.items() if key in held}
            for key, tensor in held.items():
                if key not in found and key in self.called.leaves and tensor.requires_grad:
                    found[key] = self.called.leaves[key]
        return found

    @functools.cached_property
    def held(self) -> dict[int, torch.Tensor]:
        """``id`` of each parameter that an optimizer holds, as a leaf -> the parameter."""
        leaf_of = self.called.leaves_of_parameters()
        return {leaf_of.get(id(each), id(each)): each for each in _held(self.optimizers)}

    @functools.cached_property
    def held_by(self) -> list[set[int]]:
        """``id`` of what each optimizer holds, as leaves."""
        leaf_of = self.called.leaves_of_parameters()
        return [{leaf_of.get(id(p), id(p)) for p in _held([each])} for each in self.optimizers]

    @functools.cached_property
    def waiting(self) -> set[int]:
        """``id`` of what optimizers hold that hold nothing of the graph, where another one does."""
        used = [keys for keys in self.held_by if any(self.is_used(key) for key in keys)]
        return set().union(*self.held_by).difference(*used) if used else set()

    def is_used(self, key: int) -> bool:
        """Whether a leaf, by its ``id``, is one of the graph, or of a Function within it."""
        return key in self.leaves or key in self.loss.inside

    def tensor(self, key: int) -> torch.Tensor | None:
        """A leaf that the program has a name for, by its ``id``, while it lives."""
        _, reference = self.called.known.get(key, (None, None))
        found = reference() if reference is not None else None
        return found if found is not None and id(found) == key else None

    def leaf(self, node: int) -> torch.Tensor | None:
        """The tensor of a leaf; None for another node."""
        return leaf_tensor(self.captured.nodes[node])

    def nodes_of(self, ops: Collection[str]) -> Iterator[tuple[int, str]]:
        """Yield the nodes of some operations, each with its operation."""
        return ((node, op) for node, op in self.captured.graph.nodes(data="op") if op in ops)

    def name(self, node: int) -> str:
        """The name of a leaf in the program; without one, the node in words."""
        data, leaf = self.captured.graph.nodes[node], self.leaf(node)
        known = self.expected.get(id(leaf)) if leaf is not None else None
        return data["name"] or known or described(self.captured.graph, node)

    def saved(self, node: int) -> dict[str, Any]:
        """The saved values of a node by name."""
        return {each.name: each.value for each in read_saved(self.captured.nodes[node])}

    def words(self, node: int) -> str:
        """A node in words, as `described` has them, with the module that ran it."""
        words, module = described(self.captured.graph, node), self.module(node)
        before, number = words.rsplit(" (", 1)
        return f"{before} in {module} ({number}" if module else words

    def module(self, node: int) -> str:
        """The path of the module that ran a node, with its variable as far as known."""
        seen = self.captured.module_of(node)
        if seen is not None:
            return seen
        # Modules are not inferred well where derivatives went into the loss.
        is_known = not self.loss.holds_derivatives
        return self.namespaces.get(node, "").replace("/", ".") if is_known else ""

    def module_of(self, node: int) -> str:
        """The module of a node as `module` has it; of a parameter, the module that holds it."""
        is_parameter = isinstance(self.leaf(node), torch.nn.Parameter)
        return self.module(node) or (self.name(node).rpartition(".")[0] if is_parameter else "")

    def place(self, node: int, named: SourceLine | None = None) -> str:
        """A node by its place: "body.1 at train.py:5 (`y = f(x)`) [MulBackward0 (node 2)]"."""
        words, line = described(self.captured.graph, node), self.line(node)
        line = None if line == named else line
        module = self.module(node)
        module = f"module {module}" if module[:1].isdigit() else module
        where = " at ".join(filter(None, (module, str(line or ""))))
        if not where:
            return words
        text = f" (`{line.text}`)" if line is not None and line.text else ""
        return f"{where}{text} [{words}]"

    def line(self, node: int) -> SourceLine | None:
        """The line that made a node, when that was watched."""
        annotation = self.captured.annotations.get(node)
        return annotation.source if annotation is not None else None

    def at(self, node: int) -> str:
        """Where a node was made, for after its words: " at train.py:5 (`y = x * 2`)"; or empty."""
        return at_line(self.line(node), text=True)


def _held(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[torch.Tensor]:
    for group in (group for each in optimizers for group in each.param_groups):
        yield from group["params"]
