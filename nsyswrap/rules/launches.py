"""Rules on launches."""

from nsyswrap.rules.code import COMPILED
from nsyswrap.rules.rule import Rule

LAUNCH_BOUND = Rule(
    key="launches/launch_bound",
    name="launch-bound kernels",
    code=COMPILED,
    fixed="with fewer launches",
    hue="idle-launch",
    for_late_rank="Look at what this rank launches then and the others do not: statistics, logging, evaluation. Do "
    "it every n steps, collect the values on the GPU, and read them together.",
)
