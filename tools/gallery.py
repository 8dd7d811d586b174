"""Draws the gallery, a page of classic examples with their code, when the site is built.

python tools/gallery.py FOLDER    draws the pictures alone, to look at them: `make gallery`
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from gradwalk import GraphWidget

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from examples import EXAMPLES, Example  # noqa: E402  it is no package

THEMES = ("light", "dark")
WIDTHS = (1400, 800)  # px, of the pages that pictures are made for

HEAD = """\
# Gallery

{count} classic examples, as `GraphWidget` draws them after backward. Data goes from the leaves
to the output, gradients the other way; every number is torch's own.

{thumbnails}
Each program ran under
`watch()`, which lets the picture show what an operation gave, after `torch.manual_seed(0)` and

```python
import torch
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget, watch
```

In a notebook the widget follows `backward()`; these pictures are what
[`to_svg`](howto/export.md) writes once it has ended, for a page of 1,400 px; where
this one is narrower than 900 px, for one of 800.
"""

THUMBNAIL = """\
- [<picture><source media="(prefers-color-scheme: dark)" srcset="gallery/{dark}">
  <img class="dark-light" alt="" src="gallery/{light}"></picture> {title}](#{anchor})
"""

ENTRY = """\
## {title}

{says}

<picture>
{sources}
  <img alt="The graph of the program below, after backward" src="{picture}">
</picture>

```python
{code}
```
"""


def page() -> str:
    """The text of the page."""
    thumbnails = "".join(
        THUMBNAIL.format(
            title=each.title,
            anchor=anchor(each.title),
            dark=name_of(each, "dark", 800),
            light=name_of(each, "light", 800),
        )
        for each in EXAMPLES.values()
    )
    contents = f":::{{container}} thumbnails\n{thumbnails}:::\n"
    entries = [
        ENTRY.format(title=each.title, says=each.says, code=each.code(), **pictures(each))
        for each in EXAMPLES.values()
    ]
    return "\n".join([HEAD.format(count=len(EXAMPLES), thumbnails=contents), *entries])


def anchor(title: str) -> str:
    """Where a headline is found, as GitHub names it."""
    kept = (letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def name_of(example: Example, theme: str, width: int) -> str:
    """The name of a picture's file."""
    return f"{example.name}_{theme}_{width}.svg"


def pictures(example: Example) -> dict[str, str]:
    """Which picture is shown where: the markup of all but one, and the file of that one."""
    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 900px)"
    media = {f"{narrow} and {dark}": ("dark", 800), narrow: ("light", 800), dark: ("dark", 1400)}
    sources = (
        f'  <source media="{on}" srcset="gallery/{name_of(example, *which)}">'
        for on, which in media.items()
    )
    picture = f"gallery/{name_of(example, 'light', 1400)}"
    return {"sources": "\n".join(sources), "picture": picture}


def draw(example: Example, widget: GraphWidget, folder: Path) -> None:
    """Draw the pictures of an example, in every theme and width."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        for width in WIDTHS:
            picture = widget.to_svg(theme=theme, width=width)
            (folder / name_of(example, theme, width)).write_text(picture, encoding="utf-8")


def main() -> None:
    """Draw all pictures into a folder."""
    for example in EXAMPLES.values():
        with closing(example.shown(watched=True)) as widget:
            draw(example, widget, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
