"""The callback in a real ``lightning.Trainer``."""

from __future__ import annotations

import lightning
import pytest
import torch
from torch import nn
from torch.nn import functional

from gradwalk.integrations import lightning as callbacks

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore"),  # those of the libraries
]


class Module(lightning.LightningModule):  # type: ignore[name-defined]
    def __init__(self, *, is_broken):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
        self.is_broken = is_broken

    def training_step(self, batch, _):
        (x,) = batch
        hidden = self.encoder(x)
        if self.is_broken:
            hidden = hidden.detach()
        return functional.mse_loss(self.decoder(hidden), x)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


def trained(tmp_path, *, is_broken, also):
    lightning.seed_everything(0)
    module = Module(is_broken=is_broken)
    data = torch.utils.data.TensorDataset(torch.randn(32, 8))
    trainer = lightning.Trainer(
        default_root_dir=tmp_path,
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
        callbacks=also,
    )
    trainer.fit(module, torch.utils.data.DataLoader(data, 4))
    return [p.detach().clone() for p in module.parameters()]


def test_a_healthy_training_has_no_warning_and_the_same_weights(tmp_path):
    callback = callbacks.GradwalkCallback()
    weights = trained(tmp_path, is_broken=False, also=[callback])
    assert callback.run.findings == []
    assert callback.run.steps == 4
    look = callback.run.as_json()["looks"][0]
    assert (look["trainable"], look["with_gradient"]) == (4, 4)
    assert all(map(torch.equal, weights, trained(tmp_path, is_broken=False, also=[])))


def test_a_detached_encoder_is_named(tmp_path):
    callback = callbacks.GradwalkCallback()
    trained(tmp_path, is_broken=True, also=[callback])
    (finding,) = callback.run.findings
    assert (finding.kind, finding.parameters) == (
        "no-gradient",
        ("encoder.weight", "encoder.bias"),
    )
    assert "test_lightning.py:" in finding.line


def test_strict_raises_at_the_end(tmp_path):
    with pytest.raises(RuntimeError, match="gradwalk found 1 problem"):
        trained(tmp_path, is_broken=True, also=[callbacks.GradwalkCallback(strict=True)])
