"""Rules on communication between GPUs."""

from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.rule import Group, Rule

EXPOSED = Rule(
    key="communication/exposed",
    tried_with=("bucket_size", "bucket_view", "static_graph"),
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
EACH_MICROBATCH = Rule(
    key="communication/each_microbatch",
    name="gradients summed in each microbatch",
    headline="Ranks sum their gradients after each of {passes} microbatches of a step; once is enough.",
    advice="Accumulate the gradients on each rank, and let only the last microbatch communicate: no_sync() around the "
    "passes of all others.",
    code=(
        CodeChange(
            PYTORCH,
            "for number, (inputs, targets) in enumerate(microbatches):\n"
            "    is_last = number == len(microbatches) - 1\n"
            "    with contextlib.nullcontext() if is_last else model.no_sync():\n"
            "        criterion(model(inputs), targets).backward()",
        ),
    ),
    fixed="if only the last microbatch communicated",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
UNUSED_PARAMETERS = Rule(
    key="communication/unused_parameters",
    name="search for unused parameters",
    headline="DistributedDataParallel searches each step for unused parameters, and no rank had any.",
    advice="Leave find_unused_parameters=True out. Each backward pass then skips the search on the host, a copy and an "
    "all-reduce.",
    code=(
        CodeChange(PYTORCH, "model = DistributedDataParallel(model)  # find_unused_parameters=False is the default"),
    ),
    fixed="without the search for unused parameters",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
BUFFERS = Rule(
    key="communication/buffers",
    name="buffers broadcast in each forward pass",
    headline="Each forward pass begins with a broadcast of the model's buffers from the first rank.",
    advice="Give DistributedDataParallel broadcast_buffers=False, where ranks may keep their own running statistics. "
    "The first rank's are those of a checkpoint either way.",
    code=(CodeChange(PYTORCH, "model = DistributedDataParallel(model, broadcast_buffers=False)"),),
    fixed="without the broadcast of buffers",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
_BUCKETS = (CodeChange(PYTORCH, "model = DistributedDataParallel(model, bucket_cap_mb=25)"),)
SMALL_BUCKETS = Rule(
    key="communication/small_buckets",
    name="small gradient buckets",
    headline="Gradients are summed in {count} small buckets a pass, and each costs a launch and a latency.",
    advice="Let a bucket hold 25 MiB, as is the default. Leave bucket_cap_mb out, or set it to 25.",
    code=_BUCKETS,
    fixed="with buckets of 25 MiB",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
LARGE_BUCKETS = Rule(
    key="communication/large_buckets",
    name="large gradient buckets",
    headline="A gradient bucket holds {size}, so most of it is sent only when the backward pass is over.",
    advice="Let a bucket hold 25 MiB, as is the default: leave bucket_cap_mb out, or set it to 25. Then gradients are "
    "sent while the backward pass goes on.",
    code=_BUCKETS,
    fixed="with buckets of 25 MiB",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
LATE_GATHERS = Rule(
    key="communication/late_gathers",
    name="weights gathered too late",
    fixed="if weights were gathered one layer ahead",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
DATA_PARALLEL = Rule(
    key="communication/data_parallel",
    name="one process for all GPUs",
    headline="One process drives {gpus} GPUs: it copies the weights to all of them in each step, and launches for all.",
    advice="Use DistributedDataParallel, started by torchrun with a process for each GPU, instead of nn.DataParallel. "
    "Weights stay on the GPUs, and each process launches for its own.",
    code=(
        CodeChange(
            PYTORCH,
            'torch.distributed.init_process_group("nccl")  # start with torchrun --nproc-per-node\n'
            'rank = int(os.environ["LOCAL_RANK"])\n'
            "model = DistributedDataParallel(model.to(rank), device_ids=[rank])",
        ),
    ),
    fixed="with a process for each GPU",
    drawn_as=("gpu", "communication"),
    group=Group.COMMUNICATION,
)
