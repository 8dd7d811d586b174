"""`make_dot` draws what torchviz draws, and what torchviz cannot."""

from __future__ import annotations

import re
import sys
import warnings

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import PROGRAMS, LeNet, backward, leaf, outputs_of

from gradwalk.export.torchviz_dot import make_dot

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # torchviz imports distutils
    import torchviz

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),
]

MODES = {
    "plain": {},
    "attrs": {"show_attrs": True},
    "saved": {"show_saved": True},
    "attrs and saved": {"show_attrs": True, "show_saved": True},
}
STATEMENT = re.compile(
    r'\t(?P<source>\w+)(?: -> (?P<target>\w+))?(?: \[(?P<attributes>(?:[^"\]]|"[^"]*")*)\])?\n'
)
ATTRIBUTE = re.compile(r'(\w+)=("[^"]*"|\w+)')


def read(dot):
    """The picture's statements as a networkx graph; as in Graphviz, a later attribute wins."""
    graph = nx.MultiDiGraph(size=dot.graph_attr["size"], style=dict(dot.node_attr))
    for line in dot.body:
        found = STATEMENT.fullmatch(line)
        assert found, line
        attributes = dict(ATTRIBUTE.findall(found["attributes"] or ""))
        if found["target"]:
            graph.add_edge(found["source"], found["target"], **attributes)
        else:
            graph.add_node(found["source"], **attributes)
    return graph


def statements(dot):
    """The statements, with keys numbered as they appear."""
    numbers = {}
    return [
        (
            *(numbers.setdefault(key, len(numbers)) for key in found.group(1, 2)),
            found["attributes"],
        )
        for found in map(STATEMENT.fullmatch, dot.body)
    ]


def edges_match(left, right):
    return sorted(map(repr, left.values())) == sorted(map(repr, right.values()))


def assert_same_picture(ours, theirs):
    left, right = read(ours), read(theirs)
    assert left.graph == right.graph
    matcher = nx.isomorphism.MultiDiGraphMatcher(
        left, right, node_match=lambda a, b: a == b, edge_match=edges_match
    )
    assert matcher.is_isomorphic()
    assert statements(ours) == statements(theirs)  # in the same order, so laid out the same


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "nested"])
def test_every_program_is_drawn_as_torchviz_draws_it(name, mode):
    outputs = tuple(outputs_of(name))
    assert_same_picture(make_dot(outputs, **MODES[mode]), torchviz.make_dot(outputs, **MODES[mode]))


def test_nested_tensors_stop_torchviz():
    (output,) = outputs_of("nested")
    with pytest.raises(RuntimeError, match="NestedTensorImpl"):
        torchviz.make_dot(output)
    assert 'label="\n (nested)" fillcolor=lightblue' in make_dot(output).source


def test_what_is_drawn_as_saved_before_it_comes_as_an_output():
    y = leaf(3).exp()
    z = y * leaf(3)
    for outputs in ((z, y), (y, z)):
        assert_same_picture(
            make_dot(outputs, show_saved=True), torchviz.make_dot(outputs, show_saved=True)
        )


def test_every_saved_tensor_is_drawn_by_itself():
    y = leaf(3)
    for _ in range(300):
        y = y.exp()
    drawn = drawn_as(make_dot(y.sum(), show_saved=True))  # each is unpacked anew, one by one
    assert drawn.count(("result\n (3)", "orange")) == 300


def test_params_name_leaves():
    net = LeNet()
    output = net(torch.randn(2, 1, 28, 28))
    params = dict(net.named_parameters())
    ours = make_dot(output, params)
    assert_same_picture(ours, torchviz.make_dot(output, params))
    assert all(f'"{name}\n' in ours.source for name in params)


@pytest.mark.parametrize("width", [-1, 0, 3, 5, 12, 50, 1000])
def test_values_are_cut_alike(width):
    image, kernel = leaf(2, 3, 8, 8), leaf(3, 2, 3, 3)
    output = torch.conv_transpose2d(image, kernel, padding=1).flip(0, 1).pow(2.5)
    options = {"show_attrs": True, "max_attr_chars": width}
    assert_same_picture(make_dot(output, **options), torchviz.make_dot(output, **options))


OPERATIONS = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: torch.cat([a, b])[:2],
    lambda a, b: a.exp(),
    lambda a, b: a.view(2),
    lambda a, b: a.clone().mul_(b.detach()),
    lambda a, b: a.unbind()[0].expand(2),
]


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(OPERATIONS)),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    st.sampled_from(list(MODES)),
)
@settings(deadline=None, max_examples=200)
def test_any_graph_is_drawn_as_torchviz_draws_it(steps, chosen, mode):
    values = [leaf(2), leaf(2), torch.ones(2)]
    for left, right, operation in steps:
        values.append(operation(values[left % len(values)], values[right % len(values)]))
    outputs = tuple(values[-1 - i % len(values)] for i in chosen)
    ours, theirs = make_dot(outputs, **MODES[mode]), torchviz.make_dot(outputs, **MODES[mode])
    assert statements(ours) == statements(theirs)
    assert ours.graph_attr == theirs.graph_attr


