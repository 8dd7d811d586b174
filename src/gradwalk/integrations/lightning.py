"""A callback for the Trainer of Lightning."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from ..features.follow.callback import Follows


class GradwalkCallback(Follows, Callback):
    """Look at the training of a ``lightning.Trainer``, and name what goes wrong.

    Pass it in ``callbacks=``. Findings are printed on standard error when they are made; after the
    training ``run`` is the `FollowedRun`.

    Args:
        at (int, optional): The number of the step to look at, from 1. Default: ``1``.
        keep (bool, optional): Whether to keep the graph of that step for ``run.open``. Default:
            ``False``.
        strict (bool, optional): Whether to raise a RuntimeError at the end of the training if there
            is a warning. Default: ``False``.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to follow."""
        self._begin(pl_module, is_quiet=not trainer.is_global_zero)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Follow no longer."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Follow no longer, after an error of the program."""
        self._end(exception)
