"""What kind of program a capture is of, by the names of its kernels, ranges, threads, libraries and processes."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from nsyswrap.events.api_calls import MPI, library_of
from nsyswrap.events.host_record import injected
from nsyswrap.events.kernel_names import KernelNames
from nsyswrap.events.operations import Operations, launch_rows
from nsyswrap.loop.injected_ranges import of_operators
from nsyswrap.loop.work_sequence import REQUEST
from nsyswrap.rules.program_kind import Framework, ProgramKind
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# Libraries of kernels, as the rules of ``hardware`` name them, that one framework alone launches.
_OF_PYTORCH = frozenset({"pytorch", "pytorch_memeff", "inductor", "torchvision", "torchaudio", "apex", "fbgemm"})
_OF_SERVERS = frozenset({"vllm", "sglang", "tensorrt_llm"})
_OF_OTHERS = frozenset({"tensorflow", "mxnet", "paddle", "cupy", "llama.cpp", "onnxruntime"})
_OF_JAX = "xla"
# What the compiler of OpenACC and OpenMP calls the kernels of a region. Source: public profiles on GitHub.
_REGION = re.compile(r"^(?:nvkernel_\w+|\w+_\d+_gpu(?:__red)?$)")
# The domain in which XLA marks its modules and thunks. Source: openxla/xla, xla/tsl/profiler/lib/nvtx_utils.cc.
_XLA_DOMAIN = "TSL"
# Threads of PyTorch. Source: torch/csrc/autograd/engine.cpp and torch/utils/data/_utils.
_TORCH_THREAD = re.compile(r"pt_(?:autograd|data|main|nccl|tcpstore)")
_SERVER = re.compile(r"VLLM|vllm|sglang|tritonserver|trtllm|text-generation|lmdeploy")
_PYTHON = re.compile(r"python|pt_main|ray::|torchrun|ipython|jupyter|uvicorn|gunicorn|deepspeed|accelerate")
# Programs that start others, so that their names say nothing.
_STARTER = re.compile(r"(?:mpirun|mpiexec|srun|orterun|prterun|env|bash|sh|dash|sudo|numactl|taskset|nsys|time)$")

# So many waits for requests are those of a loop. Source: as many steps as a pattern needs.
LEAST_REQUESTS = 4


def find_program_kind(trace: Trace, operations: Operations, kernel_names: KernelNames) -> ProgramKind:
    """Return the kind of the program of a trace.

    The first of these that shows it decides::

        name of the process     an inference engine: vLLM::EngineCore, tritonserver
        kernels                 those of vLLM, SGLang or TensorRT-LLM, with no thread of autograd
        calls of OpenACC        recorded by nsys, or kernels with the names of its regions
        kernels, ranges,        at::native..., aten::add, pt_autograd_0: PyTorch
        threads                 loop_add_fusion, the domain of XLA: JAX
        kernels                 those of other frameworks
        name of the process,    not Python, with calls of MPI, or with waits for requests: C++, Fortran, a server
        calls
    """
    graphs = bool(len(launch_rows(trace)) or len(trace[tables.GRAPHS]))
    return ProgramKind(_framework(trace, operations, kernel_names), graphs)


def _framework(trace: Trace, operations: Operations, kernel_names: KernelNames) -> Framework:
    names, libraries = _names(trace, operations), {each.library for each in kernel_names.kinds}
    threads, ranges = set(trace[tables.THREADS]["name"].astype(str)), trace[tables.RANGES]
    is_torch = bool(libraries & _OF_PYTORCH or of_operators(ranges).any() or injected(ranges).any())
    is_torch |= any(map(_TORCH_THREAD.match, threads))
    library_calls = [trace.text(each) for each in coded(trace[tables.LIBRARY_CALLS], "name_id").ids.tolist()]
    trains = any(each.startswith("pt_autograd") for each in threads)
    if any(map(_SERVER.search, names)) or (libraries & _OF_SERVERS and not trains):
        return Framework.SERVER
    calls_openacc = any(each.startswith("OpenACC") for each in library_calls)
    if calls_openacc or any(_REGION.match(each.name) for each in kernel_names.kinds):
        return Framework.OPENACC
    is_python = any(map(_PYTHON.search, names))
    if is_torch and (is_python or not names):
        return Framework.PYTORCH
    marked_by_xla = _XLA_DOMAIN in set(ranges["domain"].cat.categories)
    if _OF_JAX in libraries or marked_by_xla:
        return Framework.OTHER if "tensorflow" in libraries else Framework.JAX
    if libraries & _OF_OTHERS:
        return Framework.OTHER
    calls_mpi = any(library_of(each) == MPI for each in library_calls)
    is_other = (names and not is_python) or calls_mpi or _answers_requests(trace, operations)
    return Framework.OTHER if is_other else Framework.UNKNOWN


def _names(trace: Trace, operations: Operations) -> list[str]:
    """Return the names of the processes that used CUDA, without folders; none where the capture does not show them."""
    used = set(tables.distinct(operations.process).tolist())
    used |= set(tables.process_of(coded(trace[tables.CALLS], "thread").ids).tolist())
    # The system names main threads after the program.
    main = {process | tables.pid(process) for process in used}
    names = [*_named(trace[tables.PROCESSES], "process", used), *_named(trace[tables.THREADS], "thread", main)]
    words = [word.rpartition("/")[2] for word in trace.session.command]
    if not names:
        # Only the program itself counts: the arguments of a program in C++ may name anything.
        names = [word for word in words[:1] if not _STARTER.match(word)] or [w for w in words if _PYTHON.match(w)][:1]
    return [name for name in names if name]


def _named(frame: pd.DataFrame, column: str, used: set[int]) -> Iterator[str]:
    mine = np.isin(array(frame, column), list(used))
    yield from (str(each).rpartition("/")[2] for each in frame["name"][mine])


def _answers_requests(trace: Trace, operations: Operations) -> bool:
    """Return whether the threads that launch wait for requests, as those of a server do."""
    threads = coded(trace[tables.OS_CALLS], "thread")
    waits = tables.rows_named(trace, tables.OS_CALLS, REQUEST.fullmatch)
    return int((waits & threads.among(np.isin(threads.ids, operations.launching_threads))).sum()) >= LEAST_REQUESTS
