"""Every output, with names that no encoding, no parser or no reader expects."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from shutil import which

import networkx as nx
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from gradwalk import GraphWidget, capture, compare, load, make_dot, save, to_tensorboard
from gradwalk.export.tensorboard import graph_def

NAMES = {
    "half a character": "a\ud800b",
    "the other half": "\udfff",
    "a byte of a file's name": "caf\udce9",
    "halves that make none": "\udc00\ud800",
    "turned around": "a\u202eb\u2066c\u2069\u2069d",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd",
    "control characters": "a\0\x1b[31m\x07\r\nb",
    "markup": "</script><svg/onload=x>&amp;\"'`",
    "long": "n" * 20_000,
    "long and wide": "\U0001f600" * 17_000,
    "all quotes": '"' * 17_000,
    "a backslash at the end": "\\" * 17_001,
}


def made(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.ones(2, requires_grad=True)
    return x, (x * 2).sum()


def as_dot(text: str) -> None:
    """Graphviz itself reads it, where there is one."""
    text.encode()
    if which("dot"):
        done = subprocess.run(
            ["dot", "-Tcanon"], input=text.encode(), capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr[:300]
        assert not done.stderr, done.stderr[:300]


def sent(widget) -> None:
    """What Jupyter does with a message."""
    for value in widget.get_state().values():
        if not isinstance(value, bytes):
            json.dumps(value, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
class TestEveryOutput:
    @pytest.fixture
    def widget(self, name):
        x, loss = made(name)
        widget = GraphWidget({name: loss}, names={name: x})
        widget.backward()
        widget.selected = 2
        yield widget
        widget.close()

    def test_pictures(self, widget, name, tmp_path):
        ET.fromstring(widget.to_svg(tmp_path / "svg").read_text("utf-8").replace("\0", ""))
        assert widget.to_png(tmp_path / "png").read_bytes()
        assert widget.to_pdf(tmp_path / "pdf").read_bytes()

    def test_pages_and_texts(self, widget, name, tmp_path):
        assert widget.to_html(tmp_path / "html", title=name).read_text("utf-8")
        str(widget).encode()
        for each in widget._repr_mimebundle_()[0].values():
            json.dumps(each, ensure_ascii=False).encode()

    def test_dot(self, widget, name, tmp_path):
        as_dot(widget.to_dot(tmp_path / "dot").read_text("utf-8"))
        x, loss = made(name)
        as_dot(make_dot(loss, params={name: x}).source)
        as_dot(make_dot(loss, params={name: x}, show_attrs=True, show_saved=True).source)

    def test_json_gives_the_name_back(self, widget, name, tmp_path):
        text = widget.to_json(tmp_path / "json").read_bytes()
        read = nx.node_link_graph(json.loads(text), edges="edges")
        assert name in {data["name"] for _, data in read.nodes(data=True)}

    def test_a_saved_file_gives_the_name_back(self, widget, name, tmp_path):
        opened = load(save(widget, tmp_path / "run.gw"))
        assert opened.model == widget.model
        sent(opened)
        opened.close()

    def test_what_is_sent_to_a_browser(self, widget, name):
        sent(widget)
        widget.selected = 0
        sent(widget)
        loss = made(name)[1]
        both = compare({name: loss, "other": loss * 2})
        both.selected = 0
        sent(both)
        both.close()

    def test_tensorboard(self, widget, name, tmp_path):
        x, loss = made(name)
        graph = capture(loss, names={name: x})
        assert graph_def(graph).SerializeToString()
        with SummaryWriter(tmp_path) as writer:
            to_tensorboard(writer, loss, tag=name[:100])
