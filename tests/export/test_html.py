"""The page that `to_html` writes, as text; tests/e2e/test_page.py opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser

import pytest
import torch

from gradwalk import GraphWidget, compare, load
from gradwalk.export.contents import MOST_DETAILED
from gradwalk.export.save import save
from gradwalk.schema.file_format import SavedGraphModel, unpack


class Scripts(HTMLParser):
    """The scripts, policy and other texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}
        self.policy = ""
        self.addresses: list[str] = []
        self._in: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag not in {"meta", "link"}:
            self._in.append(given.get("id") or tag)

    def handle_endtag(self, tag):
        self._in.pop()

    def handle_data(self, data):
        if self._in:
            self.found.setdefault(self._in[-1], []).append(data)


def held(page: str) -> bytes:
    """What the page holds."""
    (written,) = Scripts(page).found["gradwalk-model"]
    return base64.b64decode(written)


def saved(page: str) -> SavedGraphModel:
    return unpack(held(page), "the page")


@pytest.fixture
def page():
    x = torch.ones(2, requires_grad=True)
    widget = GraphWidget((x * 2).sum(), names={"</script><h1>x": x})
    widget.backward()
    made = widget.to_html(title="A <title> & more")
    widget.close()
    return made


def test_its_policy_allows_its_own_script_and_nothing_else(page):
    read = Scripts(page)
    (script,) = read.found["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in read.policy
    assert f"script-src 'sha256-{digest}'" in read.policy
    assert read.addresses == ["data:,"]


def test_names_and_titles_are_text(page):
    read = Scripts(page)
    assert read.found["h1"] == read.found["title"] == ["A <title> & more"]
    assert "</script><h1>x" in "".join(read.found["pre"])


def test_it_holds_the_graph_and_the_details_of_every_node(page):
    model = saved(page)
    nodes = model["graph"]["nodes"]
    assert [node["op"] for node in nodes[:2]] == ["SumBackward0", "MulBackward0"]
    assert len(model["details"]) == len(nodes)
    assert model["undetailed"] is None
    assert model["details"][2][-1]["fields"]["grad"]["values"] == [2.0, 2.0]


def test_it_holds_what_a_saved_file_holds(tmp_path):
    x = torch.ones(2, requires_grad=True)
    widget = GraphWidget((x * 2).sum())
    widget.backward()
    assert held(widget.to_html()) == save(widget, tmp_path / "run.gw.json.gz").read_bytes()
    widget.close()


def test_of_a_large_graph_it_holds_the_details_of_the_first_nodes():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(MOST_DETAILED + 10):
        y = y * 1.5
    widget = GraphWidget(y, names={"x": x})
    model = saved(widget.to_html())
    widget.close()
    assert [stages is None for stages in model["details"][MOST_DETAILED - 1 :][:2]] == [False, True]
    assert model["undetailed"]["about"].startswith("Not saved")


def test_a_file_is_written(tmp_path):
    widget = GraphWidget(torch.ones(1, requires_grad=True) * 2)
    text = widget.to_html()
    assert widget.to_html(tmp_path / "graph.html") == tmp_path / "graph.html"
    assert (tmp_path / "graph.html").read_text(encoding="utf-8") == text
    assert "<title>Autograd graph of 2 nodes, 1 edge</title>" in text
    with pytest.raises(OSError, match="does not exist"):
        widget.to_html(tmp_path / "missing" / "graph.html")
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        widget.to_html()


def test_pages_of_a_folder_share_a_script(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    widget = GraphWidget(x**2)
    for name in ("a.html", "b.html"):
        assert widget.to_html(tmp_path / name, assets="shared") == tmp_path / name
    text = (tmp_path / "a.html").read_text()
    (script,) = tmp_path.glob("*.js")
    assert [each for each in Scripts(text).addresses if each != "data:,"] == [script.name]
    assert len(text) < 10_000 < script.stat().st_size
    assert held(text) == held(widget.to_html())


def test_pages_of_several_graphs_share_a_script(tmp_path):
    x = torch.tensor(3.0, requires_grad=True)
    compare({"a": x**2, "b": x * 2}).to_html(tmp_path / "c.html", assets="shared")
    (script,) = tmp_path.glob("*.js")
    assert (tmp_path / "c.html").read_text().count(script.name) == 2


@pytest.mark.parametrize(
    ("path", "assets", "says"),
    [(None, "shared", "Give a path"), ("a.html", "cdn", "was given 'cdn'")],
)
def test_a_shared_script_needs_a_place(tmp_path, monkeypatch, path, assets, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=says):
        GraphWidget(torch.ones(2, requires_grad=True).sum()).to_html(path, assets=assets)
    assert not list(tmp_path.iterdir())


def test_the_panel_of_a_leaf_has_what_grad_is_now(tmp_path):
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    widget = GraphWidget((w**2).sum())
    widget.backward()
    w.grad /= 10
    leaf = next(node["id"] for node in widget.model["nodes"] if node["kind"] == "leaf")
    save(widget, tmp_path / "now.gw")
    again = load(tmp_path / "now.gw")
    again.selected = leaf
    assert again.details["grad"]["values"] == pytest.approx([0.6, -0.8])
    again.cursor = 0
    assert again.details["grad"] is None
