"""The text tree says what the graph says: it is read back and compared with the graph."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, leaf, outputs_of

from gradwalk import capture
from gradwalk.export.text import text_tree

pytestmark = pytest.mark.one_python

LINE = re.compile(
    r"(?P<indent>(?:│  |   )*)(?P<mark>├─ |└─ |↳ )?(?:(?P<argument>[^:]+): )?"
    r"(?P<see>→ see )?(?P<node>\d+)(?P<rest>.*)"
)


def read_back(text):
    """(outputs, ids of the lines that describe a node, Counter of (source, argument, target))."""
    tops, described, edges = [], [], Counter()
    last = {}  # level -> the node that ``↳`` on this level, or a branch one level in, belongs to
    for line in text.split("\n"):
        found = LINE.fullmatch(line)
        assert found, line
        level, node = len(found["indent"]) // 3, int(found["node"])
        if found["mark"] is None:
            assert level == 0
            assert found["argument"] is None
            tops.append(node)
        else:
            edges[last[level], found["argument"], node] += 1
            level += found["mark"] != "↳ "
        if found["see"]:
            last[level] = None  # nothing hangs on a reference
        else:
            described.append(node)
            last[level] = node
    return tops, described, edges


def edges_of(graph):
    return Counter(
        (source, edge["argument"] or f"input {edge['arg_nr']}", target)
        for source, target, edge in graph.edges(data=True)
    )


def assert_says(text, graph):
    tops, described, edges = read_back(text)
    roots = [node for node, _ in graph.graph["roots"]]
    assert tops[: len(roots)] == roots
    assert sorted(described) == sorted(graph.nodes)
    assert edges == edges_of(graph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_reads_back(name):
    graph = capture(*outputs_of(name))
    assert_says(text_tree(graph, 10_000), graph)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=3),
)
@settings(deadline=None, max_examples=150)
def test_any_graph_reads_back(pairs, more_roots):
    values = [leaf(2), leaf(2)]
    for left, right in pairs:
        a, b = values[left % len(values)], values[-1 - right % len(values)]
        values.append(a.sin() if left == right else a * b)
    graph = capture(values[-1], *(values[i % len(values)] for i in more_roots))
    text = text_tree(graph, 10_000)
    assert_says(text, graph)
    assert max(map(len, re.findall(r"^[│ ]*", text, re.MULTILINE))) <= 3 * 11


def test_a_learners_graph():
    w, x, b = (torch.tensor([v], requires_grad=True) for v in (4.0, 1.0, 0.5))
    assert text_tree(capture(w * x + b, names={"w": w, "x": x})) == "\n".join(
        [
            "0 Add (1)",
            "├─ self: 1 Mul (1)",
            "│  ├─ self: 3 leaf w (1)",
            "│  └─ other: 4 leaf x (1)",
            "└─ other: 2 leaf (1)",
        ]
    )


def test_a_shared_node_is_printed_once():
    x = torch.tensor(3.0, requires_grad=True)
    y = x.exp()
    assert text_tree(capture(y * y, names={"x": x})) == "\n".join(
        [
            "0 Mul scalar",
            "├─ self: 1 Exp scalar",
            "│  ↳ self: 2 leaf x scalar",
            "└─ other: → see 1",
        ]
    )


def test_several_outputs_and_operands_without_grad():
    a, _, c = leaf(3, 4).unbind()
    text = text_tree(capture({"first": a, "third": c * 2}))
    assert text == "\n".join(
        [
            "0 Unbind first (4), output 0 of 3",
            "↳ self: 2 leaf (3, 4)",
            "1 Mul third (4), no grad: other",
            "↳ self: → see 0, output 2 of 3",
        ]
    )


def test_inputs_come_in_the_order_of_the_call():
    x, y = leaf(1), leaf(1)
    text = text_tree(capture(torch.cat([x, y, x])))
    assert re.findall(r"─ (.*): (?:→ see )?(\d)", text) == [
        ("tensors[0]", "1"),
        ("tensors[1]", "2"),
        ("tensors[2]", "1"),
    ]


def test_a_leaf_and_the_same_output_twice():
    x = leaf(2)
    assert text_tree(capture(x, x)) == "0 leaf (2)\n→ see 0"


def test_a_long_chain_stays_on_its_level():
    y = leaf(3)
    for _ in range(300):
        y = y.sin()
    lines = text_tree(capture(y)).split("\n")
    assert len(lines) == 301
    assert all(line.startswith("↳ self: ") for line in lines[1:])


def test_a_deep_net_stays_narrow():
    h, skip = leaf(2, 3), leaf(3)
    for _ in range(60):
        h = h + torch.nn.functional.linear(h.relu(), leaf(3, 3), skip).tanh()
    graph = capture(h.sum())
    text = text_tree(graph)
    assert_says(text, graph)
    assert max(map(len, text.split("\n"))) < 60
    assert text.count("\n├─ self: → see") > 50  # what skips a block is printed after it


def test_branches_nested_deeply_are_printed_on_their_own():
    # Beside the longest path a shorter one, beside whose longest path a shorter one, ...
    y = leaf(2)
    for level in range(14):
        longest = leaf(2)
        for _ in range(2 * level + 2):
            longest = longest.cos()
        y = y * longest
    graph = capture(y)
    text = text_tree(graph, 10_000)
    assert_says(text, graph)
    assert re.search(r"^(│  |   )+[├└]─ \w+: → see", text, re.MULTILINE)
    assert max(map(len, re.findall(r"^[│ ]*", text, re.MULTILINE))) <= 3 * 11


def test_it_is_cut_with_a_note():
    y = leaf(3)
    for _ in range(20_000):
        y = y * 2
    graph = capture(y)
    lines = text_tree(graph, 50).split("\n")
    assert len(lines) == 51
    assert lines[-1] == "… cut here; 19,951 of 20,001 nodes are not shown."
    assert lines[:50] == text_tree(graph, 60).split("\n")[:50]


def test_a_cut_that_only_loses_references():
    x = leaf(2)
    lines = text_tree(capture(x * x), 2).split("\n")
    assert lines[2] == "… cut here; all 2 nodes are above, but not every use of them."
    assert text_tree(capture(x * x), 3).count("\n") == 2  # exactly enough: no note


def test_names_cannot_break_lines_or_steer_a_terminal():
    x = leaf(2)
    text = text_tree(capture(x, names={"a\nb\x1b[31m é": x}))
    assert text == r"0 leaf a\nb\x1b[31m é (2)"


def test_custom_function_and_tensors_without_a_shape():
    assert "0 Sum scalar\n↳ self: 1 MultiplyAdd (3)" in text_tree(
        capture(*outputs_of("custom_function"))
    )
    assert "leaf" in text_tree(capture(*outputs_of("nested"))).split("\n")[-1]
