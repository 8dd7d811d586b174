"""Pictures and files, read back with tools that are not ours."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import warnings
import xml.etree.ElementTree as ET

import networkx as nx
import pypdf
import pytest
import resvg_py
import torch
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from programs import PROGRAMS, outputs_of

from gradwalk import GraphWidget, capture, watch
from gradwalk.export import svg_engine as still

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydot calls its parser by deprecated names
    import pydot
    import pydot.dot_parser

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def widget():
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    w = torch.ones(2, 1, requires_grad=True)
    made = GraphWidget((x @ w).relu().sum(), names={"x": x, "w": w})
    yield made
    made.close()


def nodes_in(svg: str) -> list[str]:
    """The titles of what is drawn as a node."""
    root = ET.fromstring(svg)
    return [g.findtext(f"{SVG}title") for g in root.iter(f"{SVG}g") if g.get("role") == "img"]


def colours(png: bytes) -> set[tuple[int, ...]]:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    return {colour for _, colour in image.getcolors(maxcolors=2**24)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_svg_draws_every_node(name):
    outputs = outputs_of(name)
    widget = GraphWidget(*outputs, constants=False)
    svg = widget.to_svg(whole=True)
    titles = nodes_in(svg)
    # A leaf with many uses is drawn once per use.
    assert len(titles) >= len(capture(*outputs))
    ops = {data["op"] for _, data in capture(*outputs).nodes(data=True) if data["kind"] == "op"}
    words = " ".join(ET.fromstring(svg).itertext())
    assert all(op in words for op in ops)
    assert resvg_py.svg_to_bytes(svg_string=svg)
    widget.close()


def test_svg_needs_nothing_from_outside(widget):
    svg = widget.to_svg(theme="auto")
    assert "prefers-color-scheme" in svg
    assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "var(" not in svg
    assert "<script" not in svg


@given(name=st.text(min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_names_are_text(name):
    hostile = f"</text><script>{name}&\"'"
    x = torch.ones(2, requires_grad=True)
    widget = GraphWidget((x * 2).sum(), names={hostile: x})
    root = ET.fromstring(widget.to_svg())  # it would raise
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>" in " ".join(root.itertext())
    widget.close()


def test_png_has_the_size_and_colours_of_its_theme(widget):
    light, dark = widget.to_png(scale=1), widget.to_png(scale=3, theme="dark")
    small, large = Image.open(io.BytesIO(light)), Image.open(io.BytesIO(dark))
    root = ET.fromstring(widget.to_svg())
    assert small.size == (int(root.get("width")), int(root.get("height")))
    assert large.size == tuple(3 * side for side in small.size)
    assert (0xFB, 0xFB, 0xFC) in colours(light)  # the background in js/theme/colours.ts
    assert (0x13, 0x15, 0x18) in colours(dark)
    assert (0xFF, 0xF3, 0xDA) in colours(light)  # a leaf


def test_gradients_are_in_the_picture(widget):
    before = widget.to_svg()
    widget.backward()
    after = widget.to_svg()
    assert "[[1], [2]]" not in ET.fromstring(before).itertext()
    assert "[[1], [2]]" in ET.fromstring(after).itertext()  # w.grad
    assert (0x0F, 0x7B, 0x55) in colours(widget.to_png())
    widget.reset()
    widget.selected = 0
    assert (0x24, 0x63, 0xEB) in colours(widget.to_png())


@pytest.mark.parametrize("constants", [True, False])
def test_a_cut_from_an_operation_of_the_same_graph_is_drawn_after_backward(constants):
    """As in a GAN, where one output goes on with its gradient and without."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with watch():
        fake = w * 2
        loss_d, loss_g = (fake.detach() * w).sum(), (fake * 3).sum()
    graph = GraphWidget(loss_d, loss_g, constants=constants)
    loss_g.backward()
    drawn = graph.to_svg()
    assert ("detach()" in drawn) is constants
    assert w.grad.tolist() == [6.0, 6.0]


