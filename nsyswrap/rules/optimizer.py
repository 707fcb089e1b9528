"""Rules on the optimizer."""

from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

MANY_KERNELS = Rule(
    key="optimizer/many_kernels",
    tried_with=("zero_grad", "foreach", "fused"),
    name="many small optimizer kernels",
    headline="The optimizer's many short kernels, and the waits between them, take {share} of the time.",
    advice=Wording(
        "Update all parameters together: fused=True, or foreach=True where an optimizer has no fused form, "
        "as in torch.optim.AdamW(parameters, fused=True).",
        "Update all parameters together, in one kernel or a few.",
        jax="Update all parameters together: the whole update under the jax.jit of the step, so that XLA fuses it.",
    ),
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
