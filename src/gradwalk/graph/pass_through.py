"""Which nodes are plumbing: they hand a tensor on, rearranged or in another type, and no more.

The test for membership is what backward does. Plumbing only moves, reshapes, casts or sums the
gradient: it multiplies it by nothing. So an operation that drops numbers (a slice, a select) is
plumbing too, its gradient is the same numbers among zeros, but ``mean`` and ``sum`` are not: they
compute. So is ``cat`` not: it joins several tensors, which is worth seeing.
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
"""The same numbers in other memory: the gradient is handed on as it is."""

CASTS = frozenset({"ToCopyBackward0"})
"""The same numbers in another dtype or on another device: the gradient is cast back."""

PLUMBING = VIEWS | EXPANDS | COPIES | CASTS


def is_pass_through(op: str) -> bool:
    """Whether a node only hands a tensor on.

    Args:
        op: The class name of an autograd node, as in the attribute ``op`` of a captured graph.

    Returns:
        True for views, transposes, expands, clones and dtype casts, and for their copying twins
        ("ViewBackward0_copy").

    Example::

        >>> is_pass_through("TransposeBackward0"), is_pass_through("MulBackward0")
        (True, False)
    """
    return op.removesuffix("_copy") in PLUMBING