def test_pdf_has_one_page_with_text(widget):
    reader = pypdf.PdfReader(io.BytesIO(widget.to_pdf()))
    (page,) = reader.pages
    text = page.extract_text()
    assert "relu" in text
    assert "@" in text
    root = ET.fromstring(widget.to_svg())
    ratio = int(root.get("width")) / int(root.get("height"))
    assert page.mediabox.width / page.mediabox.height == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize("name", PROGRAMS)
def test_json_is_networkx_own(name):
    outputs = outputs_of(name)
    widget = GraphWidget(*outputs, constants=False)
    read = nx.node_link_graph(json.loads(widget.to_json()), edges="edges")
    kept = [n for n, kind in read.nodes(data="kind") if kind in {"op", "leaf"}]
    found, expected = read.subgraph(kept), capture(*outputs)
    assert set(found.edges(keys=True)) == set(expected.edges(keys=True))
    for key in ("op", "kind", "dtype", "device"):
        assert dict(found.nodes(data=key)) == dict(expected.nodes(data=key))
    assert [tuple(root) for root in read.graph["roots"]] == expected.graph["roots"]
    widget.close()


def test_dot_is_read_by_another_parser(widget):
    widget.constants = False
    (read,) = pydot.graph_from_dot_data(widget.to_dot())
    edges = {(int(e.get_source()), int(e.get_destination())) for e in read.get_edges()}
    assert edges == set(widget.to_networkx().edges())
    labels = {n.get_name(): n.get("label") for n in read.get_nodes()}
    assert [labels[str(i)].strip('"') for i in range(5)] == [
        "SumBackward0\\nscalar",
        "ReluBackward0\\n(1, 1)",
        "MmBackward0\\n(1, 1)",
        "x\\n(1, 2)",
        "w\\n(2, 1)",
    ]


def test_dot_quotes_names():
    x = torch.ones(1, requires_grad=True)
    widget = GraphWidget(x * 2, names={'a"]; b -> c [label="\\': x}, constants=False)
    (read,) = pydot.graph_from_dot_data(widget.to_dot())
    assert len(read.get_edges()) == 1
    (leaf,) = [n for n in read.get_nodes() if n.get_name() == "1"]
    # Graphviz knows three escapes here: of a quote, a backslash and a line's end.
    assert leaf.get("label") == r'"a\"]; b -> c [label=\"\\\n(1,)"'
    assert sorted(n.get_name() for n in read.get_nodes() if n.get_name().isdigit()) == ["0", "1"]
    widget.close()


@pytest.mark.parametrize("how", ["to_svg", "to_png", "to_pdf", "to_json", "to_dot"])
def test_a_file_is_written_and_replaced_without_a_word(widget, how, tmp_path):
    path = tmp_path / "graph"
    content = getattr(widget, how)()
    assert getattr(widget, how)(path) == path
    if how != "to_pdf":  # which says when it was made
        data = content if isinstance(content, bytes) else content.encode()
        assert path.read_bytes() == data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(widget, how)(str(path)) == path
    assert [file.name for file in tmp_path.iterdir()] == ["graph"]


