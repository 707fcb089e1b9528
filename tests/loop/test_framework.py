"""What kind of program a capture is of, by its kernels, ranges, threads, libraries and processes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from export_builder import MAIN, PROCESS, ExportBuilder, global_id, thread, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.rules.program_kind import Framework, ProgramKind
from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import redact
from nsyswrap.trace.tables import Trace

ATEN = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, float*)"
FUSION = "loop_add_multiply_fusion"
VLLM = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, int)"
OWN = "vecAdd(float*, float*, float*, int)"


def program(kernel: str, process: str = "", **columns: int) -> ExportBuilder:
    """Return a capture of one kernel of a process with this path."""
    built = ExportBuilder().gpu().kernel(10, 20, kernel, launched=(0, 5), **columns)
    return built.row("PROCESSES", globalPid=PROCESS, pid=4711, name=process) if process else built


def kind(trace: Trace) -> ProgramKind:
    return find_context(trace).program_kind


@pytest.mark.parametrize(
    ("kernel", "process", "framework"),
    [
        (ATEN, "", Framework.PYTORCH),
        (ATEN, "/usr/bin/python3.11", Framework.PYTORCH),
        (ATEN, "/opt/app/libtorch_server", Framework.OTHER),
        (FUSION, "/usr/bin/python3", Framework.JAX),
        (VLLM, "/usr/bin/python3", Framework.SERVER),
        (OWN, "VLLM::EngineCore", Framework.SERVER),
        (ATEN, "/opt/tritonserver/bin/tritonserver", Framework.SERVER),
        (OWN, "/home/u/vectoradd", Framework.OTHER),
        (OWN, "/usr/bin/python3", Framework.UNKNOWN),
        (OWN, "", Framework.UNKNOWN),
        ("cupy_add__float32_float32_float32", "/usr/bin/python3", Framework.OTHER),
        ("solve_42_gpu", "/home/u/solver", Framework.OPENACC),
        ("nvkernel_MAIN__F1L20_4_", "/home/u/solver", Framework.OPENACC),
    ],
)
def test_kernels_and_the_process_show_the_kind(kernel: str, process: str, framework: Framework) -> None:
    assert kind(trace_of(program(kernel, process))).framework is framework


@pytest.mark.parametrize(
    "marked",
    [
        lambda built: built.range("aten::add, op_id = 3", 0, 5),
        lambda built: built.domain("nsyswrap", 3).range("forward", 0, 5, domain=3),
        lambda built: built.thread_name(thread(4712), "pt_autograd_0"),
    ],
)
def test_ranges_and_threads_show_pytorch(marked: Callable[[ExportBuilder], ExportBuilder]) -> None:
    assert kind(trace_of(marked(program(OWN, "/usr/bin/python3")))).framework is Framework.PYTORCH


def test_the_ranges_of_xla_show_jax() -> None:
    built = program(OWN, "/usr/bin/python3").domain("TSL", 3).range("XlaModule:#hlo_module=jit_step#", 0, 5, domain=3)
    assert kind(trace_of(built)).framework is Framework.JAX


def test_the_runtime_of_openacc_shows_openacc() -> None:
    built = program(OWN, "/home/u/solver")
    built.row("CUPTI_ACTIVITY_KIND_OPENACC_OTHER", start=0, end=5, thread=MAIN, eventKind=9)
    assert kind(trace_of(built)).framework is Framework.OPENACC


def test_a_program_that_trains_is_no_server() -> None:
    """It generates with kernels of vLLM between its steps."""
    built = program(VLLM, "/usr/bin/python3").kernel(30, 40, ATEN, launched=(25, 26))
    built.thread_name(thread(4712), "pt_autograd_0")
    assert kind(trace_of(built)).framework is Framework.PYTORCH


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        (("/home/u/solver", "--python"), Framework.OTHER),
        (("mpirun", "-np", "4", "python3", "train.py"), Framework.UNKNOWN),
        (("mpirun", "-np", "4", "./solver"), Framework.UNKNOWN),
        (("tritonserver", "--model-repository", "x"), Framework.SERVER),
    ],
)
def test_the_command_counts_where_no_process_is_named(command: tuple[str, ...], framework: Framework) -> None:
    """A program that starts others says nothing of them."""
    assert kind(trace_of(program(OWN).command(*command))).framework is framework


def test_the_main_thread_has_the_name_of_the_program() -> None:
    assert kind(trace_of(program(OWN).thread_name(MAIN, "solver"))).framework is Framework.OTHER


def test_processes_without_cuda_say_nothing() -> None:
    built = program(OWN).row("PROCESSES", globalPid=global_id(5000), pid=5000, name="tritonserver")
    assert kind(trace_of(built)).framework is Framework.UNKNOWN


@pytest.mark.parametrize("process", ["/usr/bin/python3.11", "/home/ann/solver", "/opt/tritonserver/bin/tritonserver"])
def test_a_redacted_export_is_of_the_same_kind(process: str, tmp_path: Path) -> None:
    """The name of the program itself is not kept."""
    whole = program(OWN, process).write(tmp_path / "whole.sqlite")
    redact(whole, tmp_path / "shared.sqlite")
    assert kind(load_export(tmp_path / "shared.sqlite")) == kind(load_export(whole))
    assert b"solver" not in (tmp_path / "shared.sqlite").read_bytes()


def test_calls_of_mpi_show_a_program_without_pytorch() -> None:
    """PyTorch shows by its own kernels, also where MPI starts its ranks."""
    for kernel, framework in ((OWN, Framework.OTHER), (ATEN, Framework.PYTORCH)):
        built = program(kernel)
        text = built.string("MPI_Allreduce")
        built.row("MPI_COLLECTIVES_EVENTS", start=30, end=40, thread=MAIN, textId=text)
        assert kind(trace_of(built)).framework is framework


@pytest.mark.parametrize(("calls", "framework"), [(3, Framework.UNKNOWN), (4, Framework.OTHER)])
def test_a_launching_thread_that_waits_for_requests_is_of_a_server(calls: int, framework: Framework) -> None:
    """A loader's batch comes by `poll`, and other threads may wait for anything."""
    built = program(OWN, "/usr/bin/python3")
    for at in range(calls):
        built.os_call("epoll_wait", 100 * at, 100 * at + 50)
        built.os_call("epoll_wait", 100 * at, 100 * at + 50, thread=thread(99)).os_call("poll", 100 * at, 100 * at + 5)
    assert kind(trace_of(built)).framework is framework
