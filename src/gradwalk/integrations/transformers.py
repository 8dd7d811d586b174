"""A callback for the Trainer of transformers, and for trainers that are made from it."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..features.follow.callback import Follows


class GradwalkCallback(Follows, TrainerCallback):
    """Look at the training of a ``transformers.Trainer``, and name what goes wrong.

    Pass it in ``callbacks=``. Findings are printed on standard error when they are made; after the
    training ``run`` is the `FollowedRun`.

    Args:
        at (int, optional): The number of the step to look at, from 1. Default: ``1``.
        keep (bool, optional): Whether to keep the graph of that step for ``run.open``. Default:
            ``False``.
        strict (bool, optional): Whether to raise a RuntimeError at the end of the training if there
            is a warning. Default: ``False``.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to follow."""
        self._begin(kwargs["model"], is_quiet=not state.is_world_process_zero)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Follow no longer."""
        self._end()
