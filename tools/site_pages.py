"""Pages of the documentation site that are made from the code, when the site is built."""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import gallery
import live_figures

from gradwalk import GraphWidget
from gradwalk.export.disk import bundle
from gradwalk.features.live.tape import NotLiveError

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SCHEMA = ROOT / "src" / "gradwalk" / "schema"
MODELS = ("graph", "details", "backward", "findings", "what_if", "updates", "comparison", "ranks")

JSON_HEAD = """\
# JSON models

`widget.model` is the JSON that is drawn, a `GraphModel`. `details`, `state`, `run` and `transport`
are JSON, too, and saved files hold all of them. NaN and infinities are the strings "nan", "inf" and
"-inf".

These models are provisional: fields may change between releases. `to_json` writes a node-link form
that networkx reads.
"""


def write_json_page() -> None:
    """Write the page of the JSON models from the TypedDicts of `gradwalk.schema`."""
    parts = [JSON_HEAD]
    for file in (*MODELS, "file_format"):
        tree = ast.parse((SCHEMA / f"{file}.py").read_text(encoding="utf-8"))
        models = [each for each in tree.body if isinstance(each, ast.ClassDef)]
        if file == "file_format":
            models = [each for each in models if each.name == "SavedGraphModel"]
        parts += [f"## {file.replace('_', ' ').capitalize()}\n", *map(_model, models)]
    (DOCS / "reference" / "json.md").write_text("\n".join(parts), encoding="utf-8")


def _model(model: ast.ClassDef) -> str:
    rows = "\n".join(f"| `{name}` | `{kind}` | {says} |" for name, kind, says in _fields(model))
    base = ast.unparse(model.bases[0])
    more = "" if base == "TypedDict" else f" It also has the fields of `{base}`."
    table = f"\n| field | type | meaning |\n|---|---|---|\n{rows}\n" if rows else ""
    return (
        f"```{{py:class}} {model.name}\n{_one_line(ast.get_docstring(model))}{more}\n{table}```\n"
    )


def _fields(model: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field."""
    for field, after in zip(model.body, [*model.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            says = after.value if isinstance(after, ast.Expr) else None
            text = _one_line(says.value) if isinstance(says, ast.Constant) else ""
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            yield ast.unparse(field.target), kind, text.replace("|", "\\|")


def _one_line(text: object) -> str:
    return " ".join(inspect.cleandoc(text).split()) if isinstance(text, str) else ""


def write_gallery_page() -> None:
    """Write the page of the gallery."""
    (DOCS / "gallery.md").write_text(gallery.page(), encoding="utf-8")


def write_gallery(live: Path) -> None:
    """Write a live page for each example of the gallery, and the still pictures."""
    bundle("page.js")  # says how to build it, if it is missing
    for example in gallery.EXAMPLES.values():
        page = live / "_live" / f"gallery-{example.name}.html"
        page.unlink(missing_ok=True)
        with closing(example.shown(watched=True)) as widget:
            _write_page(widget, page, example.title)
            gallery.draw(example, widget, live / "gallery")
    live_figures.write(live / "_live")


def _write_page(widget: GraphWidget, page: Path, title: str) -> None:
    """Write a page that computes, or one that only steps where no page can compute the program."""
    try:
        widget.to_html(page, title=title, assets="shared", live=True)
    except NotLiveError:
        widget.to_html(page, title=title, assets="shared")


def copy_mathjax(live: Path) -> None:
    """Copy the script that sets formulas to the static files of the site."""
    (live / "_static").mkdir(exist_ok=True)
    shutil.copy(ROOT / "js" / "node_modules" / "mathjax" / "es5" / "tex-svg.js", live / "_static")


def copy_notebooks() -> None:
    """Copy the lessons to the tutorials, unless they are there already."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        copy = DOCS / "tutorials" / notebook.name
        if not copy.exists() or copy.read_bytes() != notebook.read_bytes():
            shutil.copy(notebook, copy)
