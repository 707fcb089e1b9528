"""Rules on the optimizer."""

from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Rule

BESIDE_FUSED = Advice(
    headline="Short kernels beside the fused optimizer, and the waits between them, take {share} of the time.",
    advice="The optimizer is fused; what runs after it handles tensors one by one, such as a moving average of the "
    "weights. Do it for all tensors together: torch._foreach_lerp_, or AveragedModel with get_ema_multi_avg_fn().",
    code=(
        CodeChange(
            PYTORCH,
            "from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn\n"
            "\n"
            "average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))\n"
            "average.update_parameters(model)  # after optimizer.step()",
        ),
    ),
)
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
    cases=(BESIDE_FUSED,),
    code=(
        CodeChange(PYTORCH, "optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)"),
        CodeChange(
            LIGHTNING,
            "def configure_optimizers(self):\n"
            "    return torch.optim.AdamW(self.parameters(), lr=self.rate, fused=True)",
        ),
        CodeChange(TRANSFORMERS, 'arguments = TrainingArguments(optim="adamw_torch_fused")'),
    ),
    fixed=Wording("with fewer optimizer kernels", "with fewer kernels for the weights"),
    hue="idle-launch",
)