def test_a_failure_midway_leaves_the_old_file(widget, tmp_path, monkeypatch):
    path = tmp_path / "graph.json"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left.*unchanged"):
        widget.to_json(path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["graph.json"]


def test_bad_paths_are_told_in_sentences(widget, tmp_path):
    with pytest.raises(OSError, match=r"the folder .*missing.* does not exist"):
        widget.to_svg(tmp_path / "missing" / "graph.svg")
    with pytest.raises(OSError, match="which is a folder"):
        widget.to_svg(tmp_path)
    with pytest.raises(TypeError, match="as the path"):
        widget.to_json(3.5)
    with pytest.raises(OSError, match="cannot write"):
        widget.to_json("/proc/graph.json")


@pytest.mark.parametrize("write", ["to_svg", "to_png", "to_pdf"])
def test_a_picture_is_made_for_the_width_of_its_page(write):
    x = torch.tensor(1.0, requires_grad=True)  # cards at both widths
    for _ in range(30):
        x = x.sin()
    with contextlib.closing(GraphWidget(x, direction="left")) as widget:
        if write != "to_pdf":  # which says when it was made
            assert getattr(widget, write)(width=1200) == getattr(widget, write)()
        wide, narrow = widget.to_svg(width=1400), widget.to_svg(width=500)
        sizes = [
            tuple(float(ET.fromstring(svg).get(side)) for side in ("width", "height"))
            for svg in (wide, narrow)
        ]
        assert sizes[0][0] > sizes[1][0]
        assert sizes[0][1] < sizes[1][1]
        assert sorted(nodes_in(wide)) == sorted(nodes_in(narrow))
        for width in (0, -3, float("inf"), "wide"):
            with pytest.raises(ValueError, match="width was given"):
                getattr(widget, write)(width=width)


def test_bad_options_are_told_in_sentences(widget):
    with pytest.raises(ValueError, match="one of 'light', 'dark', 'auto'"):
        widget.to_svg(theme="blue")
    with pytest.raises(ValueError, match="cannot follow"):
        widget.to_png(theme="auto")
    for scale in (0, -1, float("nan"), "big"):
        with pytest.raises(ValueError, match="number above 0"):
            widget.to_png(scale=scale)
    with pytest.raises(ValueError, match=r"Give a scale of at most"):
        widget.to_png(scale=1000)
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        widget.to_svg()


@pytest.mark.parametrize(
    ("how", "module"), [("to_svg", "py_mini_racer"), ("to_png", "resvg_py"), ("to_pdf", "cairosvg")]
)
def test_without_the_extra_a_sentence_names_it(widget, how, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'gradwalk\[export\]'"):
        getattr(widget, how)()


def test_the_mime_bundle_has_a_picture_and_a_tree(widget):
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert len(nodes_in(data["image/svg+xml"])) == 5
    assert data["text/plain"] == str(widget)
    assert "Relu" in str(widget)
    assert repr(widget) == "GraphWidget(5 nodes, 4 edges, 2 leaves)"


def test_the_mime_bundle_without_the_extra_is_a_tree(widget, monkeypatch):
    monkeypatch.setattr(still, "is_installed", lambda: False)
    data, _ = widget._repr_mimebundle_()
    assert "image/svg+xml" not in data
    assert "Relu" in data["text/plain"]


def test_the_text_of_a_large_graph_is_cut_and_it_has_no_picture():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(1000):
        y = y + 1
    widget = GraphWidget(y)
    data, _ = widget._repr_mimebundle_()
    assert "image/svg+xml" not in data
    assert len(data["text/plain"].splitlines()) <= 202
    assert "cut here; 802 of 1,002 nodes" in data["text/plain"] or "not shown" in data["text/plain"]
    widget.close()
    assert "closed" in str(widget)


def test_python_ends_after_a_picture_that_fails():
    code = """
import torch
from gradwalk import GraphWidget
from gradwalk.export import svg_engine as still
widget = GraphWidget(torch.ones(1, requires_grad=True) * 2)
try:
    still.draw_svg({**widget.model, "edges": None}, theme="light")
except RuntimeError as error:
    print(error)
"""
    assert fresh(code).strip()


def test_drawing_leaves_the_random_state_and_gradients(widget):
    before = torch.get_rng_state()
    widget.to_svg()
    assert torch.equal(before, torch.get_rng_state())


def test_a_long_constant_is_its_shape_beside_modules():
    layer, x = torch.nn.Linear(2, 1), torch.tensor([[0.25, -0.1414]] * 6)
    with watch():
        loss = layer(x).sum()
    drawn = GraphWidget(loss).to_svg()
    assert ">(6, 2)</text>" in drawn
    assert not re.search(r"0\.141[^<]*</text>", drawn)
