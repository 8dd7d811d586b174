"""Plans of large public models from their configurations, without weights."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from memory_oracle import tracked
from planned_steps import Step
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


WORDS = 120
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
TEXT = {**SMALL, "vocab_size": WORDS, "max_position_embeddings": 64}
PICTURE = {**SMALL, "image_size": 32, "patch_size": 8}
T5 = {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4}
SPEECH = {
    "d_model": 32,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 1),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48),
    "vocab_size": WORDS,
    "num_mel_bins": 8,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
SERIES = {
    "num_input_channels": 3,
    "context_length": 32,
    "prediction_length": 8,
    "patch_length": 8,
    "patch_stride": 8,
    "d_model": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 48,
}
SMALL_MODELS = {
    "T5ForConditionalGeneration": (
        "T5Config",
        {**T5, "vocab_size": WORDS, "decoder_start_token_id": 0, "pad_token_id": 0},
        ("input_ids", "labels"),
    ),
    "RobertaForMaskedLM": ("RobertaConfig", TEXT, ("input_ids", "labels", "attention_mask")),
    "Gemma3ForCausalLM": (
        "Gemma3TextConfig",
        {**TEXT, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8},
        ("input_ids", "labels", "attention_mask"),
    ),
    "BloomForCausalLM": (
        "BloomConfig",
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": WORDS},
        ("input_ids", "labels"),
    ),
    "MambaForCausalLM": (
        "MambaConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 4},
        ("input_ids", "labels"),
    ),
    "XLNetLMHeadModel": (
        "XLNetConfig",
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": WORDS},
        ("input_ids", "labels"),
    ),
    "ViTMAEForPreTraining": (
        "ViTMAEConfig",
        {
            **PICTURE,
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 32,
        },
        ("pixel_values",),
    ),
    "SwinForImageClassification": (
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        ("pixel_values", "classes"),
    ),
    "WhisperForConditionalGeneration": (
        "WhisperConfig",
        {**SPEECH, "suppress_tokens": None, "begin_suppress_tokens": None},
        ("input_features", "labels"),
    ),
    "PatchTSTForPrediction": ("PatchTSTConfig", SERIES, ("past_values", "future_values")),
}


def inputs(names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Two examples; the end of the second is padding."""
    words = torch.randint(3, WORDS, (2, 16))
    mask = torch.ones_like(words)
    mask[1, 10:] = 0
    known = {
        "input_ids": words,
        "labels": words,
        "attention_mask": mask,
        "pixel_values": torch.randn(2, 3, 32, 32),
        "classes": torch.tensor([0, 1]),
        "input_features": torch.randn(2, 8, 40),
        "past_values": torch.randn(2, 32, 3),
        "future_values": torch.randn(2, 8, 3),
    }
    return {"labels" if name == "classes" else name: known[name] for name in names}


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_ones_count_to_the_byte(transformers, name):
    config, sizes, names = SMALL_MODELS[name]
    torch.manual_seed(0)
    batch = inputs(names)
    make = getattr(transformers, name)
    found = plan(make(getattr(transformers, config)(**sizes)), batch)
    peak, _ = tracked(Step(make(getattr(transformers, config)(**sizes)), batch))
    assert not found.measured
    assert found.peak == peak
