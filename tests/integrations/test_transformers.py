"""The callback in a real ``transformers.Trainer`` with peft, and the unchanged script."""

from __future__ import annotations

import peft
import pytest
import torch
import transformers

from gradwalk.integrations import transformers as integration

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore"),  # those of the libraries
]


def trained(tmp_path, *, is_broken, callbacks):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    model = peft.get_peft_model(
        transformers.LlamaForCausalLM(config),
        peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], modules_to_save=["lm_head"]),
    )
    if is_broken:  # as where a wrapper hides it from the Trainer
        model.enable_input_require_grads = lambda: None
        model.base_model.model.enable_input_require_grads = lambda: None
        model.get_input_embeddings()._forward_hooks.clear()
    data = [{"input_ids": (ids := torch.randint(0, 64, (16,))), "labels": ids} for _ in range(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        max_steps=3,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": True},
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        seed=0,
    )
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=data, callbacks=callbacks
    )
    trainer.train()
    return [p.detach().clone() for p in model.parameters()]


def followed(tmp_path, **more):
    callback = integration.GradwalkCallback(keep=True)
    return callback, trained(tmp_path, callbacks=[callback], **more)


def test_a_healthy_training_has_no_warning_and_the_same_weights(tmp_path, capsys):
    callback, weights = followed(tmp_path, is_broken=False)
    assert [each for each in callback.run.findings if each.severity != "info"] == []
    assert callback.run.steps == 3
    look = callback.run.as_json()["looks"][0]
    assert (look["trainable"], look["with_gradient"], look["passes"]) == (9, 9, 2)
    assert callback.run.open(1).model["nodes"]
    assert "9 of 9 trainable parameters" in capsys.readouterr().err
    plain = trained(tmp_path, is_broken=False, callbacks=[])
    assert all(map(torch.equal, weights, plain))


def test_adapters_without_gradient_are_named(tmp_path):
    callback, _ = followed(tmp_path, is_broken=True)
    (finding,) = [each for each in callback.run.findings if each.severity != "info"]
    assert finding.kind == "no-gradient"
    assert len(finding.parameters) == 8
    assert all("lora" in each for each in finding.parameters)
    assert "checkpoint(use_reentrant=True)" in finding.message
    assert "layer.py:" in finding.line
