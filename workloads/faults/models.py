"""Networks that several programs train: a transformer encoder and a tower of convolutions, both in bfloat16."""

import torch
from torch import nn

from faults.training import Run


def encoder(run: Run, width: int, layers: int) -> nn.Module:
    """Return transformer layers over bfloat16 [rows, tokens, width]; 32 features and 2 layers where there is no GPU."""
    features = run.size(width)
    made = [
        nn.TransformerEncoderLayer(
            *(features, max(features // 64, 1), 4 * features),
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        for _ in range(run.size(layers, 2))
    ]
    return nn.Sequential(*made).to(run.device, torch.bfloat16)


def convolutions(run: Run, channels: int, layers: int) -> nn.Module:
    """Return convolutions with batch norms over bfloat16 [rows, 3, side, side], channels last."""
    width = run.size(channels, 8)
    tower: list[nn.Module] = []
    before = 3
    for _ in range(run.size(layers, 2)):
        tower += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
    return nn.Sequential(*tower).to(run.device, torch.bfloat16, memory_format=torch.channels_last)
