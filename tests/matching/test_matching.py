"""Matching, on programs whose correspondence is known because they were built with it."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, leaf, outputs_of
from torch import nn

from gradwalk import capture
from gradwalk.matching.match import match

pytestmark = pytest.mark.one_python


def built(program, *arguments, named=True, **options):
    """A program's graph, and tag -> node for everything that the program tagged.

    The tags are torch tensors, so what they stand for does not depend on matching. Names stay on
    the leaves, if at all.
    """
    tagged = {}

    def tag(name, tensor):
        tagged[name] = tensor
        return tensor

    graph = capture(program(tag, *arguments, **options), names=tagged)
    nodes = {data["name"]: node for node, data in graph.nodes(data=True)}
    for _, data in graph.nodes(data=True):
        if not (named and data["is_leaf"]):
            data["name"] = None
    return graph, nodes


def check_pairs(left, right):
    """Exactly the nodes with one tag are matched."""
    (left_graph, left_tags), (right_graph, right_tags) = left, right
    for graph, tags in (left, right):
        assert set(tags.values()) == set(graph), "the program did not tag everything"
    found = match(left_graph, right_graph)
    names = {node: tag for tag, node in left_tags.items()}
    other_names = {node: tag for tag, node in right_tags.items()}
    assert [(names[a], other_names[b]) for a, b in found.pairs.items()] == [
        (names[a], names[a])
        for a in sorted(left_tags[tag] for tag in left_tags.keys() & right_tags)
    ]
    assert {names[a] for a in found.only_left} == left_tags.keys() - right_tags
    assert {other_names[b] for b in found.only_right} == right_tags.keys() - left_tags


def check_laws(left, right):
    """What holds for any two graphs."""
    found = match(left, right)
    assert {b: a for a, b in found.pairs.items()} == match(right, left).pairs
    assert len(set(found.pairs.values())) == len(found.pairs)
    assert sorted([*found.pairs, *found.only_left]) == sorted(left)
    assert sorted([*found.pairs.values(), *found.only_right]) == sorted(right)
    for a, b in found.pairs.items():
        assert left.nodes[a]["kind"] == right.nodes[b]["kind"]
        assert left.nodes[a]["op"] == right.nodes[b]["op"]
    united = nx.DiGraph(left.edges())
    back = {b: a for a, b in found.pairs.items()}
    united.add_edges_from(
        (back.get(a, ("right", a)), back.get(b, ("right", b))) for a, b in right.edges()
    )
    assert nx.is_directed_acyclic_graph(united)
    return found


WIDTHS = (3, 4, 4, 5, 2)


def network(
    tag,
    layers=(0, 1, 2, 3),
    *,
    batch=2,
    dropout=(),
    bias=(),
    residual=(),
    cut=(),
    frozen=(),
    x=True,
):
    """Layers of known widths; each option edits the layers with these numbers."""
    h = tag("x", leaf(batch, 3)) if x else torch.randn(batch, 3)
    for k in layers:
        before = h
        w = torch.randn(WIDTHS[k + 1], WIDTHS[k])
        if k in frozen:
            h = h @ w.t()
        else:
            h = h @ tag(f"transposed {k}", tag(f"weight {k}", w.requires_grad_()).t())
        if h.requires_grad:
            tag(f"product {k}", h)
        if k in bias:
            h = tag(f"with bias {k}", h + tag(f"bias {k}", leaf(WIDTHS[k + 1])))
        h = tag(f"relu {k}", h.relu()) if h.requires_grad else h.relu()
        if k in dropout:
            h = tag(f"dropout {k}", nn.functional.dropout(h, 0.5))
        if k in residual:
            h = tag(f"residual {k}", h + before)
        if k in cut:
            h = h.detach()
    return tag("loss", h.mean())


EDITS = {
    "nothing": {},
    "a layer removed from the middle": {"layers": (0, 2, 3)},
    "the dropout of one layer": {"dropout": (1,)},
    "dropout everywhere": {"dropout": (0, 1, 2, 3)},
    "a bias": {"bias": (2,)},
    "biases and a residual": {"bias": (0, 1, 3), "residual": (1,)},
    "a residual": {"residual": (1,)},
    "cut in the middle": {"cut": (1,)},
    "cut almost at the end": {"cut": (2,)},
    "an input that needs no gradient": {"x": False},
    "a frozen layer": {"frozen": (2,)},
    "frozen at the bottom": {"frozen": (0, 1), "x": False},
    "another batch size": {"batch": 7},
    "another batch size, and dropout": {"batch": 7, "dropout": (0, 1, 2, 3)},
    "a layer removed, another frozen, dropout": {
        "layers": (0, 2, 3),
        "frozen": (2,),
        "dropout": (0,),
    },
}


@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("edit", EDITS)
def test_edited_networks(edit, named):
    plain, edited = built(network, named=named), built(network, named=named, **EDITS[edit])
    check_pairs(plain, edited)
    check_pairs(edited, plain)


def test_two_edited_networks():
    for one, other in itertools.combinations(EDITS.values(), 2):
        check_laws(built(network, **one)[0], built(network, **other)[0])


def test_branches_that_ran_in_another_order():
    def program(tag, order, edited):
        x = tag("x", leaf(3))
        done = {}
        for branch in order:
            h = tag(f"{branch} mul", x * tag(f"{branch} w", leaf(3)))
            if edited and branch == "b":
                h = tag("new", h.exp())
            done[branch] = tag(f"{branch} tanh", h.tanh())
        return tag("sum", tag("add", tag("first", done["a"] + done["b"]) + done["c"]).sum())

    for edited, named in itertools.product([False, True], repeat=2):
        one = built(program, "abc", False, named=named)
        check_pairs(one, built(program, "cab", edited, named=named))


def test_what_was_used_twice_and_then_once():
    def program(tag, terms):
        x = tag("x", leaf(3))
        parts = {"sin": x.sin, "cos": x.cos, "exp": x.exp}
        done = [tag(term, parts[term]()) for term in terms]
        total = done[0]
        for term, part in zip(terms[1:], done[1:], strict=True):
            total = tag(f"plus {term}", total + part)
        return total

    for named in (True, False):
        both = built(program, ["sin", "cos", "exp"], named=named)
        check_pairs(both, built(program, ["sin", "exp"], named=named))


def test_roots_in_addition():
    def program(tag, first, second):
        h = tag("h", tag("x", leaf(3)).tanh())
        return [tag("sin", h.sin())] * first + [tag("cos", h.cos())] * second

    for one, other in itertools.permutations([(1, 0), (1, 1)]):
        check_pairs(built(program, *one), built(program, *other))
    assert match(built(program, 1, 0)[0], built(program, 0, 1)[0]).only_left == [0]


def test_names_win_over_positions():
    def program(tag, first, second):
        a, b = tag(first, leaf(3)), tag(second, leaf(3))
        return tag("mul", a * b)

    check_pairs(built(program, "a", "b"), built(program, "b", "a"))


def test_other_names_and_other_shapes_leave_the_position():
    one = capture(torch.ones(3, requires_grad=True) * 2, names={})
    two = capture(torch.ones(4, requires_grad=True) * 2)
    one.nodes[1]["name"], two.nodes[1]["name"] = "a", "b"
    assert match(one, two).pairs == {0: 0, 1: 1}


def test_a_name_is_enough_for_a_leaf():
    def program(tag, size, other, operation):
        return operation(tag("x", leaf(size))), tag("y", leaf(other)).exp()

    one, _ = built(program, 3, 4, torch.sin)
    two, _ = built(program, 4, 3, torch.cos)
    found = match(one, two)
    assert {(one.nodes[a]["name"], two.nodes[b]["name"]) for a, b in found.pairs.items()} == {
        ("x", "x"),
        ("y", "y"),
        (None, None),  # exp, the second root of both
    }


def test_the_same_class_alone_is_a_coincidence():
    def program(operation, other):
        return torch.cat([operation(leaf(3)), other(leaf(4))])

    left, right = capture(program(torch.sin, torch.cos)), capture(program(torch.cos, torch.sin))
    assert match(left, right).pairs == {0: 0}


def test_branches_of_another_shape_that_ran_in_another_order():
    def program(tag, order, size):
        x = tag("x", leaf(size))
        done = {}
        for branch in order:
            h = tag(f"{branch} first", x * tag(f"{branch} w", leaf(size)))
            done[branch] = tag(f"{branch} second", h.tanh())
        return tag("sum", tag("add", done["a"] + done["b"]).sum())

    check_pairs(built(program, "ab", 3, named=False), built(program, "ba", 4, named=False))


def test_nothing_in_common():
    found = match(capture(leaf(3).sin()), capture(leaf(3).cos().tanh()))
    assert (found.pairs, found.only_left, found.only_right) == ({}, [0, 1], [0, 1, 2])


BLOCKS = 12


def blocks(which, *, dropout=0.0, names=False):
    """A transformer of equal layers, and node -> number of its layer, as torch counted them.

    An operation belongs to the layer during whose forward it was made.
    """
    torch.manual_seed(0)
    layers = {
        k: nn.TransformerEncoderLayer(8, 2, 8, dropout=dropout, batch_first=True) for k in which
    }
    h, made = leaf(2, 3, 8), {}
    start = h.exp().grad_fn._sequence_nr()
    for k, layer in layers.items():
        h = layer(h)
        end = h.grad_fn._sequence_nr()
        made[k] = range(start + 1, end + 1)
        start = end
    parameters = {
        f"{k}.{name}": p for k, layer in layers.items() for name, p in layer.named_parameters()
    }
    graph = capture(h.mean(), names=parameters)
    of = {}
    for node, data in graph.nodes(data=True):
        for k in which:
            if data["sequence_nr"] in made[k] or (data["name"] or "").startswith(f"{k}."):
                of[node] = k
        if not names:
            data["name"] = None
    return graph, of


@pytest.mark.parametrize("changed", [{}, {"dropout": 0.1}], ids=["as it is", "with dropout"])
@pytest.mark.parametrize("names", [True, False], ids=["named", "nameless"])
def test_equal_blocks_match_as_blocks(names, changed):
    left, left_block = blocks(range(BLOCKS), names=names, **changed)
    without = [k for k in range(BLOCKS) if k != 5]
    right, right_block = blocks(without, names=names, **changed)
    found = match(left, right)
    assert found.only_right == []
    together = {(left_block.get(a), right_block.get(b)) for a, b in found.pairs.items()}
    assert len(together) == BLOCKS  # of the 11 blocks that both have, and what is outside
    assert len({a for a, _ in together}) == len({b for _, b in together}) == BLOCKS
    assert len({left_block[a] for a in found.only_left}) == 1
    if names:
        assert all(a == b for a, b in together)


def test_equal_blocks_that_were_all_edited_match_as_blocks():
    left, left_block = blocks(range(BLOCKS), names=True)
    right, right_block = blocks([0, 1, 2, 4, 5, 6, 7, 8, 9, 11], names=True, dropout=0.1)
    found = match(left, right)
    together = {(left_block.get(a), right_block.get(b)) for a, b in found.pairs.items()}
    assert together == {(k, k) for k in {None, *right_block.values()}}


def test_equal_blocks_in_a_chain_match_as_blocks():
    def program(tag, which):
        h = tag("x", leaf(3))
        for k in which:
            h = tag(f"mul {k}", h * tag(f"w {k}", leaf(3)))
            h = tag(f"exp {k}", h.exp())
        return h

    for named in (True, False):
        left, left_tags = built(program, range(8), named=named)
        right, right_tags = built(program, [0, 1, 2, 3, 5, 6, 7], named=named)
        left_block = {node: tag.split()[-1] for tag, node in left_tags.items()}
        right_block = {node: tag.split()[-1] for tag, node in right_tags.items()}
        found = match(left, right)
        together = {(left_block[a], right_block[b]) for a, b in found.pairs.items()}
        assert len(together) == len(set(right_block.values()))
        assert len({a for a, _ in together}) == len({b for _, b in together}) == len(together)
        assert len({left_block[a] for a in found.only_left}) == 1
        assert found.only_right == []
        if named:
            assert all(a == b for a, b in together)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_matches_itself(name):
    graph = capture(*outputs_of(name))
    again = match(graph, capture(*outputs_of(name)))
    assert again.pairs == {node: node for node in graph}
    assert again.only_left == again.only_right == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_matches_itself_with_other_numbers(name):
    graph = capture(*outputs_of(name))
    other = nx.relabel_nodes(graph, {node: len(graph) - 1 - node for node in graph})
    other.graph["roots"] = [(len(graph) - 1 - node, nr) for node, nr in graph.graph["roots"]]
    assert match(graph, other).pairs == {node: len(graph) - 1 - node for node in graph}


def test_the_laws_hold_for_any_two_programs():
    graphs = [capture(*outputs_of(name)) for name in PROGRAMS]
    for left, right in itertools.combinations(graphs, 2):
        check_laws(left, right)


UNARY = [torch.tanh, torch.sin, torch.exp]
BINARY = [torch.add, torch.mul, torch.sub]


@st.composite
def instructions(draw):
    """A straight-line program: (operation, operand) or (operation, operand, operand)."""
    steps = []
    for made in range(2, 2 + draw(st.integers(1, 14))):
        operand = st.integers(max(0, made - 5), made - 1)
        one, two = (
            st.tuples(st.sampled_from(UNARY), operand),
            st.tuples(st.sampled_from(BINARY), operand, operand),
        )
        steps.append(draw(one | two))
    return steps


def straight_line(tag, steps, after=()):
    """Run the instructions, with an erf, which is in none of them, after some."""
    pool = [tag("x 0", leaf(2)), tag("x 1", leaf(2))]
    for k, (operation, *operands) in enumerate(steps):
        made = tag(f"step {k}", operation(*(pool[place] for place in operands)))
        pool.append(tag(f"new {k}", made.erf()) if k in after else made)
    return tag("joined", torch.stack(pool[2:]))


@given(instructions(), instructions())
@settings(deadline=None)
def test_the_laws_hold_for_random_programs(one, other):
    left, right = built(straight_line, one)[0], built(straight_line, other)[0]
    check_laws(left, right)
    assert match(left, built(straight_line, one)[0]).pairs == {node: node for node in left}


@given(instructions(), st.sets(st.integers(0, 14), max_size=4), st.booleans())
@settings(deadline=None)
def test_inserted_operations_leave_all_others_matched(steps, after, named):
    plain = built(straight_line, steps, named=named)
    check_pairs(plain, built(straight_line, steps, after=after, named=named))


@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
def test_five_thousand_nodes(named):
    def program(tag, edited):
        h = tag("x", leaf(3))
        for k in range(1250):
            h = tag(f"mul {k}", h * tag(f"w {k}", leaf(3)))
            h = tag(f"tanh {k}", h.tanh())
            if edited and k % 2:
                h = tag(f"sin {k}", h.sin())
            if not edited or k % 100:
                h = tag(f"exp {k}", h.exp())
        return h

    left, right = built(program, False, named=named), built(program, True, named=named)
    assert len(left[0]) == 5001
    check_pairs(left, right)


def test_constants_of_which_nobody_knows_the_place_are_matched():
    def graph():
        found = nx.MultiDiGraph(roots=[(0, 0)])
        kinds = ["op", "leaf", "constant", "constant"]
        for node, kind in enumerate(kinds):
            found.add_node(node, kind=kind, op=kind, name=None, shape=(2,), sequence_nr=None)
        for target, nr in ((1, 0), (2, None), (3, None)):
            found.add_edge(0, target, arg_nr=nr, argument=None, output_nr=0)
        return found

    assert match(graph(), graph()).pairs == {0: 0, 1: 1, 2: 2, 3: 3}
