"""Rules on ranks that others wait for."""

from nsyswrap.rules.code import PYTORCH, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Group, Rule

LATE = Rule(
    key="ranks/late",
    name="late rank",
    weight=1.25,  # it names the place
    fixed="if the late rank were in time",
    drawn_as=("gpu", "communication_wait"),
    group=Group.COMMUNICATION,
)
IN_TURN = Rule(
    key="ranks/in_turn",
    name="uneven work in turn",
    headline="In each step another rank has more to compute, and the others wait for it for {share} of the time.",
    advice="Give all ranks equal work in each step. Sort samples into buckets of like length across ranks, or share "
    "them out by tokens instead of by number.",
    fixed="if ranks had equal work in each step",
    drawn_as=("gpu", "communication_wait"),
    group=Group.COMMUNICATION,
)
PACE = Rule(key="ranks/pace", name="a slower pace of launches", group=Group.COMMUNICATION)
PIPELINE = Rule(
    key="ranks/pipeline",
    name="pipeline bubble",
    advice=Wording(
        "Cut the batch into more microbatches: with p stages and m microbatches, p - 1 of m + p - 1 parts "
        "of the step are bubbles. Or give each rank several stages (ScheduleInterleaved1F1B, "
        "ScheduleZBVZeroBubble).",
        "Cut the batch into more microbatches: with p stages and m microbatches, p - 1 of m + p - 1 parts "
        "of the step are bubbles. Or give each rank several stages.",
    ),
    code=(CodeChange(PYTORCH, "schedule = Schedule1F1B(stage, n_microbatches=4 * stages, loss_fn=criterion)"),),
    fixed="without pipeline bubbles",
    drawn_as=("gpu", "communication_wait"),
    group=Group.COMMUNICATION,
)
SLOWER_GPU = Rule(
    key="ranks/slower_gpu",
    name="slower GPU than that of other ranks",
    group=Group.COMMUNICATION,
    keeps_rank="its GPU takes longer for the same kernels",
    for_late_rank="Compare this GPU with the others in nvidia-smi: other programs on it, clocks, power, temperature. "
    "Move the rank to another GPU, or end the other program.",
)
UNEVEN_INPUT = Rule(
    key="ranks/uneven_input",
    name="more to compute than other ranks",
    group=Group.COMMUNICATION,
    keeps_rank="it has more to compute",
    for_late_rank=Wording(
        "Give all ranks equal work. Share samples out by length or tokens instead of by number, sort them "
        "into buckets across ranks, or cut the longest.",
        "Give all ranks equal work: divide by what each part costs, not by its size.",
        server="Give all ranks equal work: share requests out by their tokens, or experts by how often they are "
        "chosen.",
    ),
)
UNKNOWN = Rule(key="ranks/unknown", name="late for an unknown cause", group=Group.COMMUNICATION)

# Hosts of equal ranks differ in their pace, and a late rank has its own transfers. A stage of a pipeline waits for the
# stage before it by design.
WITHOUT_CAUSE = frozenset(each.key for each in (PACE, PIPELINE, UNKNOWN))
"""Keys of the rules that name no cause of a late rank."""
