# SPDX-License-Identifier: Apache-2.0
"""deepspeed_train.py - ZeRO 2 that knows nothing of its launcher."""
import deepspeed
import torch

CONFIG = {
    "train_micro_batch_size_per_gpu": 32,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
    "zero_optimization": {"stage": 2},
}

deepspeed.init_distributed()
model = torch.nn.Linear(16, 1)
engine, _, _, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=CONFIG
)
for step in range(1, 101):
    x = torch.randn(32, 16, device=engine.device, dtype=torch.bfloat16)
    loss = (engine(x) - x.sum(1, keepdim=True)).square().mean()
    engine.backward(loss)
    engine.step()
    if torch.distributed.get_rank() == 0 and step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
