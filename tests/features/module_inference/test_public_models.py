"""Models that people use, built small from their configurations: nothing is downloaded."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine import nodes_behind
from torch import Tensor, library, nn

from gradwalk import GraphWidget, watch
from gradwalk.features.module_inference.infer_modules import infer_namespaces
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import modules_by_path, read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.tracing.annotate import annotate

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore"),  # theirs
]

# The sizes that configurations have in common; each takes those that it knows.
SMALL = {
    key: size
    for size, keys in {
        0: "pad_token_id",
        1: "bos_token_id",
        2: "eos_token_id num_hidden_layers num_attention_heads num_key_value_heads n_layer n_head "
        "num_layers num_heads encoder_layers decoder_layers encoder_attention_heads n_layers "
        "decoder_attention_heads n_heads num_experts_per_tok",
        4: "num_experts state_size",
        8: "head_dim d_kv patch_size",
        16: "hidden_size n_embd d_model dim moe_intermediate_size word_embed_proj_dim",
        32: "intermediate_size n_positions d_ff encoder_ffn_dim decoder_ffn_dim image_size "
        "hidden_dim max_position_embeddings ffn_dim",
        64: "vocab_size",
    }.items()
    for key in keys.split()
}
IN_TRANSFORMERS = dict.fromkeys(
    [
        *("Bert", "DistilBert", "GPT2", "Llama", "Mistral", "Qwen3", "Qwen3Moe", "GPTNeoX"),
        *("Mamba", "Gemma", "OPT", "Falcon", "Mixtral"),
    ],
    "words",
) | {"T5": "two texts", "Bart": "two texts", "ViT": "pictures", "DeiT": "pictures"}
IN_TIMM = [
    *("resnet18", "convnext_atto", "efficientnet_b0", "mobilenetv3_small_050"),
    *("vit_tiny_patch16_224", "mixer_s32_224", "regnetx_002", "densenet121"),
]

MORE_IN_TIMM = [
    *("regnety_002", "maxvit_tiny_rw_224", "swin_tiny_patch4_window7_224", "nfnet_l0"),
    *("eva02_tiny_patch14_224", "coat_lite_tiny"),
]


def imported(name: str) -> Any:
    """Import one of them, both of which import torchvision.

    Its own operators do not load beside a torch without CUDA, and it does not without them. None
    is used here, so names do.
    """
    if torch.version.cuda is None:
        stand_ins()
    return importlib.import_module(name)


@functools.cache
def stand_ins() -> None:
    for operator in ("nms", "qnms"):
        taken = "(Tensor boxes, Tensor scores, float most) -> Tensor"
        library.define(f"torchvision::{operator}", taken)


def of_transformers(name: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    transformers = imported("transformers")
    config_class = getattr(transformers, f"{name}Config")
    known = config_class().to_dict()
    config = config_class(**{key: value for key, value in SMALL.items() if key in known})
    model = getattr(transformers, f"{name}Model")(config)
    given = {
        "words": {"input_ids": torch.arange(3, 13).reshape(2, 5)},
        "two texts": {
            "input_ids": torch.arange(3, 13).reshape(2, 5),
            "decoder_input_ids": torch.arange(3, 11).reshape(2, 4),
        },
        "pictures": {"pixel_values": torch.randn(2, 3, 32, 32)},
    }[IN_TRANSFORMERS[name]]
    return model, lambda: model(**given).last_hidden_state.square().mean()


def of_timm(name: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    timm = imported("timm")
    model = timm.create_model(name, pretrained=False)
    pictures = torch.randn(2, 3, *model.default_cfg["input_size"][1:])
    return model, lambda: model(pictures).square().mean()


def check(make: Callable[[str], tuple[nn.Module, Callable[[], Tensor]]], name: str) -> None:
    torch.manual_seed(0)
    model, loss_of = make(name)
    model.train()
    torch.manual_seed(1)
    loss_of().backward()
    plain = {key: parameter.grad for key, parameter in model.named_parameters()}
    model.zero_grad()

    torch.manual_seed(1)
    loss = loss_of()
    widget = GraphWidget(loss, names=model)
    graph = widget.to_networkx()
    in_graph = [node for node, kind in graph.nodes(data="kind") if kind in ("op", "leaf")]
    assert len(in_graph) == len(nodes_behind([loss]))
    widget.backward()
    for key, parameter in model.named_parameters():
        grad = plain[key]
        assert (parameter.grad is None) == (grad is None), key
        assert grad is None or torch.equal(parameter.grad, grad), key
    names = {graph.nodes[node]["name"] for node in in_graph}
    assert {key for key, grad in plain.items() if grad is not None} <= names
    widget.close()


def check_modules(make: Callable[[str], tuple[nn.Module, Callable[[], Tensor]]], name: str) -> None:
    """The modules inferred are those that were watched, or some around them."""
    torch.manual_seed(0)
    model, loss_of = make(name)
    with watch():
        loss = loss_of()
    captured = capture_nodes(read_outputs((loss,), "test"), read_names(model, "test"))
    seen = annotate(captured, read_names(model, "test"), infer=False).drawn
    inferred = infer_namespaces(captured, dict(modules_by_path({"": model})))
    ops = [i for i, kind in captured.graph.nodes(data="kind") if kind == "op"]
    watched = {i: seen.nodes[i]["namespace"] or "" for i in ops}
    other = {i: (inferred[i], space) for i, space in watched.items() if inferred[i] != space}
    assert len(other) <= 0.05 * len(ops), other
    wrong = [
        (here, there)
        for here, there in other.values()
        if here and not f"{there}/".startswith(f"{here}/")
    ]
    assert len(wrong) <= 0.04 * len(ops), wrong


@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_a_model_of_transformers(name: str) -> None:
    check(of_transformers, name)


@pytest.mark.parametrize("name", IN_TIMM)
def test_a_model_of_timm(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(of_timm, name)


@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_the_modules_of_a_model_of_transformers(name: str) -> None:
    check_modules(of_transformers, name)


@pytest.mark.parametrize("name", [*IN_TIMM, *MORE_IN_TIMM])
def test_the_modules_of_a_model_of_timm(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_modules(of_timm, name)
