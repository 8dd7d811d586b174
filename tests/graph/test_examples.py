"""The gallery's examples, beside torch alone: values, gradients, and what their pictures say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import torch
from examples import EXAMPLES, Example
from oracle import Outputs
from torch import Tensor

from gradwalk import GraphWidget
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs

SCALAR = [each for each in EXAMPLES.values() if each.is_scalar]


class Alone:
    """In the place of a widget: torch's own backward, and what arrived at every node in it."""

    def __init__(self, *outputs: Tensor) -> None:
        self.outputs = list(outputs)
        seen = capture_nodes(read_outputs(outputs, "capture"), Names())
        self.nodes = seen.nodes
        self.arrived: dict[Any, Tensor] = {}
        for node in self.nodes:
            node.register_prehook(self._note(node))

    def _note(self, node: Any) -> Callable[[tuple[Tensor, ...]], None]:
        return lambda grads: self.arrived.update({node: grads[0].clone()})

    def backward(self, gradient: Tensor | None = None) -> None:
        torch.autograd.backward(self.outputs, None if gradient is None else [gradient])


@contextmanager
def both(example: Example, watched: bool = True) -> Iterator[tuple[GraphWidget, Alone, Outputs]]:
    """An example with a widget, and in torch alone with what every call gave."""
    with Outputs() as seen:
        alone = example.seeded(Alone)
    with closing(example.shown(watched)) as widget:
        yield widget, alone, seen


def board(value: Any) -> str:
    """A number as on a board, said anew: four significant digits, and a true minus sign."""
    number = float(value)
    whole = number.is_integer() and abs(number) < 1e6
    return (f"{number:.0f}" if whole else f"{number:.4g}").replace("-", "\u2212")


def leaves(widget: GraphWidget) -> list[dict[str, Any]]:
    return [node for node in widget.model["nodes"] if node["kind"] == "leaf"]


each_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def test_there_are_22() -> None:
    assert len(EXAMPLES) == 22
    assert len(SCALAR) >= 8


@pytest.mark.parametrize("example", SCALAR, ids=lambda each: each.name)
def test_every_node_of_a_scalar_graph_has_its_value_when_watched(example: Example) -> None:
    with closing(example.shown(watched=True)) as widget:
        assert all(node["shape"] in ([], None) for node in widget.model["nodes"])
        missing = [node["label"] for node in widget.model["nodes"] if node["value"] is None]
        assert not missing


@each_example
def test_leaves_and_outputs_have_their_values_without_watching(example: Example) -> None:
    with closing(example.shown(watched=False)) as widget:
        outputs = [widget.model["nodes"][root["node"]] for root in widget.model["roots"]]
        for node in [*leaves(widget), *outputs]:
            assert node["value"] is not None, node["label"]


@each_example
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "plain"])
def test_every_value_is_what_torch_gave(example: Example, watched: bool) -> None:
    with both(example, watched) as (widget, alone, seen):
        # The last copy: a call made by another one is seen before it, and gives the same.
        gave = {node: copy for node, nr, copy in seen.copies if nr == 0}
        for node, behind in zip(widget.model["nodes"], alone.nodes, strict=False):
            truth = getattr(behind, "variable", None)
            truth = gave.get(behind) if truth is None else truth.detach()
            if node["value"] is not None and truth is not None:
                assert node["value"] == truth.tolist(), node["op"]
            elif watched and truth is not None and behind in seen.alone:
                assert truth.numel() > 16, node["op"]


@each_example
def test_gradients_of_leaves_are_torchs_own(example: Example) -> None:
    with both(example) as (widget, alone, _):
        held = {
            each["node"]: each["now"] if each["changed"] else each for each in widget.run["grads"]
        }
        shown = {node: few and few["values"] for node, few in held.items()}
        for node in leaves(widget):
            widget.selected = node["id"]
            grad = alone.nodes[node["id"]].variable.grad
            told = widget.details["grad"]
            assert (told is None) == (grad is None)
            if grad is not None:
                assert told["values"] == grad.tolist()
            if shown.get(node["id"]) is not None:
                assert shown[node["id"]] == grad.tolist()


def one_number(values: Any) -> float | None:
    while isinstance(values, list) and len(values) == 1:
        (values,) = values
    return values if isinstance(values, (int, float)) and not isinstance(values, bool) else None


@each_example
def test_local_derivatives_are_torchs_own(example: Example) -> None:
    """What is passed on, by what had arrived: the chain rule's factors, which torch computes."""
    with both(example, watched=True) as (widget, _, _):
        edges, run = widget.model["edges"], widget.run
        passed = dict(zip(run["edges"], map(one_number, run["values"]), strict=True))
        came = {one["node"]: one_number(one["values"]) for one in [*run["seeds"], *run["arrived"]]}
        for place, value in passed.items():
            came.setdefault(edges[place]["target"], value)
        for node in leaves(widget):
            widget.selected = node["id"]
            chain = widget.details["chain"]
            paths = chain["paths"] if chain else []
            for factor in (each for path in paths for each in path["factors"]):
                arrived = came.get(factor["node"])
                told, truth = passed.get(factor["edge"]), one_number(factor["value"])
                if arrived and told is not None and truth is not None:
                    assert told / arrived == pytest.approx(truth, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("example", SCALAR, ids=lambda each: each.name)
def test_the_chain_rule_at_every_node_makes_what_torch_passed_there(example: Example) -> None:
    with both(example) as (widget, alone, _):
        told = 0
        for node, behind in zip(widget.model["nodes"], alone.nodes, strict=False):
            widget.selected = node["id"]
            chain = widget.details["chain"]
            if chain is None or chain["sum"] is None or behind not in alone.arrived:
                continue
            came = alone.arrived[behind].item()
            assert chain["sum"] == pytest.approx(came, rel=1e-5, abs=1e-9), node["op"]
            told += 1
        assert told >= len(leaves(widget))


@each_example
def test_every_operation_has_a_sign(example: Example) -> None:
    with closing(example.shown(watched=True)) as widget:
        for node in widget.model["nodes"]:
            assert bool(node["sign"]) == (node["kind"] == "op"), node["op"]


@each_example
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "plain"])
def test_the_picture_says_every_number(example: Example, watched: bool) -> None:
    with both(example, watched) as (widget, alone, _):
        svg = "{http://www.w3.org/2000/svg}"
        texts = ET.fromstring(widget.to_svg(whole=True)).iter(f"{svg}text")
        # The sum of a leaf's shares is marked as one.
        said = Counter("".join(text.itertext()).lstrip("=Σ ") for text in texts)
        # A constant that an operation's sign says is in there, "× 2".
        drawn = [node for node in widget.model["nodes"] if node["said_by"] is None]
        values = [node["value"] for node in drawn]
        needed = Counter(board(value) for value in values if isinstance(value, (int, float)))
        for node in alone.nodes:
            leaf = getattr(node, "variable", None)
            grad = alone.arrived.get(node) if leaf is None else leaf.grad
            if grad is not None and grad.dim() == 0:
                needed[board(grad)] += 1
        assert not needed - said


@each_example
def test_the_program_on_the_page_runs_as_it_stands(example: Example) -> None:
    variables: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    torch.manual_seed(0)
    exec(compile(example.code(), "gallery.md", "exec"), {**variables, "GraphWidget": GraphWidget})
