"""Rules on CUDA graphs."""

from nsyswrap.rules.rule import Rule

HIDDEN = Rule(key="graphs/hidden", name="CUDA graphs without a trace")
WHOLE = Rule(key="graphs/whole", name="CUDA graphs traced as a whole")
