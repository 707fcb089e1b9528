"""Rules on the data loader."""

from nsyswrap.rules.code import PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Group, Rule

WORKER_START = Rule(
    key="data/worker_start",
    tried_with=("persistent",),
    name="data loader worker start",
    headline=Wording(
        "The GPU starves for {share} of the time while loader processes are started again for another epoch.",
        "The GPU starves for {share} of the time while processes that load data are started again.",
    ),
    advice=Wording(
        "Keep them: DataLoader(persistent_workers=True). Or make epochs longer.", "Start them once and keep them."
    ),
    code=(
        CodeChange(PYTORCH, "loader = DataLoader(dataset, num_workers=8, persistent_workers=True)"),
        CodeChange(
            TRANSFORMERS, "arguments = TrainingArguments(dataloader_num_workers=8, dataloader_persistent_workers=True)"
        ),
    ),
    fixed="if loader processes were kept",
    hue="idle-data",
    group=Group.LOADER,
    keeps_rank="its loader processes start again",
)
