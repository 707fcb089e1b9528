"""Rules on communication between GPUs."""

from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.rule import Rule

EXPOSED = Rule(
    key="communication/exposed",
    name="exposed communication",
    code=(
        CodeChange(
            PYTORCH,
            "model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)\n"
            "with model.no_sync():  # where gradients accumulate: only the last pass communicates\n"
            "    criterion(model(inputs), targets).backward()",
        ),
        CodeChange(
            LIGHTNING, "trainer = Trainer(strategy=DDPStrategy(bucket_cap_mb=25, gradient_as_bucket_view=True))"
        ),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(ddp_bucket_cap_mb=25)"),
    ),
    fixed="if the communication overlapped with kernels",
    drawn_as=("gpu", "communication"),
)
SLOW_LINKS = Rule(
    key="communication/slow_links",
    name="slow links between GPUs",
    fixed="with faster links",
    drawn_as=("gpu", "communication"),
)
