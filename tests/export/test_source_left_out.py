"""What a file tells of the program: places in the project, and with `source=False` no line."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

import pytest
from fresh import fresh

PROGRAM = """
import torch
from gradwalk import GraphWidget, compare, explain_grad, load, save, watch

scale = torch.tensor(2.0)
w = torch.ones(2, requires_grad=True)  # comment-canary
unused = torch.ones(2, requires_grad=True)

def forward(x, token="literal-canary"):
    cut = (w * x).detach()  # `quoted-canary`) and more
    with torch.no_grad():
        hidden = w * 3  # hidden-canary
    number = w.sum().item()  # item-canary
    return ((w * x + cut + hidden) * scale * number).sum()  # loss-canary

with watch():
    loss = forward(torch.ones(2, requires_grad=True))
widget = GraphWidget(loss, names={"w": w, "unused": unused})
widget.backward()
widget.diagnose(names={"w": w, "unused": unused})
for source in (True, False):
    out = f"{OUT}/{source}"
    save(widget, out + ".gw", source=source)
    save(loss, path=out + ".fresh.gw", source=source)
    save(load(f"{OUT}/True.gw"), out + ".again.gw", source=source)
    widget.to_html(out + ".html", source=source)
    widget.to_json(out + ".json", source=source)
    widget.to_svg(out + ".svg")
    widget.to_dot(out + ".dot")
print(explain_grad(unused, loss))
print(explain_grad(w, loss))
"""


@pytest.fixture(scope="module", params=["inside", "beside"])
def written(request, tmp_path_factory) -> Path:
    """A folder of everything that is written, by a program of alice's."""
    home = tmp_path_factory.mktemp("alice-canary")
    project, out = home / "project", tmp_path_factory.mktemp("out")
    project.mkdir()
    (project / "train.py").write_text(PROGRAM)
    at = project if request.param == "inside" else out
    said = fresh(
        f"""
        import os, runpy
        os.chdir({str(at)!r})
        sys.path.insert(0, {str(project)!r})
        runpy.run_path({str(project / "train.py")!r}, {{"OUT": {str(out)!r}}})
        """
    )
    assert "alice-canary" not in said
    return out


def text_of(file: Path) -> str:
    data = file.read_bytes()
    if file.suffix == ".gw":
        return zlib.decompress(data, 31).decode("ascii")
    text = data.decode()
    if file.suffix == ".html":
        (model,) = re.findall(r'id="gradwalk-model">([^<]*)<', text)
        return text + zlib.decompress(base64.b64decode(model), 31).decode("ascii")
    return text


def test_no_file_tells_what_stands_above_the_project(written):
    for file in written.iterdir():
        assert "alice-canary" not in text_of(file), file.name
        assert str(Path.home()) not in text_of(file) or str(Path.home()) == "/", file.name


def test_lines_are_told_unless_they_are_left_out(written):
    for kind in ("gw", "fresh.gw", "again.gw", "html"):
        text = text_of(written / f"True.{kind}")
        assert "train.py" in text
        assert "loss-canary" in text
    assert "train.py:" in text_of(written / "True.json")


def test_no_line_is_told_when_it_is_left_out(written):
    files = [file for file in written.iterdir() if file.name.startswith("False.")]
    assert len(files) == 7
    for file in files:
        text = text_of(file)
        for told in ("canary", "train.py"):
            where = text.find(told)
            assert where < 0, (file.name, text[max(0, where - 200) : where + 50])


def test_what_is_left_without_lines_can_be_opened(written):
    said = fresh(
        f"""
        from gradwalk import load
        for name in ("gw", "fresh.gw", "again.gw"):
            widget = load({str(written)!r} + "/False." + name)
            for node in range(len(widget.model["nodes"])):
                widget.selected = node
                assert widget.details["source"] is None
            print(len(widget.model["nodes"]))
        """
    )
    assert len(set(said.split())) == 1
    json.loads((written / "False.json").read_text())
