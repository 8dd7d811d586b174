"""Plans of large public models from their configurations, without weights."""

from __future__ import annotations

import importlib
import resource
import sys
import time

import pytest
import torch
from torch import library

from gradwalk import plan

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore"),  # theirs
]

MODELS = {
    "GPT2LMHeadModel": ("GPT2Config", {}),
    "BertForMaskedLM": ("BertConfig", {}),
    "MixtralForCausalLM": ("MixtralConfig", {}),
    "LlamaForCausalLM": (
        "LlamaConfig",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "use_cache": False,
        },
    ),
}


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("transformers")
    if torch.version.cuda is None and "torchvision" not in sys.modules:
        for operator in ("nms", "qnms"):
            taken = "(Tensor boxes, Tensor scores, float most) -> Tensor"
            library.define(f"torchvision::{operator}", taken)
    return importlib.import_module("transformers")


@pytest.mark.parametrize("name", MODELS)
def test_they_are_planned_in_seconds(transformers, name):
    config, sizes = MODELS[name]
    made = getattr(transformers, config)(**sizes)
    tokens = torch.zeros(1, 512, dtype=torch.long)
    began = time.process_time()
    found = plan(
        lambda: getattr(transformers, name)(made).bfloat16(),
        {"input_ids": tokens, "labels": tokens},
    )
    assert time.process_time() - began < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3e6  # KiB; the tests before count
    advice = found.advise(int(0.6 * found.peak))
    after = found.apply(advice)
    assert time.process_time() - began < 60
    assert advice.peak == pytest.approx(after.peak, rel=0.03)
    assert after.flops - found.flops == advice.extra_flops
