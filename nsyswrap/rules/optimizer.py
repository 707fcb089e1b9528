"""Rules on the optimizer."""

from nsyswrap.program_kind import Wording
from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.rule import Rule

MANY_KERNELS = Rule(
    key="optimizer/many_kernels",
    name="many small optimizer kernels",
    code=(
        CodeChange(PYTORCH, "optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)"),
        CodeChange(
            LIGHTNING,
            "def configure_optimizers(self):\n"
            "    return torch.optim.AdamW(self.parameters(), lr=self.rate, fused=True)",
        ),
        CodeChange(TRANSFORMERS, 'arguments = TrainingArguments(optim="adamw_torch_fused")'),
    ),
    fixed=Wording("with a fused optimizer", "with fewer kernels for the weights"),
    hue="idle-launch",
)
