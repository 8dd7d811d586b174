"""Faults planted in trainings of models and demos that ship inside the training libraries."""

from __future__ import annotations

import gc

import lightning
import peft
import pytest
import torch
import transformers
from accelerate import Accelerator
from lightning.fabric import Fabric
from lightning.pytorch.demos import boring_classes, transformer
from torch import nn
from torch.nn import functional

from gradwalk.features.follow.follow import FollowedRun
from gradwalk.result import make

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore"),  # those of the libraries
]


def detached(module):
    """Let a module return its result without a graph."""
    module.register_forward_hook(lambda _module, _args, out: out.detach())  # HERE detached


def zero_log(logits):
    return -(logits.softmax(-1) * 0).log().mean()  # HERE zero_log


def root_of_zero(loss):
    return loss + (loss * 0).sqrt() * 0  # HERE root_of_zero


def all_but(net, word):
    return [each for name, each in net.named_parameters() if word not in name]


# ---- transformers


def with_trainer(tmp_path, net, data, optimizer=None, loss=None):
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        max_steps=22,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        seed=0,
    )
    optimizers = (optimizer, None) if optimizer is not None else (None, None)
    trainer = transformers.Trainer(
        model=net,
        args=arguments,
        train_dataset=data,
        optimizers=optimizers,
        compute_loss_func=loss,
    )
    trainer.train()


def classifier(tmp_path, fault):
    """BERT that classifies, by the Trainer."""
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=3,
    )
    net = transformers.BertForSequenceClassification(config)
    optimizer = loss = None
    if fault == "detached pooler":
        detached(net.bert.pooler)
    elif fault == "wrong optimizer":
        optimizer = torch.optim.AdamW(all_but(net, "classifier"))
    elif fault == "log of zero":
        loss = lambda out, labels, **_: zero_log(out.logits)  # noqa: E731
    elif fault == "new head":
        optimizer = torch.optim.AdamW(net.parameters())
        net.classifier = nn.Linear(16, 3)
    data = [{"input_ids": torch.randint(0, 40, (8,)), "labels": i % 3} for i in range(44)]
    with_trainer(tmp_path, net, data, optimizer, loss)


def adapted(tmp_path, fault):
    """GPT-2 with adapters of peft, by the Trainer."""
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=0
    )
    lora = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    net = peft.get_peft_model(transformers.GPT2LMHeadModel(config), lora)
    loss = None
    if fault == "detached block":
        block = net.base_model.model.transformer.h[1]
        block.register_forward_hook(
            lambda _module, _args, out: (
                out.detach().requires_grad_()
                if isinstance(out, torch.Tensor)
                else tuple(each.detach().requires_grad_() for each in out)
            )
        )
    elif fault == "adapters disabled":
        for module in net.modules():
            if isinstance(module, peft.tuners.lora.LoraLayer):
                module.enable_adapters(False)
                for parameter in module.lora_A.parameters():
                    parameter.requires_grad_()
        net.base_model.model.transformer.wte.weight.requires_grad_()
    elif fault == "root of zero":
        loss = lambda out, labels, **_: root_of_zero(  # noqa: E731
            functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten())
        )
    data = [{"input_ids": (x := torch.randint(0, 40, (8,))), "labels": x} for _ in range(44)]
    with_trainer(tmp_path, net, data, None, loss)


# ---- Lightning


def with_lightning(tmp_path, module, loader, **more):
    lightning.Trainer(
        default_root_dir=tmp_path,
        max_steps=22,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **more,
    ).fit(module, loader)


def boring(tmp_path, fault):
    """Lightning's BoringModel."""

    class Module(boring_classes.BoringModel):
        def loss(self, preds, labels=None):
            found = super().loss(preds, labels)
            return root_of_zero(found) if fault == "root of zero" else found

        def forward(self, x):
            if fault == "no grad":
                with torch.no_grad():
                    return super().forward(x) + self.extra  # HERE no grad
            return super().forward(x) + self.extra

    module = Module()
    module.extra = nn.Parameter(torch.zeros(2))
    if fault == "no grad":
        module.forward = lambda x: module.layer(x).detach() + module.extra  # HERE no grad
    elif fault == "wrong optimizer":
        module.configure_optimizers = lambda: torch.optim.SGD(module.layer.parameters(), 0.1)
    elif fault == "unused":
        module.spare = nn.Linear(2, 2)
    with_lightning(tmp_path, module, module.train_dataloader(), limit_val_batches=0)


