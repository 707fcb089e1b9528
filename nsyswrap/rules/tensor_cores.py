"""Rules on tensor cores."""

from nsyswrap.rules.code import CHANNELS_LAST, LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

COUNTER_DISAGREES = Rule(key="tensor_cores/counter_disagrees", name="tensor-core counter against kernel names")
LAYOUT = Rule(
    key="tensor_cores/layout",
    tried_with=("channels_last",),
    name="memory layout conversions",
    headline="Kernels that only change the layout of tensors take {share} of the time.",
    advice=Wording(
        "Keep images in channels-last layout: model.to(memory_format=torch.channels_last), and the same "
        "for each batch. Convolutions then use them without a conversion.",
        "Keep images in the layout NHWC from the start: convolutions then use them without a conversion.",
    ),
    code=CHANNELS_LAST,
    fixed="with channels last",
)
NOT_USED = Rule(
    key="tensor_cores/not_used",
    tried_with=("tf32", "autocast"),
    name="matrix work without tensor cores",
    code=(
        CodeChange(
            PYTORCH,
            'torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32\n'
            'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
            "    loss = criterion(model(inputs), targets)",
        ),
        CodeChange(LIGHTNING, 'trainer = Trainer(precision="bf16-mixed")'),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(bf16=True, tf32=True)"),
    ),
    fixed="on tensor cores",
    drawn_as=("stream", "simt_eligible"),
)
