"""What tests ask of the sentences about gradients, and what torch itself says of them."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def line(offset=-1):
    """The line above the caller's, as a sentence writes it."""
    frame = inspect.currentframe().f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno + offset}"


def short_sentences(text):
    """Check that a text is at most four sentences of at most 40 words, code included."""
    assert text.endswith(".")
    sentences = text.replace(".grad is", "").split(". ")
    assert len(sentences) <= 4, text
    assert all(len(each.split()) <= 40 for each in sentences), text
    return text


def gets_no_gradient(tensor, loss):
    """torch's own word: backward from the loss would not reach the tensor."""
    return not loss.requires_grad or torch.autograd.grad(
        loss.sum(), tensor, retain_graph=True, allow_unused=True
    ) == (None,)
