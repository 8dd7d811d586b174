"""Plans of large public models from their configurations, without weights."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import library

from gradwalk import plan
from gradwalk.torch_api.reading import has_data

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
def test_they_are_planned_without_weights(transformers, name):
    config, sizes = MODELS[name]
    made = getattr(transformers, config)(**sizes)
    tokens = torch.zeros(1, 512, dtype=torch.long)
    planned = []

    def model():
        planned.append(getattr(transformers, name)(made).bfloat16())
        return planned[-1]

    found = plan(model, {"input_ids": tokens, "labels": tokens})
    for each in planned:
        assert not any(map(has_data, [*each.parameters(), *each.buffers()]))
    advice = found.advise(int(0.6 * found.peak))
    after = found.apply(advice)
    assert advice.peak == pytest.approx(after.peak, rel=0.03)
    assert after.flops - found.flops == advice.extra_flops
