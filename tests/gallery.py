"""Draws the gallery, a page of classic examples with their code: `make gallery`."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from examples import EXAMPLES, Example

DOCS = Path(__file__).parents[1] / "docs"
THEMES = ("light", "dark")

HEAD = """\
# Gallery

<!-- Written by tests/gallery.py from tests/examples.py. Do not edit: `make gallery`. -->

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
[`to_svg`](../README.md#without-a-kernel) writes once it has ended.
"""

ENTRY = """\
## {title}

{says}

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="gallery/{name}_dark.svg">
  <img alt="The graph of the program below, after backward" src="gallery/{name}_light.svg">
</picture>

```python
{code}
```
"""


def page() -> str:
    """The text of the page."""
    contents = "\n".join(f"- [{each.title}](#{anchor(each.title)})" for each in EXAMPLES.values())
    entries = [
        ENTRY.format(title=each.title, says=each.says, name=each.name, code=each.code())
        for each in EXAMPLES.values()
    ]
    return "\n".join([HEAD.format(count=len(EXAMPLES)), contents + "\n", *entries])


def anchor(title: str) -> str:
    """Where a headline is found, as GitHub names it."""
    kept = (letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def picture_paths(example: Example) -> dict[str, Path]:
    """By theme, the file of a picture."""
    return {theme: DOCS / "gallery" / f"{example.name}_{theme}.svg" for theme in THEMES}


def main() -> None:
    """Write the page and its pictures; pictures of examples that are gone are removed."""
    (DOCS / "gallery").mkdir(exist_ok=True)
    left = set((DOCS / "gallery").glob("*.svg"))
    size = 0
    for example in EXAMPLES.values():
        with closing(example.shown(watched=True)) as widget:
            for theme, path in picture_paths(example).items():
                path.write_text(widget.to_svg(theme=theme), encoding="utf-8")
                left.discard(path)
                size += path.stat().st_size
    for path in left:
        path.unlink()
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{len(EXAMPLES)} examples, {size:,} bytes of pictures\n")


if __name__ == "__main__":
    main()
