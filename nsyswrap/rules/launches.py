"""Rules on launches."""

from nsyswrap.rules.code import COMPILED
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

LAUNCH_BOUND = Rule(
    key="launches/launch_bound",
    tried_with=("cuda_graphs", "compile"),
    name="launch-bound kernels",
    headline=Wording(
        "Python queues kernels too slowly: the GPU is idle {share} of the time.",
        "The CPU queues kernels too slowly: the GPU is idle {share} of the time.",
    ),
    advice=Wording(
        'Launch each phase as one CUDA graph: torch.compile(mode="reduce-overhead"), or torch.cuda.graph. That is what '
        "is simulated. Fused kernels (torch.compile){optimizer} and a larger batch may save more.",
        "Launch fewer and longer kernels: fuse small ones, give each more work, or use CUDA graphs.",
        jax="Launch fewer and longer kernels: more of the step under one jax.jit, or a larger batch. XLA's "
        "command buffers are CUDA graphs.",
        server="Launch fewer and longer kernels: let the engine use CUDA graphs (vLLM: without --enforce-eager), "
        "and batch more requests.",
        openacc="Launch fewer and longer kernels: merge small regions, collapse loops, and queue regions with async.",
    ),
    code=COMPILED,
    fixed="with CUDA graphs",
    hue="idle-launch",
    for_late_rank="Look at what this rank launches then and the others do not: statistics, logging, evaluation. Do "
    "it every n steps, collect the values on the GPU, and read them together.",
)
