"""Rules on waits for the GPU."""

from nsyswrap.rules.code import NO_WAITS, PYTORCH, CodeChange
from nsyswrap.rules.cuda_advice import WAIT_LESS, WAIT_LESS_BY_KIND
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Rule

SMALL_COPIES = Advice(
    advice=Wording(
        "Copy to the GPU once instead of many times. Collect the values in one tensor on the host "
        "(torch.stack, or the collate function of the DataLoader), pin it, and copy it with "
        "non_blocking=True.",
        "Copy to the GPU once instead of many times: collect the values in one pinned buffer on the host, "
        "and copy it with cudaMemcpyAsync.",
        jax="Copy to the GPU once instead of many times: one jax.device_put of all values together.",
        openacc="Copy to the GPU once instead of many times: one data region around the loop, and one update of "
        "all values.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "values = torch.stack(parts).pin_memory()  # on the host\nvalues = values.to(device, non_blocking=True)",
        ),
    ),
)
IN_STEP = Rule(
    key="synchronization/in_step",
    tried_with=("non_blocking",),
    name="synchronization inside steps",
    headline=Wording(
        "The GPU is idle {share} of the time, because the CPU waits for it inside the step.",
        "The GPU is idle {share} of the time, because the CPU waits for it before it launches more.",
    ),
    advice=Wording(
        "Keep .item(), .cpu(), .tolist(), .nonzero(), x[mask], print(loss) and torch.cuda.synchronize() out of the "
        "step. Collect tensors and read them every n steps.",
        WAIT_LESS,
        **WAIT_LESS_BY_KIND,
    ),
    cases=(SMALL_COPIES,),
    code=NO_WAITS,
    fixed="without waits inside the step",
    hue="idle-wait",
    keeps_rank="its host waits for its GPU inside the step",
)
