"""The known numbers of a recorded step, node by node, live or from a file."""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...backward.record import Recording, record_captured
from ...explain.passes import why_freed
from ...export.disk import read_file
from ...graph.adjacency import predecessors
from ...graph.capture import capture_nodes
from ...graph.labels import CASTS
from ...graph.names import Names
from ...graph.outputs import is_program, read_outputs
from ...panel.value import as_tensor
from ...result import remembered
from ...schema.backward import RunModel
from ...schema.details import DetailsModel, TensorSummary
from ...schema.file_format import MOST_BYTES, unpack
from ...sources.graph_source import GraphSource, TakesSnapshots
from ...sources.read_source import read_source
from ...sources.saved_graph import SavedGraph
from ...torch_api.modes import grad_mode_kept
from ...torch_api.nodes import leaf_tensor
from ...torch_api.reading import dtype_of
from ...torch_api.saved_tensors import is_freed
from ...tracing.annotate import Annotated, annotate
from ...tracing.values import used_leaf, value_of
from .tensor_distance import Number

NUMERICS = "compare_numerics"  # the public name, for messages


def read_tolerance(rtol: Any, atol: Any) -> tuple[float, float] | None:
    """Check the tolerances and return them; None if none are given."""
    if (rtol is None) != (atol is None):
        raise TypeError(
            f"compare_numerics() was given rtol={rtol!r} and atol={atol!r}. Give both, or neither "
            "for the tolerances of torch.testing.assert_close."
        )
    if rtol is None or atol is None:
        return None
    for name, given in (("rtol", rtol), ("atol", atol)):
        if not isinstance(given, numbers.Real) or not float(given) >= 0:
            raise TypeError(
                f"compare_numerics() was given {name}={given!r}. Give a number of at least 0, "
                "as for torch.testing.assert_close."
            )
    return float(rtol), float(atol)


@grad_mode_kept
def read_run(given: Any, side: str, names: Names, gradient: Any) -> RunNumbers:
    """Return a run with its recorded pass; for a tensor, run and record backward."""
    if isinstance(given, (str, os.PathLike)):
        opened = SavedGraph(unpack(*read_file(given, NUMERICS, MOST_BYTES)))
        return RunNumbers(opened, f"{side}: {Path(given).name}")
    if isinstance(given, TakesSnapshots):
        return _known(given._shown().source, side)
    if isinstance(given, Recording):
        return _known(read_source((given,), names, NUMERICS), side)
    if is_program(given):
        raise TypeError(
            "compare_numerics() was given a static graph, which has no numbers. Give the tensor "
            "that you would call backward() on."
        )
    captured = capture_nodes(read_outputs((given,), NUMERICS), names)
    freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
    if freed:
        raise RuntimeError(why_freed(annotate(captured, names, infer=False), freed))
    outputs = [captured.graph.nodes[node]["outputs"][nr] for node, nr in captured.roots]
    recording = record_captured(captured, gradient=_cast(gradient, outputs))
    recording.reset()
    return _known(read_source((recording,), names, NUMERICS), side, had_run=False)


def _known(source: GraphSource, side: str, had_run: bool = True) -> RunNumbers:
    """The numbers of a run, labelled by the name of its first output."""
    ((node, _), *_) = source.graph.graph["roots"]
    name = source.graph.nodes[node]["name"]
    return RunNumbers(source, f"{side}: {name}" if name and name != side else side, had_run)


def _cast(gradient: Any, outputs: Sequence[Mapping[str, Any]]) -> Any:
    """The start gradient, in the dtype and on the device of each output."""
    if isinstance(gradient, (list, tuple)):
        return [_cast(each, outputs[i : i + 1]) for i, each in enumerate(gradient)]
    if not isinstance(gradient, torch.Tensor) or not outputs or outputs[0]["dtype"] is None:
        return gradient
    return gradient.to(device=outputs[0]["device"], dtype=dtype_of(outputs[0]["dtype"]))