def language(tmp_path, fault):
    """Lightning's transformer demo."""

    class Module(transformer.LightningTransformer):
        def prepare_data(self):
            """Download nothing."""

        def training_step(self, batch, batch_idx):
            found = super().training_step(batch, batch_idx)
            return root_of_zero(found) if fault == "root of zero" else found

    module = Module(vocab_size=32)
    net = module.model
    if fault == "detached encoder":
        detached(net.transformer.encoder)
    elif fault == "wrong optimizer":
        module.configure_optimizers = lambda: torch.optim.SGD(all_but(module, "decoder"), 0.1)
    elif fault == "frozen":
        net.decoder.requires_grad_(False)
    tokens = [torch.randint(0, 32, (9,)) for _ in range(44)]
    data = [(each[:-1], each[1:]) for each in tokens]
    with_lightning(tmp_path, module, torch.utils.data.DataLoader(data, 2))


# ---- Loops that call the backward of a library


class Patches(nn.Module):
    def __init__(self, fault):
        super().__init__()
        config = transformers.ViTConfig(
            image_size=8,
            patch_size=4,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=3,
        )
        self.vit, self.fault = transformers.ViTForImageClassification(config), fault
        if fault == "detached layer":
            detached(self.vit.vit.layernorm)

    def forward(self, x):
        return self.vit(x).logits


def by_hand(net, optimizer, backward, fault):
    for _ in range(22):
        loss = functional.cross_entropy(net(torch.randn(2, 3, 8, 8)), torch.randint(0, 3, (2,)))
        if fault == "root of zero":
            loss = root_of_zero(loss)
        optimizer.zero_grad()
        backward(loss)
        if fault == "cleared":
            optimizer.zero_grad()
        optimizer.step()


def accelerated(_, fault):
    """A vision transformer in a loop of accelerate."""
    net = Patches(fault)
    held = all_but(net, "classifier") if fault == "wrong optimizer" else net.parameters()
    accelerator = Accelerator(cpu=True)
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(held))
    by_hand(net, optimizer, accelerator.backward, fault)


def by_fabric(_, fault):
    """A vision transformer in a loop of Lightning Fabric."""
    net = Patches(fault)
    held = all_but(net, "classifier") if fault == "wrong optimizer" else net.parameters()
    fabric = Fabric(accelerator="cpu")
    net, optimizer = fabric.setup(net, torch.optim.AdamW(held))
    by_hand(net, optimizer, fabric.backward, fault)


# What is wrong -> the kind of the finding, a part of a name in it, the mark of its line.
LOOPS = {
    "detached layer": ("no-gradient", "vit.vit.embeddings", "detached"),
    "root of zero": ("nan", "vit", "root_of_zero"),
    "cleared": ("cleared", "vit", ""),
    "wrong optimizer": ("optimizer", "vit.classifier.weight", ""),
}
SCRIPTS = {
    classifier: {
        "detached pooler": ("no-gradient", "bert.pooler", "detached"),
        "wrong optimizer": ("optimizer", "classifier.weight", ""),
        "log of zero": ("nan", "", "zero_log"),
        "new head": ("optimizer", "classifier.weight", ""),
    },
    adapted: {
        "root of zero": ("nan", "lora_B", "root_of_zero"),
        "detached block": ("no-gradient", "lora_A", ""),
        "adapters disabled": ("unused", "lora_A", ""),
    },
    boring: {
        "root of zero": ("nan", "layer", "root_of_zero"),
        "no grad": ("no-gradient", "layer.weight", "no grad"),
        "wrong optimizer": ("optimizer", "extra", ""),
        "unused": ("unused", "spare.weight", ""),
    },
    language: {
        "detached encoder": ("no-gradient", "transformer.encoder", "detached"),
        "root of zero": ("nan", "decoder", "root_of_zero"),
        "wrong optimizer": ("optimizer", "decoder.weight", ""),
        "frozen": ("frozen", "decoder.weight", ""),
    },
    accelerated: LOOPS,
    by_fabric: LOOPS,
}
FAULTS = [(script, fault) for script, faults in SCRIPTS.items() for fault in faults]


def played(script, tmp_path, fault=None):
    gc.collect()  # no models of an earlier script
    torch.manual_seed(0)
    with make(FollowedRun, keeps=False) as run:
        script(tmp_path, fault)
    assert run.as_json()["notes"] == []
    return run


def alarms(run):
    return [str(each) for each in run.findings if each.severity != "info"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_an_unharmed_training_has_no_warning(script, tmp_path):
    assert alarms(played(script, tmp_path)) == []


@pytest.mark.parametrize(("script", "fault"), FAULTS, ids=[f"{s.__name__}: {f}" for s, f in FAULTS])
def test_a_planted_fault_is_named(script, fault, tmp_path):
    kind, name, mark = SCRIPTS[script][fault]
    run = played(script, tmp_path, fault)
    about = [each for each in run.findings if each.kind == kind]
    assert about, str(run)
    assert any(name in each for finding in about for each in finding.parameters or [""]), str(run)
    if mark:
        lines = [
            i
            for i, line in enumerate(open(__file__, encoding="utf-8"), 1)  # noqa: SIM115, PTH123
            if line.rstrip().endswith(f"# HERE {mark}")
        ]
        assert any(f"test_faults.py:{i}" in each.message for each in about for i in lines), str(run)
