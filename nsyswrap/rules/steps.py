"""Rules on steps."""

from nsyswrap.rules.rule import Rule

UNEVEN = Rule(
    key="steps/uneven",
    name="slow steps",
    weight=0.8,  # they name no cause
    fixed="if all steps were alike",
    hue="idle-cpu",
    keeps_rank="some steps in which its host does more",
    for_late_rank="Look at what this rank's host does in its slow steps: checkpoints, logging, evaluation. Do it "
    "less often, or in another thread or process.",
)
