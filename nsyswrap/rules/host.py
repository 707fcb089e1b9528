"""Rules on what the launching thread does or waits for, besides launching."""

from nsyswrap.rules.code import FEWER_THREADS, IN_BACKGROUND, LIGHTNING, PYTORCH, TRANSFORMERS, WORKERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Group, Rule

CHECKPOINT = Rule(
    key="host/checkpoint",
    name="checkpoints",
    headline="The GPU is idle for {share} of the time while the step writes or reads a checkpoint.",
    advice="Save in the background: copy the state to the host and write it in another thread or process "
    "(torch.distributed.checkpoint.async_save). Save less often. Let one rank save.",
    code=(
        CodeChange(
            PYTORCH,
            "from torch.distributed.checkpoint import async_save\n"
            "\n"
            'saving = async_save({"model": model.state_dict()}, checkpoint_id=f"step-{step}")\n'
            "saving.result()  # before the next checkpoint",
        ),
        CodeChange(
            LIGHTNING,
            "from lightning.pytorch.plugins.io import AsyncCheckpointIO\n"
            "\n"
            "trainer = Trainer(plugins=[AsyncCheckpointIO()])",
        ),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(save_steps=1000)  # less often"),
    ),
    fixed="without checkpoints in the step",
    hue="idle-cpu",
    without_gpu="The training loop writes or reads checkpoints {share} of the time.",
)
CPU_QUOTA = Rule(
    key="host/cpu_quota",
    name="CPU quota used up",
    headline="The GPU is idle for {share} of the time because the program used up its CPU quota and was stopped.",
    advice=Wording(
        "Raise the CPU limit of the container, or use fewer threads: OMP_NUM_THREADS, "
        "torch.set_num_threads, fewer loader workers.",
        "Raise the CPU limit of the container, or use fewer threads: OMP_NUM_THREADS.",
    ),
    code=FEWER_THREADS,
    fixed="without the CPU quota",
    hue="idle-cpu",
    without_gpu="The training loop is stopped {share} of the time because its CPU quota is used up.",
)
TOKENIZER = Rule(
    key="host/tokenizer",
    name="tokenizing in the step",
    headline="The GPU is idle for {share} of the time while the training process tokenizes text.",
    advice="Tokenize once before the training (datasets.map), or in the workers of the DataLoader. Use a fast "
    "tokenizer.",
    code=(
        CodeChange(
            PYTORCH,
            "def tokenize(rows):\n"
            '    return tokenizer(rows["text"], truncation=True)\n'
            "\n"
            "\n"
            "dataset = dataset.map(tokenize, batched=True, num_proc=8)  # once, before the training",
        ),
    ),
    fixed="if the text were tokenized before",
    hue="idle-cpu",
    group=Group.LOADER,
    without_gpu="The training loop tokenizes text {share} of the time.",
)
OUTSIDE_WAIT = Rule(
    key="host/outside_wait",
    name="waits for others in the step",
    headline="The GPU is idle for {share} of the time while the step waits for another process, the network or "
    "a timer.",
    advice="Take the wait out of the step: send requests and logs from another thread or process, ask for the "
    "next answer before this step needs it, and remove sleeps. Print less to a slow terminal. The "
    "evidence names the call.",
    code=IN_BACKGROUND,
    fixed="without waits for others",
    hue="idle-cpu",
    without_gpu="The training loop waits for another process, the network or a timer {share} of the time.",
)
UNTRACED_WAIT = Rule(
    key="host/untraced_wait",
    name="waits off the CPU",
    headline="The GPU is idle for {share} of the time: its thread waits in a call that was not recorded{range}.",
    advice="Capture again with osrt among the traces (--trace cuda,nvtx,osrt): it names the call that waits. "
    "Then take the wait out of the step, or begin it earlier.",
    fixed="without this wait",
    hue="idle-cpu",
)
FILE_READS = Rule(
    key="host/file_reads",
    name="file reads in the training process",
    headline=Wording(
        "The GPU starves for {share} of the time while the training process reads files for the next batch.",
        "The GPU starves for {share} of the time while the launching thread reads files.",
    ),
    advice=Wording(
        "Read in the background: DataLoader(num_workers=4, persistent_workers=True). Keep the files on a "
        "local disk or in memory, and read few large files instead of many small ones.",
        "Read in the background: in another thread, before the data is needed. Keep the files on a local "
        "disk or in memory, and read few large files instead of many small ones.",
    ),
    code=WORKERS,
    fixed=Wording("if worker processes read the files", "if the files were read before"),
    hue="idle-cpu",
    group=Group.LOADER,
    without_gpu="The training loop reads files for the next batch {share} of the time.",
)
PAGE_FAULTS = Rule(
    key="host/page_faults",
    name="waits for pages of memory",
    headline="The GPU is idle for {share} of the time while the step waits for pages of memory that are read "
    "from disk.",
    advice=Wording(
        "If the step reads a memory-mapped file (np.memmap, safetensors, Arrow), read it in loader "
        "workers, or the parts of a batch at once instead of page by page. If the machine swaps (VmSwap in "
        "/proc/PID/status), give the program more memory or use fewer workers.",
        "If it reads a memory-mapped file, read it in another thread before it is needed (MAP_POPULATE, "
        "madvise), in large parts instead of page by page. If the machine swaps (VmSwap in "
        "/proc/PID/status), give the program more memory.",
    ),
    code=WORKERS,
    fixed="if all pages were in memory",
    hue="idle-cpu",
    group=Group.LOADER,
    without_gpu="The training loop waits {share} of the time for pages of memory that are read from disk.",
)
