"""Build parts independently: a part that fails becomes a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..schema.details import FailedModel
from ..torch_api.reading import in_short

_T = TypeVar("_T")


@dataclass
class Guarded:
    """Builds parts, and collects the failures.

    Example::

        >>> parts = Guarded()
        >>> parts.build("formula", lambda: 1 / 0, instead=[])
        []
        >>> parts.failed[0]["part"]
        'formula'
    """

    # The parts that could not be built, and why. Building a part again clears its entry.
    failed: list[FailedModel] = field(default_factory=list)

    def build(self, part: str, made_by: Callable[[], _T], instead: _T) -> _T:
        """Build one part; return ``instead`` if that fails."""
        self.failed[:] = [each for each in self.failed if each["part"] != part]
        try:
            return made_by()
        except Exception as error:  # whatever a tensor, a backend or a user's class may raise
            self.failed.append({"part": part, "sentence": could_not(part, error)})
            return instead

    @property
    def first(self) -> str | None:
        """The sentence about the first failure; None without one."""
        return self.failed[0]["sentence"] if self.failed else None

    def why(self, part: str) -> str | None:
        """Return the sentence about a part's failure; None if it did not fail."""
        return next((each["sentence"] for each in self.failed if each["part"] == part), None)


def could_not(part: str, error: BaseException) -> str:
    """Return a sentence about a missing part and its error."""
    return (
        f"This part ({part.replace('_', ' ')}) cannot be shown, because working it out failed with "
        f"{in_short(error)}. Everything else is as it should be."
    )
