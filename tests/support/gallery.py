"""Draws the gallery, a page of classic examples with their code: `make gallery`."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from examples import EXAMPLES, Example

DOCS = Path(__file__).parents[2] / "docs"
THEMES = ("light", "dark")
WIDTHS = (1400, 800)  # px, of the pages that pictures are made for

HEAD = """\
# Gallery

<!-- Written by `make gallery` from tests/support/examples.py. Do not edit. -->

{count} classic examples, as `GraphWidget` draws them after backward. Data goes from the leaves
to the output, gradients the other way; every number is torch's own. Each program ran under
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
    contents = "\n".join(f"- [{each.title}](#{anchor(each.title)})" for each in EXAMPLES.values())
    entries = [
        ENTRY.format(title=each.title, says=each.says, code=each.code(), **pictures(each))
        for each in EXAMPLES.values()
    ]
    return "\n".join([HEAD.format(count=len(EXAMPLES)), contents + "\n", *entries])


def anchor(title: str) -> str:
    """Where a headline is found, as GitHub names it."""
    kept = (letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def picture_paths(example: Example) -> dict[tuple[str, int], Path]:
    """By theme and width, the file of a picture."""
    return {
        (theme, width): DOCS / "gallery" / f"{example.name}_{theme}_{width}.svg"
        for theme in THEMES
        for width in WIDTHS
    }


def pictures(example: Example) -> dict[str, str]:
    """Which picture is shown where: the markup of all but one, and the file of that one."""
    files = {key: path.relative_to(DOCS).as_posix() for key, path in picture_paths(example).items()}
    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 900px)"
    media = {
        f"{narrow} and {dark}": files["dark", 800],
        narrow: files["light", 800],
        dark: files["dark", 1400],
    }
    sources = (f'  <source media="{on}" srcset="{file}">' for on, file in media.items())
    return {"sources": "\n".join(sources), "picture": files["light", 1400]}


def main() -> None:
    """Write the page and its pictures; pictures of examples that are gone are removed."""
    (DOCS / "gallery").mkdir(exist_ok=True)
    left = set((DOCS / "gallery").glob("*.svg"))
    size = 0
    for example in EXAMPLES.values():
        with closing(example.shown(watched=True)) as widget:
            for (theme, width), path in picture_paths(example).items():
                path.write_text(widget.to_svg(theme=theme, width=width), encoding="utf-8")
                left.discard(path)
                size += path.stat().st_size
    for path in left:
        path.unlink()
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{len(EXAMPLES)} examples, {size:,} bytes of pictures\n")


if __name__ == "__main__":
    main()
