"""Rules on the GPU itself."""

from nsyswrap.rules.code import COMPILED
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

SLOWED = Rule(key="gpu/slowed", name="GPU clock lowered", fixed="with the GPU at full clocks", hue="idle-launch")
BETWEEN_OPERATIONS = Rule(
    key="gpu/between_operations",
    name="time between GPU operations",
    headline="The GPU runs many short operations: the gaps between them take {share} of the time.",
    advice=Wording(
        "Let fewer operations do the same: torch.compile fuses elementwise ones, and a larger batch makes all longer.",
        "Let fewer kernels do the same: fuse small ones, and give each more work.",
        jax="Let fewer kernels do the same: more of the step under one jax.jit, and a larger batch.",
        server="Let fewer kernels do the same: batch more requests, and use the engine's fused kernels.",
    ),
    is_slight=True,
    code=COMPILED,
    fixed="with fewer operations",
    hue="idle-launch",
)
