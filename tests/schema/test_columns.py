"""Encoding and decoding are inverse, use few bytes, and survive hostile bytes."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import counted
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from programs import PROGRAMS, outputs_of
from torch import nn

from gradwalk import GraphWidget, compare, watch
from gradwalk.export.contents import packed_graph
from gradwalk.schema.columns import TooLargeError, decode, encode

# Both sides read it: js/wire/columns.test.ts decodes the same bytes.
TRAVELLED = json.loads(
    (Path(__file__).parents[1] / "support" / "travelled.json").read_text(encoding="utf-8")
)
GROWS = ("model", "_dtypes", "_overlays", "state", "_steps", "run", "_memory", "_findings")

leaves = st.none() | st.booleans() | st.integers() | st.text()
leaves |= st.floats(allow_nan=False, allow_infinity=False)
names = st.sampled_from(["id", "op", "shape"]) | st.text(min_size=1)


def tables(inner):
    fields = st.lists(names, min_size=1, max_size=4, unique=True)
    return fields.flatmap(lambda each: st.lists(st.fixed_dictionaries(dict.fromkeys(each, inner))))


values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(names, inner) | tables(inner),
    max_leaves=40,
)


@given(values)
def test_any_value_round_trips(value):
    assert decode(encode(value)) == value
    assert decode(memoryview(encode(value))) == value


@given(st.integers(), st.lists(st.integers(), max_size=20))
def test_numbered_records_round_trip(first, rest):
    counting = [{"id": first + i, "each": number} for i, number in enumerate(rest)]
    alone = [{"id": first + i} for i in range(len(rest))]
    assert decode(encode([counting, alone])) == [counting, alone]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=5))
def test_numbers_of_float32_come_back_bit_for_bit(numbers):
    for value in (numbers, [{"values": numbers}, {"values": [*reversed(numbers)]}]):
        assert repr(decode(encode(value))) == repr(value)


def test_other_numbers_keep_their_digits():
    for odd in (0.1, 1e300, 2.0**-1074, -1e-46, 16777217.0):
        numbers = [1.0, -0.0, 2.5, 0.5, odd]
        assert repr(decode(encode(numbers))) == repr(numbers)


@pytest.mark.parametrize("text", ["nan", "1 inf 2", "1e39", "", "1  2", "one"])
def test_texts_of_other_numbers_are_refused(text):
    with pytest.raises(ValueError, match="its text cannot be read"):
        decode(gzip.compress(json.dumps({"": text}).encode()))


def test_equal_lists_of_floats_are_written_once():
    numbers = [0.5, 1.5, 2.5, 3.5, 4.5]
    signed = [-0.0, 1.5, 2.5, 3.5, 4.5]
    value = {"all": [numbers, [*numbers], signed, {str(n): n for n in numbers}, [0.0, *signed[1:]]]}
    data = encode(value, shared="all")
    assert gzip.decompress(data).count(b"0.5 1.5 2.5") == 1
    assert repr(decode(data)) == repr(value)


@pytest.mark.parametrize("name", TRAVELLED)
def test_the_browser_reads_the_same(name):
    each = TRAVELLED[name]
    assert decode(base64.b64decode(each["bytes"])) == each["value"]
    assert decode(encode(each["value"])) == each["value"]


def test_values_outside_json_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode([float("nan")])


def decoded(widget: GraphWidget, *traits: str) -> dict:
    """The traits as the browser has them."""
    return {
        trait: None if sent is None else decode(sent)
        for trait, sent in widget.get_state(traits).items()
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_widget_sends_its_traits(name):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs)
    widget.backward([torch.ones_like(output) for output in outputs])
    widget._on_message(None, {"kind": "memory"}, None)
    widget._on_message(None, {"kind": "diagnose"}, None)
    assert decoded(widget, *GROWS) == {trait: getattr(widget, trait) for trait in GROWS}
    widget.close()


def test_a_comparison_sends_its_traits():
    x = torch.tensor(3.0, requires_grad=True)
    widget = compare([x**2, x**2 + x])
    widget.backward()
    traits = ("panes", "members", "passes", "_steps", "table")
    assert decoded(widget, *traits) == {trait: getattr(widget, trait) for trait in traits}
    widget.close()


def test_traits_from_the_browser_are_decoded():
    x = torch.tensor(3.0, requires_grad=True)
    widget = GraphWidget(x**2)
    graph = widget.model
    widget.set_state({"model": memoryview(encode(graph)), "run": None})
    assert widget.model == graph
    widget.close()


def transformer(watched: bool, named: bool) -> GraphWidget:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 12)
    if not watched:
        return GraphWidget(model(torch.randn(2, 5, 16)).mean(), names=model if named else {})
    with watch():
        loss = model(torch.randn(2, 5, 16)).mean()
    return GraphWidget(loss, names=model)


def chain() -> GraphWidget:
    y = torch.ones(2, requires_grad=True)
    for _ in range(10_000):
        y = y.sin()
    return GraphWidget(y.sum(), names={})


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (lambda: transformer(False, False), 6.2),
        (lambda: transformer(False, True), 9),
        (lambda: transformer(True, True), 9),
        (chain, 4.9),
    ],
    ids=["transformer", "with names", "watched", "chain"],
)
def test_a_graph_is_sent_in_few_bytes_per_node(program, most):
    widget = program()
    sent = widget.get_state("model")["model"]
    assert isinstance(sent, bytes)
    assert len(sent) / len(widget.model["nodes"]) < most
    widget.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"": {}}', "no columns"),
        (b'{"": 1.5}', "no columns"),
        (b'{"": [1]}', "leads to no value"),
        (b'{"a": {"": 0}}', "leads to no value"),
        (b'{"": [[1]], "a": {"": -1}}', "leads to no value"),
        (b'{"": [{"": 0}], "a": {"": 0}}', "leads to no value"),
        (b'{"": {"id": 0}}', "not lists of one length"),
        (b'{"": {"id": 0, "op": "a"}}', "not lists of one length"),
        (b'{"": {"id": [0], "op": ["a", "b"]}}', "not lists of one length"),
        (b'{"": {"op": ["a", "b"], "id": 0}}', "not lists of one length"),
        (b'{"": {"id": true, "op": ["a"]}}', "not lists of one length"),
        (b"[NaN]", "NaN is no JSON"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_damage_is_named(text, words):
    with pytest.raises(ValueError, match=words):
        decode(gzip.compress(text))


@given(st.binary(max_size=200))
def test_other_bytes_are_named(data):
    with pytest.raises(ValueError, match=r"not compressed|cut off|cannot be read"):
        decode(data)


def test_a_bomb_is_not_unpacked():
    with pytest.raises(ValueError, match="more than 1 MiB of text"):
        decode(gzip.compress(b" " * 2**24), most=2**20)


def test_what_is_at_several_places_is_written_once():
    numbers = [0.1 * i for i in range(64)]
    record = {"numbers": numbers, "name": "w"}
    value = {"graph": [1], "details": [[record, record], record, {"numbers": numbers}]}
    assert decode(encode(value, shared="details")) == value
    assert len(gzip.decompress(encode(value, shared="details"))) < len(json.dumps(numbers)) + 200


def test_references_count_as_the_values_that_they_stand_for():
    doubled = [[0] * 10, *([{"": place}, {"": place}] for place in range(60))]
    hostile = gzip.compress(json.dumps({"": doubled, "all": {"": 60}}).encode())
    with pytest.raises(TooLargeError):
        decode(hostile, most_values=1_000_000)


def test_a_recorded_pass_is_saved_in_few_bytes_per_node():
    torch.manual_seed(0)
    model, x, loss_of = counted.transformer()
    widget = GraphWidget(loss_of(model(x)), names={})
    widget.backward()
    (shown,) = widget._graphs_shown().values()
    assert len(packed_graph(shown)) <= 430 * len(shown.source.graph)  # mostly numbers
