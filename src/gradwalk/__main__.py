"""The command line: ``python -m gradwalk run.gw --html out.html``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from .export.text import text_tree
from .widget.load import load


def main(arguments: Sequence[str] | None = None) -> int:
    """Turn a saved graph into what can be looked at.

    Args:
        arguments: Those after the program's name; None for the command line's own.

    Returns:
        0, or 1 when it could not be done, after a sentence on standard error.
    """
    given = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", UserWarning)
            text = _run(given)
    except (OSError, TypeError, ValueError, RuntimeError, ImportError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    for note in notes:
        print(note.message, file=sys.stderr)  # noqa: T201
    if text is not None:
        sys.stdout.write(text)
    return 0


def _run(given: argparse.Namespace) -> str | None:
    """Write the files that were asked for; the text to print, if any."""
    widget = load(given.files if given.files[1:] else given.files[0], rank=given.rank)
    try:
        if given.html is not None:
            widget.to_html(given.html, title=given.title, source=not given.no_source)
        if given.svg is not None:
            widget.to_svg(given.svg, theme=given.theme, whole=given.whole)
        if given.text or (given.html is None and given.svg is None):
            return f"{widget!r}\n{text_tree(widget.to_networkx(), given.lines, widget.graph)}\n"
    finally:
        widget.close()
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gradwalk",
        description="Show an autograd graph that gradwalk.save() wrote to a file.",
        epilog="Without --html and --svg, the graph is printed as text.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file",
        help="the saved graph, such as run.gw; or those of all ranks of a run, such as 'run-*.gw'",
    )
    parser.add_argument(
        "--rank", type=int, metavar="N", help="of several ranks, the one whose graph to show"
    )
    parser.add_argument(
        "--html", metavar="OUT", help="write one page to explore the graph in, offline"
    )
    parser.add_argument("--svg", metavar="OUT", help="write a picture (needs gradwalk[export])")
    parser.add_argument("--text", action="store_true", help="print the graph as a tree")
    parser.add_argument("--title", help="what to call the page")
    parser.add_argument(
        "--no-source", action="store_true", help="leave lines of the program out of the page"
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark", "auto"),
        default="light",
        help="colours of the picture (default: light)",
    )
    parser.add_argument(
        "--whole", action="store_true", help="draw every node, not an overview of its modules"
    )
    parser.add_argument(
        "--lines",
        type=int,
        default=1000,
        metavar="N",
        help="most lines of the text (default: 1000)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
