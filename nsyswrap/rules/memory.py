"""Rules on the memory of GPUs."""

from nsyswrap.rules.code import KEPT_MEMORY
from nsyswrap.rules.cuda_advice import ALLOCATE_ONCE, ALLOCATE_ONCE_BY_KIND
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Rule

CHURN = Rule(
    key="memory/churn",
    tried_with=("allocator",),
    name="repeated memory allocation",
    headline="The GPU is idle {share} of the time while steps allocate and free GPU memory.",
    advice=Wording(
        "Take torch.cuda.empty_cache() out of the step and keep shapes stable (pad, bucket, "
        "drop_last=True), so that the allocator reuses its blocks. Or set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        ALLOCATE_ONCE,
        **ALLOCATE_ONCE_BY_KIND,
    ),
    code=KEPT_MEMORY,
    fixed="without allocations in the step",
    hue="idle-setup",
)
TOO_LARGE = Advice(
    advice="The GPU's memory is too small for what its kernels touch, so pages are evicted for others. Use "
    "less memory at a time, in pieces that fit, and move each with cudaMemPrefetchAsync before its "
    "kernels run."
)
MIGRATIONS = Rule(
    key="memory/migrations",
    name="page faults of managed memory",
    headline="Page faults of managed memory take {share} of the time: pages move, or the GPU waits for the next fault.",
    advice="Move the pages before they are needed: cudaMemPrefetchAsync to the GPU before its kernels run, "
    "and to the host (cudaCpuDeviceId) before it reads the result. Mark what both only read with "
    "cudaMemAdvise (SetReadMostly). Or use cudaMalloc and explicit copies.",
    cases=(TOO_LARGE,),
    fixed="if pages moved before they are needed",
    hue="idle-setup",
)
