"""What models return is taken as it is: every tensor with a graph, and the rest left out."""

from __future__ import annotations

import collections
import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from gradwalk import GraphWidget, capture, diagnose, record

head = nn.Linear(3, 2)


@dataclass
class Output:
    loss: torch.Tensor
    scores: torch.Tensor
    cache: object = None
    more: list[Any] = field(default_factory=list)


class Cache:
    """As of keys and values; torch knows nothing of it."""


class Tree:
    """A class that is registered as a pytree."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


torch.utils._pytree.register_pytree_node(
    Tree, lambda tree: ([tree.first, tree.second], None), lambda parts, _: Tree(*parts)
)
Pair = namedtuple("Pair", "main aux")
ids = torch.tensor([0, 1])

RETURNED = {
    "a dataclass": (Output, 2, False),
    "a dataclass with a cache": (lambda loss, scores: Output(loss, scores, Cache()), 2, True),
    "nested": (lambda loss, scores: Output(loss, scores, more=[{"h": scores}, None]), 2, False),
    "a dict with a cache": (lambda loss, _: {"loss": loss, "cache": Cache()}, 1, True),
    "a dict with None": (lambda _, scores: {"scores": scores, "hidden": None}, 1, False),
    "a namedtuple with None": (lambda _, scores: Pair(scores, None), 1, False),
    "labels beside it": (lambda loss, _: {"loss": loss, "labels": ids}, 1, True),
    "a number beside it": (lambda _, scores: (scores, 3), 1, False),
    "a text beside it": (lambda loss, _: {"loss": loss, "name": "train"}, 1, False),
    "a pytree": (Tree, 2, False),
    "a pytree in a dict": (lambda loss, scores: {"a": Tree(loss, None), "b": scores}, 2, False),
    "a packed sequence": (lambda _, scores: pack_sequence([scores[:3], scores[:1]]), 1, True),
    "a generator": (lambda loss, scores: (each for each in (loss, scores)), 2, False),
    "a deque": (lambda loss, scores: collections.deque([loss, scores]), 2, False),
    "a detached copy": (lambda loss, scores: {"loss": loss, "y": scores.detach()}, 1, True),
    "an ordered dict": (lambda loss, _: collections.OrderedDict(loss=loss, n=1), 1, False),
}


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.parametrize("call", [GraphWidget, capture])
def test_what_has_a_graph_is_taken(name, call):
    make, count, is_told = RETURNED[name]
    scores = head(torch.randn(4, 3))
    given = make(scores.pow(2).mean(), scores)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = call(given)
    graph = found.to_networkx() if call is GraphWidget else found
    assert len(set(graph.graph["roots"])) == count
    assert len(said) == is_told
    for each in said:
        assert each.filename == __file__
        assert str(each.message).startswith(f"{call.__name__}() leaves out ")


@pytest.mark.parametrize("call", [diagnose, record])
def test_a_loss_beside_labels_is_judged(call):
    with pytest.warns(
        UserWarning, match=r"leaves out \['labels'\] \(a tensor that needs no grad\)"
    ):
        call({"loss": head(torch.randn(4, 3)).mean(), "labels": ids})


def test_one_line_of_a_loop_says_it_once():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            capture({"loss": head(torch.randn(4, 3)).mean(), "labels": ids})
    assert len(said) == 1


@pytest.mark.parametrize(
    "given", [Output(torch.ones(()), torch.ones(2)), {"a": None}, (1, 2), Tree(ids, None), []]
)
def test_what_has_no_graph_anywhere_is_refused(given):
    with pytest.raises((TypeError, ValueError), match=r"GraphWidget\(\) was given"):
        GraphWidget(given)


def test_an_argument_of_its_own_is_refused():
    loss = head(torch.randn(4, 3)).mean()
    with pytest.raises(ValueError, match="argument 2, a tensor of shape"):
        GraphWidget(loss, ids)
    with pytest.raises(TypeError, match="argument 2, None"):
        GraphWidget(loss, None)


def test_names_of_the_parts():
    scores = head(torch.randn(4, 3))
    widget = GraphWidget(Output(scores.mean(), scores, more=[scores * 2]), names={})
    assert [root["name"] for root in widget.model["roots"]] == ["loss", "scores", "more[0]"]
