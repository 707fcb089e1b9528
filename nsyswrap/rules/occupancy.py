"""Rules on how kernels fill the GPU."""

from nsyswrap.rules.code import PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

LOW = Rule(
    key="occupancy/low",
    tried_with=("cudnn_benchmark",),
    name="low occupancy",
    headline="Kernels that fill less than a quarter of the GPU's warps take {share} of the time.",
    fixed="with more warps",
)
SMALL_GRID = Rule(
    key="occupancy/small_grid",
    name="grids smaller than the GPU",
    headline="Kernels with too few blocks for half of the GPU take {share} of the time.",
    advice=Wording(
        "Give each kernel more work: a larger batch, batched operations instead of a loop over small "
        "tensors, or torch.compile to fuse small kernels. A smaller GPU runs a small model just as fast.",
        "Give each kernel more work: more data at a time, or several small kernels in one. Independent "
        "kernels can run side by side, in streams. A smaller GPU runs small work just as fast.",
        server="Give each kernel more work: batch more requests. A smaller GPU runs a small model just as fast.",
    ),
    code=(
        CodeChange(PYTORCH, "loader = DataLoader(dataset, batch_size=2 * batch_size, num_workers=8)"),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(per_device_train_batch_size=2 * batch_size)"),
    ),
    fixed="with larger grids",
)