class RunNumbers:
    """The known values and gradients of one of two compared steps.

    Attributes:
        source: Its graph, with the recorded pass.
        label: Its name.
    """

    def __init__(self, source: GraphSource, label: str, had_run: bool = True) -> None:
        """Read nothing yet."""
        self.source = source
        self.label = label
        self._had_run = had_run
        self._read_details: Callable[[int, int | None], DetailsModel] | None = None

    @remembered
    def value(self, node: int) -> Number | None:
        """Return the value of a node in the forward pass; None if unknown."""
        live = self.source.autograd
        if live is None:
            return self._saved_value(node)
        return _live_value(live, node, self._had_run)

    @remembered
    def gradients(self, node: int) -> list[Number | None]:
        """Return the incoming gradients of a node, one per output; empty if it did not run."""
        recording = self.source.recording
        if recording is None:
            return self._saved_gradients(node)
        step = recording.run.steps.get(node)
        return [] if step is None else list(map(Number.kept, step.grad_outputs))

    def lacks(self, node: int) -> bool:
        """Return whether the node is known to have received no gradient in the pass."""
        if self.source.recorded is None:
            return False
        return node not in self._ran or (bool(found := self.gradients(node)) and not any(found))

    @functools.cached_property
    def _ran(self) -> set[int]:
        return {step["node"] for step in self.source.steps}

    @remembered
    def passed(self, node: int) -> list[torch.Tensor | None] | None:
        """Return the outgoing gradients, one per next function; None if not known in full."""
        recording = self.source.recording
        step = None if recording is None else recording.run.steps.get(node)
        return None if step is None else _in_full(map(Number.kept, step.grad_inputs))

    def arrived(self, node: int) -> list[torch.Tensor | None] | None:
        """Return the incoming gradients, one per output; None if not known in full."""
        return _in_full(self.gradients(node)) or None

    def largest(self, node: int) -> float:
        """Return the largest magnitude in the gradients of a node and of its predecessors."""
        found = [node, *predecessors(self.source.graph)[node]]
        numbers = [each for at in found for each in self.gradients(at) if each is not None]
        return max((each.largest for each in numbers), default=0.0)

    @functools.cached_property
    def working_dtype(self) -> str | None:
        """Return the dtype in which most numbers of leaves are used, cast or not."""
        graph = self.source.graph
        counts: Counter[str | None] = Counter({None: 0})
        for leaf, data in graph.nodes(data=True):
            if data["kind"] == "leaf":
                users = [graph.nodes[user] for user in graph.predecessors(leaf)]
                cast = next((user["dtype"] for user in users if user["op"] in CASTS), None)
                counts[cast or data["dtype"]] += math.prod(data["shape"] or ())
        return max(counts, key=counts.__getitem__)

    def _details(self, node: int) -> DetailsModel:
        if self._read_details is None:
            self._read_details = self.source.details_reader()
        return self._read_details(node, len(self.source.steps))

    def _saved_value(self, node: int) -> Number | None:
        saved = self._details(node)["value"]
        if saved is not None:
            return Number(None, saved)
        values = self.source.model["nodes"][node]["value"]
        return None if values is None else Number(None, self._summary(node, values=values))

    def _saved_gradients(self, node: int) -> list[Number | None]:
        saved = self._details(node)["grad_output"]
        if saved is not None:
            return [None if each is None else Number(None, each) for each in saved]
        run = self.source.run
        few = None if run is None else self._short_summaries.get(node)
        return [] if few is None else [Number(None, self._summary(node, **few))]

    @functools.cached_property
    def _short_summaries(self) -> dict[int, dict[str, Any]]:
        """Norms and samples of the gradients of nodes whose details were not saved."""
        run: RunModel | None = self.source.run
        found: dict[int, dict[str, Any]] = {}
        if run is None:
            return found
        edges, seen = self.source.model["edges"], set()
        for place, values, norm in zip(run["edges"], run["values"], run["norms"], strict=True):
            target = edges[place]["target"]
            found[target] = {"values": values, "norm": norm}
            if target in seen or edges[place]["output_nr"]:  # a sum, or one of several outputs
                found[target] = {"values": None, "norm": None}
            seen.add(target)
        for one in [*run["arrived"], *run["seeds"]]:
            found[one["node"]] = {"values": one["values"], "norm": one["norm"]}
        return {node: few for node, few in found.items() if few["norm"] is not None}

    def _summary(self, node: int, values: Any = None, norm: Any = None) -> TensorSummary:
        data = self.source.graph.nodes[node]
        shape = list(data["shape"] or ())
        return {
            "shape": shape,
            "dtype": data["dtype"] or "torch.float32",
            "device": data["device"] or "cpu",
            "numel": math.prod(shape),
            "values": values,
            "truncated": False,
            "indices": None,
            "min": None,
            "max": None,
            "mean": None,
            "norm": norm,
            "nan": None,
            "inf": None,
            "zeros": None,
            "note": None,
        }


def _live_value(captured: Annotated, node: int, had_run: bool) -> Number | None:
    """The forward value of a node of a live graph; for a leaf, the one that operations used."""
    value: Any
    leaf = leaf_tensor(captured.nodes[node])
    if leaf is not None:
        used = used_leaf(captured, node, had_run)
        value = leaf if used.changed is False else used.value
    else:
        known = value_of(captured, node)
        value = None if known is None else known.value
    return None if value is None else Number(as_tensor(captured, node, value).detach())


def _in_full(numbers: Iterable[Number | None]) -> list[torch.Tensor | None] | None:
    """The tensors; None if one of them is only known in part."""
    found: list[torch.Tensor | None] = []
    for each in numbers:
        if each is not None and each.tensor is None:
            return None
        found.append(None if each is None else each.tensor)
    return found