def drawn_as(dot):
    """(label, colour) of every box; the colour is None for nodes of the graph."""
    return [
        (data["label"].strip('"'), data.get("fillcolor")) for _, data in read(dot).nodes(data=True)
    ]


def grey(dot):
    return [label for label, color in drawn_as(dot) if color is None]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_everything_is_drawn_after_backward(name, mode):
    outputs = outputs_of(name)
    before = grey(make_dot(outputs))
    backward(outputs)
    after = make_dot(outputs, **MODES[mode])
    assert [label.split("\n")[0] for label in grey(after)] == before


def test_what_backward_freed_is_drawn_as_freed():
    x = leaf(3)
    y = x.exp().sin()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        torchviz.make_dot(y, show_saved=True)
    assert sorted(drawn_as(make_dot(y, show_saved=True)), key=str) == sorted(
        [
            ("\n (3)", "darkolivegreen1"),
            ("SinBackward0", None),
            ("self\n freed", "orange"),
            ("ExpBackward0", None),
            ("result\n freed", "orange"),
            ("AccumulateGrad", None),
            ("\n (3)", "lightblue"),
        ],
        key=str,
    )
    assert "self: [freed]" in make_dot(y, show_attrs=True).source


def test_what_a_custom_function_freed_is_drawn_as_freed():
    (output,) = outputs_of("custom_function")
    output.backward()
    with pytest.raises(RuntimeError, match="second time"):
        torchviz.make_dot(output)
    assert ("\n freed", "orange") in drawn_as(make_dot(output))


def test_a_saved_tensor_that_was_changed_in_place():
    x = leaf(3)
    y = x.exp()
    z = y * leaf(3)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        torchviz.make_dot(z, show_saved=True)
    assert ("self\n changed in place", "orange") in drawn_as(make_dot(z, show_saved=True))
    assert "[changed in place]" in make_dot(z, show_attrs=True).source


def test_a_list_of_saved_tensors_that_is_gone():
    x = leaf(3)
    y = x[torch.tensor([0, 2])]
    y.sum().backward()
    assert ("indices\n freed", "orange") in drawn_as(make_dot(y, show_saved=True))
    assert re.search(r"indices +: +\[freed\]", make_dot(y, show_attrs=True).source)


def test_hooks_that_pack_and_fail():
    x = leaf(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda packed: 1 / 0):
        y = x.exp()
    assert ("result\n not unpacked", "orange") in drawn_as(make_dot(y, show_saved=True))
    assert "[saved tensor]" in make_dot(y, show_attrs=True).source


def test_nothing_of_the_users_changes():
    def unpack(packed):
        torch.rand(1)
        return packed

    x = leaf(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), unpack):
        y = x.exp() * x
    before, expected = torch.get_rng_state(), torch.autograd.grad(y.sum(), x, retain_graph=True)
    torch.set_rng_state(before)
    make_dot(y, show_attrs=True, show_saved=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], expected[0])
    assert x.grad is None


def test_none_may_be_saved_by_a_custom_function():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(None, a)
            return a.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    drawn = read(make_dot(Nothing.apply(leaf(3))))
    # The output, the node, the leaf's node and the leaf, which is what was saved.
    assert len(drawn) == 4
    assert sum(data.get("fillcolor") == "orange" for _, data in drawn.nodes(data=True)) == 1


def test_a_chain_of_ten_thousand():
    y = leaf(2)
    for _ in range(10_000):
        y = y.sin()
    with pytest.raises(RecursionError):
        torchviz.make_dot(y)
    drawn = read(make_dot(y, show_saved=True))
    assert grey(make_dot(y)) == ["SinBackward0"] * 10_000 + ["AccumulateGrad"]
    assert sum("dir" not in edge for _, _, edge in drawn.edges(data=True)) == 10_002


def test_lists_and_dicts_are_drawn_as_tuples_are():
    a, b = leaf(2).exp(), leaf(3).sin()
    wanted = statements(torchviz.make_dot((a, b)))
    assert statements(make_dot([a, b])) == wanted
    assert statements(make_dot({"one": a, "more": [b]})) == wanted


def test_a_tensor_without_grad_is_only_itself():
    assert_same_picture(make_dot(torch.ones(2, 3)), torchviz.make_dot(torch.ones(2, 3)))


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        make_dot(leaf(2))


@pytest.mark.parametrize("wrong", [None, 3.0, "loss", (torch.ones(1), 2)])
def test_what_is_no_tensor_is_refused(wrong):
    with pytest.raises(TypeError, match="which is not a tensor"):
        make_dot(wrong)


@pytest.mark.parametrize("wrong", [[leaf(1)], {"w": 3.0}, LeNet()])
def test_params_that_are_no_names_of_tensors_are_refused(wrong):
    with pytest.raises(TypeError, match="params"):
        make_dot(leaf(2), wrong)
