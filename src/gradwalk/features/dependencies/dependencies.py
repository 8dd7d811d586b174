"""`dependencies`: which rows of the inputs each row of an output depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import torch

from ...checks.context import CheckContext
from ...explain.loss_graph import read_loss
from ...graph.arguments import read_int
from ...graph.names import caller_names
from ...result import make, returned_by
from ...torch_api.modes import grad_mode_kept, unseen
from ...tracing.annotate import Annotated
from ..experiments.experiment import find_place, place_name
from ..experiments.replay import Replay
from .probe import (
    TAKES_STATISTICS,
    Rows,
    matrix_of,
    mixing_node,
    pattern_of,
    sampled,
    shape_at,
    spans,
)

_CELL = 10  # pixels of one row in the picture
_GIVE = "Give a tensor that requires grad and has a dimension for the rows."


@returned_by("dependencies(per_example_loss, x)")
@dataclass(frozen=True, eq=False)
class Dependencies:
    """Which rows of the inputs each row of an output depends on.

    Attributes:
        matrix: For the first input: row i is True at the rows that row i of the output depends on.
        matrices: The same for each input, by its name.
        rows: The rows of the output that were tried, in the order of the rows of the matrices.
        mixes: Whether a row of the output depends on other rows than its own.
        node: The node where the rows mix, as in `gradwalk.capture`; None if unknown.
        sentence: The result in words, with the operation and its line as far as known.
    """

    matrix: torch.Tensor
    matrices: Mapping[str, torch.Tensor]
    rows: list[int]
    mixes: bool
    node: int | None
    sentence: str
    _pictures: list[str] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        """Return the sentence."""
        return self.sentence

    def _repr_html_(self) -> str:
        return f"<div><p>{escape(self.sentence)}</p>{''.join(self._pictures)}</div>"


def dependencies(
    per_example_loss: torch.Tensor,
    *inputs: torch.Tensor | str,
    dim: int = 0,
    input_dim: int | None = None,
    most: int = 64,
    stacklevel: int = 1,
) -> Dependencies:
    """Show which rows of the inputs each row of an output depends on.

    A gradient is sent into one row of the output at a time. Where examples should not mix, the
    matrix has True on its diagonal alone. A causal model has none above it, along positions
    (``dim=1``). No ``.grad``, random state or saved tensor changes, and no hook runs.

    Args:
        per_example_loss (torch.Tensor): An output with one row for each example: a loss with
            ``reduction="none"``, or the prediction.
        *inputs (torch.Tensor | str): Tensors of its graph, or their names. Data needs
            ``x.requires_grad_()`` before the forward pass; of integers take their embedding.
        dim (int, optional): The dimension of the output along which its rows are. Default: ``0``.
        input_dim (int, optional): The same of the inputs. Default: ``None``, as ``dim``.
        most (int, optional): The largest number of rows that are tried. Of more rows so many are
            taken, from the first to the last. Default: ``64``.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The matrices, and a sentence. A notebook shows both.

    Raises:
        TypeError: An argument is of the wrong kind.
        ValueError: The output or an input has no such rows, or is not in the graph.
        RuntimeError: A node cannot run again; see `gradwalk.what_if`.

    Example::

        >>> import torch
        >>> from gradwalk import dependencies
        >>> x = torch.randn(4, 3, requires_grad=True)
        >>> found = dependencies((x - x.mean(0)).pow(2).sum(1), x)
        >>> found.mixes, found.matrix.shape
        (True, torch.Size([4, 4]))
    """
    if not isinstance(per_example_loss, torch.Tensor):
        raise TypeError(
            f"dependencies() was given an output of type {type(per_example_loss).__name__}. {_GIVE}"
        )
    if not per_example_loss.requires_grad or not per_example_loss.dim():
        raise ValueError(
            f"dependencies() was given an output of shape {tuple(per_example_loss.shape)} with "
            f"requires_grad={per_example_loss.requires_grad}. {_GIVE} For a loss, use "
            'reduction="none".'
        )
    if not inputs:
        raise ValueError(
            "dependencies() was given no input. Give the output first, then tensors of its graph, "
            "as in dependencies(per_example_loss, x)."
        )
    tried = read_int(most, "dependencies() was given most=", "Give a number of rows.")
    if tried < 1:
        raise ValueError(f"dependencies() was given most={most}. Give a number of rows from 1.")
    names = caller_names(None, "dependencies", stacklevel)
    with unseen(), torch.no_grad():
        loss = read_loss((per_example_loss,), names)
        assert loss.captured is not None
        context = CheckContext(loss.captured, None, {}, names, is_explicit=False)
        return _dependencies(
            context, per_example_loss, inputs, (dim, dim if input_dim is None else input_dim), tried
        )


@grad_mode_kept
def _dependencies(
    context: CheckContext,
    output: torch.Tensor,
    inputs: tuple[Any, ...],
    dims: tuple[int, int],
    most: int,
) -> Dependencies:
    replay = Replay(context.captured)
    root = _rows(replay, output, dims[0], "dim")
    given = [_rows(replay, each, dims[1], "input_dim") for each in inputs]
    rows = sampled(root.count, most)
    found = matrix_of(replay, root, given, rows)
    titles = [place_name(replay, each.place) or f"input {nr}" for nr, each in enumerate(given)]
    mixed = [pattern_of(each, rows) not in ("own", "none") for each in found]
    node = None
    if any(mixed):
        wanted = given[mixed.index(True)].place[0]
        at = int(found[mixed.index(True)].sum(1).argmax())
        known = mixing_node(replay, root, rows[at], replay.above([wanted]), wanted)
        node = None if known is None else known[0]
    name = place_name(replay, root.place) or "the output"
    through = "" if node is None else f" through {context.place(node)}"
    parts = []
    for title, matrix in zip(titles, found, strict=True):
        parts.append(_sentence((name, title), matrix, rows, root.dim, through))
        through = ""  # the first says it
    parts += [] if node is None else _on_purpose(context.captured, node)
    pictures = [_picture(title, each) for title, each in zip(titles, found, strict=True)]
    matrices = dict(zip(titles, found, strict=False))
    sentence = " ".join(parts)
    return make(Dependencies, found[0], matrices, rows, any(mixed), node, sentence, pictures)


def _rows(replay: Replay, given: Any, dim: int, what: str) -> Rows:
    place = find_place(replay, given, "dependencies()")
    shape = shape_at(replay, place)
    if not -len(shape) <= dim < len(shape):
        raise ValueError(
            f"dependencies() was given {what}={dim} for a tensor of shape {shape}. "
            "Give one of its dimensions."
        )
    return Rows(place, shape, dim % len(shape))


_OF = {"none": "no", "own": "no other"}
_ORDERED = {"earlier": "; none depends on a later one", "later": "; none depends on an earlier one"}


def _sentence(
    names: tuple[str, str], matrix: torch.Tensor, rows: list[int], dim: int, through: str
) -> str:
    name, title = names
    pattern = pattern_of(matrix, rows)
    one = "example" if dim == 0 else "position"
    if pattern in _OF:
        return (
            f"Each {one} of {name} depends on {_OF[pattern]} {one} of {title}. "
            f"dim={dim} has the {one}s."
        )
    at = int(matrix.sum(1).argmax())
    reached = matrix[at].nonzero().flatten().tolist()
    return (
        f"{one.title()} {rows[at]} of {name} depends on {one}s {spans(reached)} of {title}"
        f"{through}. dim={dim} has the {one}s{_ORDERED.get(pattern, '')}."
    )


def _on_purpose(captured: Annotated, node: int) -> list[str]:
    if captured.graph.nodes[node]["op"] in TAKES_STATISTICS:
        return ["It takes statistics over the rows, so this may be on purpose."]
    return []


def _picture(title: str, matrix: torch.Tensor) -> str:
    """A matrix as SVG: a square for each True."""
    height, width = matrix.shape
    squares = "".join(
        f'<rect x="{x * _CELL}" y="{y * _CELL}" width="{_CELL - 1}" height="{_CELL - 1}"/>'
        for y, x in matrix.nonzero().tolist()
    )
    words = f"Rows of the output (down) and the rows of {title} that they depend on (across)"
    return (
        f'<figure style="margin:0"><svg role="img" aria-label="{escape(words)}" '
        f'viewBox="-1 -1 {width * _CELL + 1} {height * _CELL + 1}" fill="currentColor" '
        f'style="width:{min(400, 16 * width)}px;max-height:400px;outline:1px solid currentColor">'
        f"{squares}</svg><figcaption>{escape(words)}</figcaption></figure>"
    )
