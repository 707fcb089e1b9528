"""Rules on how kernels fill the GPU."""

from nsyswrap.rules.code import PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.rule import Rule

LOW = Rule(key="occupancy/low", name="low occupancy", fixed="with more warps")
SMALL_GRID = Rule(
    key="occupancy/small_grid",
    name="grids smaller than the GPU",
    code=(
        CodeChange(PYTORCH, "loader = DataLoader(dataset, batch_size=2 * batch_size, num_workers=8)"),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(per_device_train_batch_size=2 * batch_size)"),
    ),
    fixed="with larger grids",
)
