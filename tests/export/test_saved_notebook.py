"""A notebook that was run and saved shows a picture where there is no kernel."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import nbclient
import nbconvert
import nbformat
import pytest

CODE = """
import torch
from gradwalk import GraphWidget
x = torch.ones(2, requires_grad=True)
y = (x * 3).sum()
GraphWidget(y)
"""


@pytest.fixture(scope="module")
def notebook():
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    # As JupyterLab saves it unless it is told otherwise: without the state of the widgets.
    nbclient.NotebookClient(made, timeout=300, store_widget_state=False).execute()
    return made


def test_the_output_carries_every_kind(notebook):
    data = notebook.cells[0].outputs[0]["data"]
    assert set(data) == {
        "application/vnd.jupyter.widget-view+json",
        "image/svg+xml",
        "text/plain",
    }
    assert "Mul (2), no grad: other" in data["text/plain"]


def words_of_pictures(html: str) -> list[str]:
    pictures = re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"', html)
    return [" ".join(ET.fromstring(base64.b64decode(each)).itertext()) for each in pictures]


def test_html_without_a_kernel_shows_the_picture(notebook):
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    (words,) = words_of_pictures(html)
    assert "MulBackward0" in words


def test_the_documented_command_runs_a_notebook_into_a_page_of_pictures(notebook, tmp_path):
    hosts = Path(__file__).parents[2] / "docs" / "reference" / "hosts.md"
    text = hosts.read_text(encoding="utf-8")
    command = re.search(r"<!-- still -->\n```bash\njupyter nbconvert (.*)\n```", text)
    assert command is not None
    bare = nbformat.from_dict(notebook)
    bare.cells[0].outputs = []
    nbformat.write(bare, tmp_path / "notebook.ipynb")
    subprocess.run(
        [sys.executable, "-m", "nbconvert", *command[1].split()],
        cwd=tmp_path,
        env=os.environ,
        check=True,
        capture_output=True,
    )
    html = (tmp_path / "notebook.html").read_text(encoding="utf-8")
    (words,) = words_of_pictures(html)
    assert "MulBackward0" in words
    assert "widget-view+json" not in html


def test_markdown_and_plain_text_have_the_tree(notebook):
    text = notebook.cells[0].outputs[0]["data"]["text/plain"]
    assert text.startswith("GraphWidget(3 nodes, 2 edges, 1 leaf)\n")
