"""Derivatives of the loss functions that torch does not build from other operations."""

from __future__ import annotations

from .case import Case, Row, Table

_MEAN = 1  # torch's numbers for reduction=: 0 none, 1 mean, 2 sum


def _averaged(code: str) -> Row:
    """``code``, divided by the number of terms where the loss is their mean."""

    def row(case: Case) -> str:
        return f"{code} / self.numel()" if case.saved["reduction"] == _MEAN else code

    return row


def _weighted(code: str) -> Row:
    """``code`` times the weight given to each term, and averaged."""

    def row(case: Case) -> str:
        weighted = f"{code} * weight" if case.has("weight") else code
        return f"{weighted} / self.numel()" if case.saved["reduction"] == _MEAN else weighted

    return row


def _cross_entropy_with_logits(case: Case) -> str | None:
    code = "grad * (self.sigmoid() - target)"
    if case.has("pos_weight"):
        code = "grad * (self.sigmoid() * (1 - target) - (1 - self.sigmoid()) * target * pos_weight)"
    row = _weighted(code)
    return row(case) if callable(row) else row


def _target_with_logits(case: Case) -> str | None:
    code = "-grad * self"
    if case.has("pos_weight"):
        log_sigmoid = "torch.nn.functional.logsigmoid"
        code = f"grad * ({log_sigmoid}(-self) - pos_weight * {log_sigmoid}(self))"
    row = _weighted(code)
    return row(case) if callable(row) else row


def _negative_log_likelihood(case: Case) -> str:
    """Minus grad at the place of each target's class, zero elsewhere."""
    # Classes are the last dimension of a matrix, and the second of everything larger.
    shape = case.input.shape
    of_images = len(shape) == 4
    dim = 1 if of_images else -1
    classes = "torch.arange(self.shape[1], device=self.device).reshape(-1, 1, 1)"
    if not of_images:
        classes = "torch.arange(self.shape[-1], device=self.device)"
    chosen = f"target.unsqueeze({dim}) == {classes}"
    if 0 <= case.saved["ignore_index"] < shape[dim]:
        chosen = f"({chosen}) & (target != ignore_index).unsqueeze({dim})"
    code = f"-grad.unsqueeze({dim})" if case.saved["reduction"] == 0 else "-grad"
    if case.has("weight"):
        code += " * weight.reshape(-1, 1, 1)" if of_images else " * weight"
    if case.saved["reduction"] == _MEAN:
        code += " / total_weight"
    # Where every target is ignored, the weight is 0 and nothing is divided by it.
    return f"chosen = {chosen}\ntorch.where(chosen, {code}, 0)"


_SMOOTH = "torch.where(difference.abs() < beta, difference / beta, difference.sign())"
_HUBER = "torch.where(difference.abs() < delta, difference, difference.sign() * delta)"

LOSSES: Table = {
    "MseLossBackward0": {
        "self": _averaged("grad * 2 * (self - target)"),
        "target": _averaged("grad * 2 * (target - self)"),
    },
    "SmoothL1LossBackward0": {
        "self": _averaged(f"difference = self - target\ngrad * {_SMOOTH}"),
        "target": _averaged(f"difference = target - self\ngrad * {_SMOOTH}"),
    },
    "HuberLossBackward0": {
        "self": _averaged(f"difference = self - target\ngrad * {_HUBER}"),
        "target": _averaged(f"difference = target - self\ngrad * {_HUBER}"),
    },
    "BinaryCrossEntropyBackward0": {
        "self": _weighted("grad * (self - target) / (self * (1 - self)).clamp(min=1e-12)"),
        "target": _weighted(
            "grad * ((1 - self).log().clamp(min=-100) - self.log().clamp(min=-100))"
        ),
    },
    "BinaryCrossEntropyWithLogitsBackward0": {
        "self": _cross_entropy_with_logits,
        "target": _target_with_logits,
    },
    "NllLossBackward0": {"self": _negative_log_likelihood},
    "NllLoss2DBackward0": {"self": _negative_log_likelihood},
}
"""Backward class -> forward argument -> derivative."""
