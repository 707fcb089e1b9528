"""Rules on launches."""

from nsyswrap.rules.code import COMPILED
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

LAUNCH_BOUND = Rule(
    key="launches/launch_bound",
    name="launch-bound kernels",
    headline="The GPU waits {share} of the time for the next launch: {late} of the operations are launched "
    "after the GPU went idle.",
    advice=Wording(
        "Launch fewer and longer operations: torch.compile, CUDA graphs "
        '(torch.compile(mode="reduce-overhead")), {optimizer}or a larger batch.',
        "Launch fewer and longer kernels: fuse small ones, give each more work, or use CUDA graphs.",
        jax="Launch fewer and longer kernels: more of the step under one jax.jit, or a larger batch. XLA's "
        "command buffers are CUDA graphs.",
        server="Launch fewer and longer kernels: let the engine use CUDA graphs (vLLM: without --enforce-eager), "
        "and batch more requests.",
        openacc="Launch fewer and longer kernels: merge small regions, collapse loops, and queue regions with async.",
    ),
    code=COMPILED,
    fixed="with fewer launches",
    hue="idle-launch",
    for_late_rank="Look at what this rank launches then and the others do not: statistics, logging, evaluation. Do "
    "it every n steps, collect the values on the GPU, and read them together.",
)
