"""Pass-through nodes: they only rearrange or convert a tensor.

The criterion is backward: it only moves, reshapes, casts or sums the gradient, without a factor.
So a slice or a select is included, because its gradient is the same numbers among zeros. ``mean``
and ``sum`` compute, and ``cat`` joins several tensors, so they are excluded.
"""

from __future__ import annotations

VIEWS = frozenset(
    {
        "AliasBackward0",
        "AsStridedBackward0",
        "DiagonalBackward0",
        "PermuteBackward0",
        "ReshapeAliasBackward0",
        "SelectBackward0",
        "SliceBackward0",
        "SplitBackward0",
        "SplitWithSizesBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "SqueezeBackward2",
        "SqueezeBackward3",
        "SqueezeBackward4",
        "SqueezeBackward5",
        "TBackward0",
        "TransposeBackward0",
        "TransposeBackward1",
        "UnbindBackward0",
        "UnfoldBackward0",
        "UnsafeSplitBackward0",
        "UnsafeSplitWithSizesBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "UnsqueezeBackward1",
        "ViewBackward0",
        "ViewAsComplexBackward0",
        "ViewAsRealBackward0",
    }
)
"""The same numbers, or some of them, under another shape: the gradient gets the old shape back."""

EXPANDS = frozenset({"ExpandBackward0", "RepeatBackward0"})
"""The same numbers several times: the gradient is summed over the copies."""

COPIES = frozenset({"CloneBackward0", "CopyBackwards", "LiftBackward0"})
"""The same numbers in other memory: the gradient does not change."""

CASTS = frozenset({"ToCopyBackward0"})
"""The same numbers in another dtype or on another device: the gradient is cast back."""

PLUMBING = VIEWS | EXPANDS | COPIES | CASTS


def is_pass_through(op: str) -> bool:
    """Whether a node only passes a tensor through.

    Args:
        op: The class name of an autograd node, as in the attribute ``op`` of a captured graph.

    Returns:
        True for views, transposes, expands, clones and dtype casts, and for their copying variants
        ("ViewBackward0_copy").

    Example::

        >>> is_pass_through("TransposeBackward0"), is_pass_through("MulBackward0")
        (True, False)
    """
    return op.removesuffix("_copy") in PLUMBING
