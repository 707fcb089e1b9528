"""Rules on the memory of GPUs."""

from nsyswrap.program_kind import Wording
from nsyswrap.rules.code import KEPT_MEMORY
from nsyswrap.rules.cuda_advice import ALLOCATE_ONCE, ALLOCATE_ONCE_BY_KIND
from nsyswrap.rules.rule import Rule

CHURN = Rule(
    key="memory/churn",
    name="repeated memory allocation",
    headline="The GPU is idle for {share} of the time while steps ask the driver for memory and give it back.",
    advice=Wording(
        "Take torch.cuda.empty_cache() out of the step and keep shapes stable (pad, bucket, "
        "drop_last=True), so that the allocator reuses its blocks; or set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        ALLOCATE_ONCE,
        **ALLOCATE_ONCE_BY_KIND,
    ),
    code=KEPT_MEMORY,
    fixed="without allocations in the step",
    hue="idle-setup",
)
MIGRATIONS = Rule(
    key="memory/migrations",
    name="page faults of managed memory",
    fixed="if pages moved before they are needed",
    hue="idle-setup",
)
