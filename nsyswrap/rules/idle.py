"""The causes of idle time: what the launching thread did while a GPU was idle, in the order of their codes."""

from nsyswrap.rules.code import (
    COMPILED,
    FEWER_THREADS,
    IN_BACKGROUND,
    KEPT_MEMORY,
    NO_WAITS,
    PINNED,
    PYTORCH,
    WORKERS,
    CodeChange,
)
from nsyswrap.rules.cuda_advice import (
    ALLOCATE_ONCE,
    ALLOCATE_ONCE_BY_KIND,
    COPY_PINNED,
    COPY_PINNED_BY_KIND,
    WAIT_LESS,
    WAIT_LESS_BY_KIND,
)
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Group, Rule

NOT_TRACED = Rule(
    key="idle/not_traced",
    name="not traced",
    headline="For {share} of the time the capture cannot show what ran.",
    advice="Capture again: with --cuda-graph-trace=node if the program launches CUDA graphs. Use an nsys "
    "at least as new as the CUDA driver, since an older one loses launch calls.",
    can_save=False,
    meaning="The capture does not show what ran.",
    group=Group.UNKNOWN,
)
QUEUED = Rule(
    key="idle/queued",
    name="queued work",
    headline="Operations were launched but had not begun for {share} of the time.",
    advice="Look at dependencies between streams and at launch latency in the timeline.",
    fixed="if operations began at once",
    meaning="The next operation was launched and had not begun.",
    hue="idle-launch",
)
LAUNCH = Rule(
    key="idle/launch",
    tried_with=("cuda_graphs", "compile"),
    name="CUDA launch calls",
    headline="The GPU waits {share} of the time for launch calls: its kernels are too short.",
    advice=Wording(
        "Launch less: CUDA graphs or torch.compile, a fused optimizer (fused=True), a larger batch.",
        "Launch less: fuse small kernels, give each more work, or use CUDA graphs.",
        jax="Launch less: more of the step under one jax.jit, so that XLA fuses it. XLA's command buffers are "
        "CUDA graphs.",
        server="Launch less: let the engine use CUDA graphs (vLLM: without --enforce-eager), and batch more requests.",
        openacc="Launch less: merge small regions, collapse loops so that each kernel does more, and queue regions "
        "with async.",
    ),
    code=COMPILED,
    fixed="with CUDA graphs",
    meaning="A CUDA launch call was open.",
    hue="idle-launch",
)
PROFILER = Rule(
    key="idle/profiler",
    name="profiler overhead",
    headline="The profiler itself accounts for {share} of the time as idle GPU.",
    advice="The program alone is faster: the section on the profiler's own cost has its step. nsyswrap "
    "profile --light records less, and --baseline measures the step without nsys.",
    can_save=False,
    meaning="nsys recorded a call, by the measured cost, or did work of its own.",
    group=Group.PROFILER,
)
OF_LIBRARIES = Advice(
    headline="The GPU is idle for {share} of the time while the program opens libraries.",
    advice=Wording(
        "Open a library once and keep its handle: ctypes.CDLL opens it again at each call, also for a "
        "kernel that torch.cuda compiles from source.",
        "Open a library once and keep its handle (dlopen).",
    ),
    code=(
        CodeChange(
            PYTORCH,
            'library = ctypes.CDLL("libown.so")  # once, before the loop\n'
            "for batch in loader:\n"
            "    library.work(argument)",
        ),
    ),
)
OF_FIRST_LAUNCHES = Advice(
    headline="The GPU is idle for {share} of the time while CUDA loads kernels at their first launch.",
    advice="Launch each kernel once, to warm up, before the part that counts. Where loading in that part "
    "hurts all the same, set CUDA_MODULE_LOADING=EAGER: CUDA then loads everything at the start, not "
    "at the first launch.",
)
MODULE_LOAD = Rule(
    key="idle/module_load",
    name="loading or compiling code",
    headline="The GPU is idle for {share} of the time while modules are loaded or code is compiled.",
    advice="Warm up before measuring. Set CUDA_MODULE_LOADING=EAGER to load everything before the first step.",
    cases=(
        OF_LIBRARIES,
        OF_FIRST_LAUNCHES,
    ),
    code=(CodeChange(PYTORCH, 'os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # before the first CUDA call'),),
    fixed="if everything were loaded before",
    meaning="Code was loaded or compiled.",
    hue="idle-setup",
)
ALLOCATION = Rule(
    key="idle/allocation",
    tried_with=("allocator",),
    name="memory allocation",
    headline="The GPU is idle for {share} of the time while memory is allocated or freed.",
    advice=Wording(
        "Keep shapes stable so that the caching allocator can reuse blocks. Allocate before the loop. Try "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        ALLOCATE_ONCE,
        **ALLOCATE_ONCE_BY_KIND,
    ),
    code=KEPT_MEMORY,
    fixed="without allocations in the step",
    meaning="Memory was allocated, freed or registered.",
    hue="idle-setup",
)
BLOCKING_COPY = Rule(
    key="idle/blocking_copy",
    tried_with=("non_blocking", "pin_memory"),
    name="blocking copies",
    headline="The GPU is idle for {share} of the time while the host is blocked in a copy.",
    advice=Wording(
        "Copy from pinned memory without blocking: pin_memory=True and tensor.to(device, non_blocking=True).",
        COPY_PINNED,
        **COPY_PINNED_BY_KIND,
    ),
    code=PINNED,
    fixed="if copies did not block",
    meaning="The CPU was blocked in a copy call.",
    hue="idle-wait",
    group=Group.COPIES,
)
SYNCHRONIZATION = Rule(
    key="idle/synchronization",
    name="synchronization",
    headline="The GPU is idle for {share} of the time because the host waits for it in a synchronizing call.",
    advice=Wording(
        "Keep .item(), .cpu(), print(loss) and torch.cuda.synchronize() out of the step. Log every n steps.",
        WAIT_LESS,
        **WAIT_LESS_BY_KIND,
    ),
    code=NO_WAITS,
    fixed="without waits for the GPU",
    meaning="The CPU was blocked in a synchronize call.",
    hue="idle-wait",
)
PEER_WAIT = Rule(
    key="idle/peer_wait",
    name="waiting for other ranks",
    headline="The GPU is idle for {share} of the time while the launching thread is in {library}, which waits "
    "for other ranks.",
    advice="Profile all ranks: the one that spends least time in these calls is the late one. Where all wait "
    "alike, the messages take the time. Start them before the kernels that do not need them "
    "(MPI_Isend, MPI_Iallreduce), and wait after these. Give a CUDA-aware MPI the memory of the GPU "
    "instead of copies on the host.",
    fixed="without waits for other ranks",
    meaning="The CPU was in a call of MPI or UCX, which waits for other ranks.",
    group=Group.COMMUNICATION,
    without_gpu="The training loop waits for other ranks {share} of the time.",
)
DATA_WAIT = Rule(
    key="idle/data_wait",
    tried_with=("workers", "prefetch"),
    name="data loader wait",
    headline=Wording(
        "The GPU waits for data {share} of the time: the data loader is too slow.",
        "The GPU waits for data {share} of the time.",
        server="The GPU starves for {share} of the time while the engine waits for requests, or for another of "
        "its processes.",
    ),
    advice=Wording(
        "Give the DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True and a "
        "larger prefetch_factor, or make the transform cheaper.",
        "Read and prepare the next data in threads or processes of their own while the GPU computes, "
        "enough of them to keep up, or make the preparation cheaper.",
        server="Profile it under the load of a real service: more requests at once. Where they wait all the same, "
        "the processes before the engine (HTTP, tokenizer) hold them up: give these more cores, or run "
        "more of them.",
        jax="Prefetch: more workers and a larger buffer in tf.data or grain, and the next batch on the device "
        "(jax.device_put) while this step runs.",
    ),
    code=WORKERS,
    fixed=Wording("if the data loader kept up", "if its data came in time", server="if requests came in time"),
    meaning="The CPU waited for the data loader.",
    hue="idle-data",
    group=Group.LOADER,
    keeps_rank=Wording("its data loader", "its data"),
)
DATA_WORK = Rule(
    key="idle/data_work",
    tried_with=("workers", "prefetch"),
    name="data loading in the training process",
    headline=Wording(
        "The GPU starves for {share} of the time while the training process prepares the data itself.",
        "The GPU starves for {share} of the time while the launching thread prepares the data itself.",
    ),
    advice=Wording(
        "Load in the background: DataLoader(num_workers=4, pin_memory=True, persistent_workers=True). With "
        "workers already there, move collating and unpacking into them.",
        "Prepare the next data in another thread or process while the GPU computes on this one.",
        jax="Load in the background: tf.data or grain with workers and prefetch, and the next batch on the "
        "device (jax.device_put) while this step runs.",
    ),
    code=WORKERS,
    fixed=Wording("if worker processes prepared the data", "if the data were prepared before"),
    meaning="The training process loaded or prepared data.",
    hue="idle-data",
    group=Group.LOADER,
    keeps_rank=Wording("it prepares its data in the training process", "it prepares its data itself"),
)
# Source: torch/utils/data/_utils/pin_memory.py. A batch that a loader process sent is freed there, with the GIL held.
FREED_BATCHES = Advice(
    headline="The GPU is idle for {share} of the time while the thread that pins batches holds the GIL.",
    advice="Send smaller batches: bytes or integers, which the GPU converts and normalizes. The thread holds the GIL "
    "while it frees a batch of a loader process (munmap).",
    code=(
        CodeChange(
            PYTORCH,
            "image = torch.from_numpy(pixels)  # in the dataset: uint8, not float\n"
            "\n"
            "batch = batch.to(device, non_blocking=True)  # in the step\n"
            "batch = (batch.float() - mean) / deviation",
        ),
    ),
)
LOCK = Rule(
    key="idle/lock",
    name="waiting for a lock",
    headline=Wording(
        "The GPU is idle for {share} of the time while the launching thread waits for the GIL or a lock.",
        "The GPU is idle for {share} of the time while the launching thread waits for a lock.",
    ),
    advice=Wording(
        "Move Python work of other threads into processes (DataLoader workers instead of threads).",
        "Find what holds the lock: the evidence names the call. Hold it for shorter, give each thread data "
        "of its own, or launch from one thread.",
        jax="Move Python work of other threads into processes: threads of Python share one lock, the GIL.",
        server="Move work of other threads (tokenizing, HTTP) into processes of its own: threads of Python share "
        "one lock, the GIL.",
    ),
    cases=(FREED_BATCHES,),
    code=(
        CodeChange(
            PYTORCH,
            "from concurrent.futures import ProcessPoolExecutor\n"
            "\n"
            "others = ProcessPoolExecutor(1)  # a process has a GIL of its own\n"
            "waiting = others.submit(work, argument)\n"
            "train(batch)\n"
            "result = waiting.result()  # where the step needs it",
        ),
    ),
    fixed="without waits for locks",
    meaning="The CPU waited for the GIL or another lock.",
    hue="idle-cpu",
)
OWN_THREADS = Advice(
    advice=Wording(
        "The program's own threads are more than its cores. Set OMP_NUM_THREADS and torch.set_num_threads "
        "lower, use fewer loader workers, or give the program more cores.",
        "The program's own threads are more than its cores: set OMP_NUM_THREADS lower, or give the program more cores.",
    ),
    code=FEWER_THREADS,
)
OTHER_PROGRAMS = Advice(
    advice="Other programs use the cores. Give this one cores of its own (taskset, cpuset, the CPU request of "
    "the container), or move the others away."
)
OFF_CPU = Rule(
    key="idle/off_cpu",
    tried_with=("threads",),
    name="off the CPU",
    headline="The GPU is idle for {share} of the time because the launching thread waits for a CPU core.",
    advice=Wording(
        "Free CPU cores: fewer workers, torch.set_num_threads, or pin the process to cores of its own.",
        "Free CPU cores: fewer threads (OMP_NUM_THREADS), or pin the process to cores of its own.",
    ),
    cases=(
        OWN_THREADS,
        OTHER_PROGRAMS,
    ),
    fixed="with enough CPU cores",
    meaning="The thread was off the CPU or waited for a core.",
    hue="idle-cpu",
    without_gpu="The training loop waits {share} of the time for a CPU core.",
)
GARBAGE_COLLECTION = Rule(
    key="idle/garbage_collection",
    tried_with=("gc",),
    name="garbage collection",
    headline="The GPU is idle for {share} of the time while Python collects garbage.",
    advice="Take gc.collect() out of the step. Call gc.collect() and gc.freeze() once before the loop. Or "
    "gc.disable(), and collect every n steps.",
    code=(
        CodeChange(
            PYTORCH,
            "gc.collect()\n"
            "gc.freeze()\n"
            "gc.disable()\n"
            "for step, batch in enumerate(loader):\n"
            "    train(batch)\n"
            "    if step % 1000 == 0:\n"
            "        gc.collect()",
        ),
    ),
    fixed="without garbage collection in the step",
    meaning="Python collected garbage.",
    hue="idle-cpu",
    without_gpu="The training loop collects garbage {share} of the time.",
)
WRITES = Advice(
    headline="The GPU is idle {share} of the time: its thread reads or writes a file, pipe or terminal.",
    advice="The capture does not show what {call} writes to. A terminal or a pipe makes it wait for its "
    "reader: print less often (a progress bar, too), or send the output to a file. If it writes a "
    "file, write less often or in another thread or process, or use a faster disk.",
)
READS = Advice(
    headline="The GPU is idle {share} of the time: its thread reads or writes a file, pipe or terminal.",
    advice="The capture does not show what {call} reads from. A pipe, a socket or a terminal makes it wait "
    "for the other side. Read in another thread, before the step needs the answer. If it reads a file, "
    "read it in another thread or process, keep it in memory, or use a faster disk.",
)
SYNCS = Advice(
    advice="{call} waits until the disk has written. Call it less often or in another thread, or use a faster disk."
)
FILE_IO = Rule(
    key="idle/file_io",
    name="file reads and writes",
    headline="The GPU is idle for {share} of the time while the launching thread reads or writes files.",
    advice="Move reading and writing files to another thread or process, do it less often, or use a faster disk.",
    cases=(
        WRITES,
        READS,
        SYNCS,
    ),
    code=IN_BACKGROUND,
    fixed="without file reads and writes",
    meaning="Files were read or written outside of data loading.",
    hue="idle-data",
    group=Group.LOADER,
    without_gpu="The training loop reads or writes files {share} of the time.",
    keeps_rank="it reads or writes files",
)
LAUNCH_LESS = Advice(
    advice=Wording(
        "Give the GPU more work per launch: a larger batch, torch.compile(model), or CUDA graphs "
        '(torch.compile(mode="reduce-overhead")). Move CPU work out of the step.',
        "Give the GPU more work per launch: larger kernels, fused ones, or CUDA graphs. Move CPU work out of the loop.",
        jax="Give the GPU more work per launch: more of the step under one jax.jit, a larger batch. Move CPU "
        "work out of it.",
        server="Give the GPU more work per launch: batch more requests, and let the engine use CUDA graphs (vLLM: "
        "without --enforce-eager).",
        openacc="Give the GPU more work per launch: merge small regions and collapse loops. Queue regions with async.",
    ),
    code=COMPILED,
)
CPU = Rule(
    key="idle/cpu",
    name="CPU outside CUDA calls",
    headline=Wording(
        "The GPU waits {share} of the time for Python and other CPU code outside CUDA calls.",
        "The GPU waits {share} of the time for CPU code outside CUDA calls.",
    ),
    advice=Wording(
        "Find what the CPU does in the step (nsyswrap profile --python-sampling shows its Python line). "
        "Move it out of the step or into another process.",
        "Find what the CPU does between the launches (samples of its call stacks in Nsight Systems show "
        "it), and move it out of the loop, into another thread, or to the GPU.",
        jax="Find what the CPU does between the steps (nsyswrap profile --python-sampling shows its Python "
        "line), and move it out of the loop, or under jax.jit.",
        server="The engine's own work between steps (scheduling, sampling, turning tokens into text) sets the "
        "pace. Let it prepare the next step while this one runs (vLLM: --async-scheduling), batch more "
        "requests, and give it cores of its own.",
    ),
    cases=(LAUNCH_LESS,),
    fixed="with less CPU work between launches",
    meaning="The CPU ran code outside CUDA calls.",
    hue="idle-cpu",
    for_late_rank=Wording(
        "Look at what this rank's host does then (nsyswrap profile --python-sampling). Move it out of the "
        "step, or into another process. Log and check on one rank only every n steps.",
        "Look at what this rank's host does then (samples of its call stacks in Nsight Systems show it). "
        "Move it out of the step, or into another thread. Log and check on one rank only every n steps.",
    ),
)
STILL_UNKNOWN = Advice(advice="Capture again with --sample-cpu, and with NVTX ranges around the phases.")
UNKNOWN = Rule(
    key="idle/unknown",
    name="unknown cause",
    headline="For {share} of the time the GPU is idle and the capture cannot show why.",
    advice="Capture again with osrt among the traces, with --sample-cpu, and with NVTX ranges around the phases.",
    can_save=False,
    cases=(STILL_UNKNOWN,),
    meaning="The capture does not show the cause.",
    group=Group.UNKNOWN,
)
