"""Which modules are imported, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fresh import fresh

from gradwalk import GraphWidget, compare, save

WITHOUT_TORCH = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Forbidden())
"""


def run(program, *arguments, options=()):
    done = subprocess.run(
        [sys.executable, *options, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_command_line_needs_no_torch(tmp_path):
    leaf = torch.ones(3, requires_grad=True)
    widget = GraphWidget(leaf.exp().sum())
    widget.backward()
    file = save(widget, path=tmp_path / "run.gw")
    html, svg, png = (tmp_path / f"run.{kind}" for kind in ("html", "svg", "png"))
    shown = run(
        WITHOUT_TORCH
        + "from gradwalk.__main__ import main\n"
        + "file, html, svg, png = sys.argv[1:]\n"
        + "assert main([file, '--html', html, '--svg', svg, '--png', png]) == 0\n"
        + "for query in ('findings', 'nodes', 'steps', 'memory', 'explain:leaf'):\n"
        + "    assert main([file, '--json', query]) == 0\n"
        + "assert main([file]) == main([file, '--text', '-']) == 0\n",
        *(file, html, svg, png),
    ).stdout
    assert "3 nodes, 2 edges, 1 leaf" in shown
    assert html.read_text() == widget.to_html()
    assert svg.read_text() == widget.to_svg()
    assert png.stat().st_size > 1000
    widget.close()


def test_load_without_torch_makes_pages_and_pictures(tmp_path):
    leaf = torch.ones(3, requires_grad=True)
    widget, both = GraphWidget(leaf.exp().sum()), compare([leaf.exp().sum(), leaf.sin().sum()])
    files = [save(widget, tmp_path / "run.gw"), save(both, tmp_path / "both.gw")]
    run(
        WITHOUT_TORCH
        + "import gradwalk\n"
        + "for file in sys.argv[1:]:\n"
        + "    opened = gradwalk.load(file)\n"
        + "    opened.to_html(f'{file}.html'), opened.to_svg(f'{file}.svg')\n"
        + "    try:\n        opened.step()\n"
        + "    except AttributeError as error:\n        assert 'Install torch' in str(error)\n"
        + "try:\n    gradwalk.GraphWidget\n"
        + "except ImportError as error:\n"
        + "    assert 'gradwalk.GraphWidget needs torch' in str(error)\n"
        + "try:\n    from gradwalk.results import Plan\n"
        + "except ImportError as error:\n"
        + "    assert 'gradwalk.results.Plan needs torch' in str(error)",
        *files,
    )
    for shown, file in zip((widget, both), files, strict=True):
        assert Path(f"{file}.html").read_text() == shown.to_html()
        assert Path(f"{file}.svg").read_text() == shown.to_svg()
        shown.close()


def test_importing_gradwalk_imports_nothing_else():
    program = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import gradwalk\n"
        "assert set(sys.modules) - before == {'gradwalk'}"
    )
    run(program)


@pytest.mark.parametrize("made", ["GraphWidget(loss)", "record(loss)", "watch"])
def test_networkx_waits_until_a_graph_is_read(made):
    fresh(
        f"""
        loss = torch.ones(3, requires_grad=True).sum()
        made = gradwalk.{made}
        assert "networkx" not in sys.modules
        gradwalk.capture(loss).nodes
        assert "networkx" in sys.modules
        """
    )


def test_an_import_that_fails_names_torch_and_the_reason():
    done = run(
        "import torch\n"
        "import torch.autograd.graph as graph\n"
        "del graph.get_gradient_edge\n"
        "torch.__version__ = '9.9.0'\n"
        "try:\n"
        "    from gradwalk import GraphWidget\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "    print(type(error.__cause__).__name__, '|', error.__cause__)\n"
    ).stdout
    assert "gradwalk.GraphWidget cannot be imported with torch 9.9.0: ImportError: cannot" in done
    assert "was tested with torch 2.10 to 2.15: install one of these, or a newer gradwalk" in done
    assert "ImportError | cannot import name 'get_gradient_edge'" in done


def test_an_attribute_that_is_missing_is_named_too():
    """Of an AttributeError Python would say "cannot import name", and nothing else."""
    done = run(
        "import torch\n"
        "del torch.float16\n"
        "try:\n"
        "    from gradwalk import capture\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    ).stdout
    assert "gradwalk.capture cannot be imported with torch" in done
    assert "AttributeError: module 'torch' has no attribute 'float16'" in done
