"""The nsys command lines for capture options."""

from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import options
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.inherited import Inherited
from nsyswrap.capture.locate import Capabilities, Nsys
from nsyswrap.capture.options import (
    Invocation,
    export_command,
    extra_environment,
    profile_invocation,
    session_command,
)
from nsyswrap.capture.run_dir import RunDir

OLD = Nsys(Path("/opt/old/nsys"), (2023, 4, 4, 54), "test")
NEW = Nsys(Path("/opt/new/nsys"), (2025, 3, 2, 0), "test")

WORK = RunDir(Path("/private/nsyswrap-x"), Inherited(tmpdir="/own/tmp"))

_BOTH = {
    "--capture-range",
    "--capture-range-end",
    "--cpuctxsw",
    "--cuda-graph-trace",
    "--cuda-memory-usage",
    "--delay",
    "--duration",
    "--gpu-metrics-frequency",
    "--kill",
    "--nvtx-capture",
    "--python-sampling",
    "--python-sampling-frequency",
    "--sample",
    "--session-new",
    "--trace",
    "--wait",
}
OLD_CAN = Capabilities(
    frozenset({"cuda", "nvtx", "cublas", "cudnn", "osrt"}),
    frozenset({*_BOTH, "--gpu-metrics-device"}),
    frozenset({"--lazy"}),
)
NEW_CAN = Capabilities(
    frozenset({"cuda", "nvtx", "cublas", "osrt", "python-gil"}),
    frozenset({*_BOTH, "--gpu-metrics-devices", "--pytorch"}),
    frozenset({"--lazy", "--include-json", "--include-blobs"}),
)


def built(nsys: Nsys = OLD, can: Capabilities = OLD_CAN, **fields: Any) -> Invocation:  # noqa: ANN401 - any option
    """Return the command line for some options, with a program of two words."""
    chosen = options(Path("/result"), "unused", **fields)
    return profile_invocation(chosen, nsys, can, WORK, ("prog", "--arg"))


def test_the_default_command_line() -> None:
    """By default a capture records traces and the kernels inside graphs, without sampling."""
    assert built().argv == (
        "/opt/old/nsys",
        "profile",
        "--trace=cuda,nvtx,cudnn,cublas,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        "--session-new=nsyswrap-x",
        "--kill=none",
        "--wait=primary",
        "--output=/private/nsyswrap-x/out/capture",
        *WORK.inner(("prog", "--arg")),
    )


def test_an_unknown_trace_is_left_out_with_a_note() -> None:
    """The others are recorded."""
    call = built(nsys=NEW, can=NEW_CAN)
    assert "--trace=cuda,nvtx,cublas,osrt" in call.argv
    assert call.notes == ("nsys 2025.3.2.0 cannot trace cudnn, so it is not in the capture",)


def test_extra_arguments_come_after_all_flags_and_before_the_program() -> None:
    """Nsys uses the last of two equal flags, and everything after the first plain word belongs to the program."""
    argv = built(nsys_args=("--sample=process-tree", "--stats=true")).argv
    inner = WORK.inner(("prog", "--arg"))
    assert argv[-len(inner) - 2 :] == ("--sample=process-tree", "--stats=true", *inner)


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"sample": "process-tree"}, ["--sample=process-tree"]),
        ({"context_switches": "system-wide"}, ["--cpuctxsw=system-wide"]),
        ({"delay_s": 2.5}, ["--delay=2.5"]),
        ({"delay_s": 1e9}, ["--delay=1000000000"]),
        ({"delay_s": 0.00001}, ["--delay=0.00001"]),
        ({"capture_range": "cudaProfilerApi"}, ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]),
        (
            {"capture_range": "epoch 3@train"},
            ["--capture-range=nvtx", "--nvtx-capture=epoch 3@train", "--capture-range-end=stop"],
        ),
        ({"cuda_graph": "graph"}, ["--cuda-graph-trace=graph"]),
        ({"python_sampling_hz": 500}, ["--python-sampling=true", "--python-sampling-frequency=500"]),
        ({"cuda_memory": True}, ["--cuda-memory-usage=true"]),
        ({"nsys": NEW, "can": NEW_CAN, "pytorch": "autograd-nvtx"}, ["--pytorch=autograd-nvtx"]),
        ({"traces": ("mystery",)}, ["--trace=none"]),
        (
            {"gpu_metrics": "0,1", "gpu_metrics_hz": 20000},
            ["--gpu-metrics-device=0,1", "--gpu-metrics-frequency=20000"],
        ),
    ],
)
def test_each_option_has_its_flags(fields: dict[str, Any], flags: list[str]) -> None:
    """Every flag is on the command line in the form flag=value."""
    argv = built(**fields).argv
    assert [flag for flag in flags if flag not in argv] == []


def test_a_flag_has_the_name_of_this_version() -> None:
    """Newer versions accept several GPUs and have renamed the flag."""
    argv = built(nsys=NEW, can=NEW_CAN, gpu_metrics="all").argv
    assert "--gpu-metrics-devices=all" in argv
    assert not any(flag.startswith("--gpu-metrics-device=") for flag in argv)


def test_the_completion_of_events_is_left_out_only_where_nsys_records_it() -> None:
    """Older versions have no such flag, and record no completion."""
    flag = "--cuda-event-trace"
    can = Capabilities(NEW_CAN.traces, NEW_CAN.profile_flags | {flag}, NEW_CAN.export_flags)
    old = Capabilities(NEW_CAN.traces, NEW_CAN.profile_flags - {flag}, NEW_CAN.export_flags)
    assert f"{flag}=false" in built(nsys=NEW, can=can, cuda_events=False).argv
    for argv in (built(nsys=NEW, can=can).argv, built(nsys=NEW, can=old, cuda_events=False).argv):
        assert not any(each.startswith(flag) for each in argv)


def test_a_capture_without_cuda_has_no_graph_flag() -> None:
    """The flag belongs to CUDA tracing."""
    assert not any(flag.startswith("--cuda-graph-trace") for flag in built(traces=("nvtx",)).argv)


def test_optional_flags_that_nsys_does_not_know_are_left_out() -> None:
    """Without a session name the recording cannot be stopped, and the program is ended at once."""
    lacking = {"--wait", "--session-new", "--kill"}
    can = Capabilities(OLD_CAN.traces, OLD_CAN.profile_flags - lacking, OLD_CAN.export_flags)
    assert not any(flag.partition("=")[0] in lacking for flag in built(can=can).argv)


def test_a_recording_is_stopped_by_its_session_name() -> None:
    """Each run has its own name."""
    assert session_command("stop", OLD, WORK) == ("/opt/old/nsys", "stop", "--session=nsyswrap-x")


def test_the_recording_time_is_not_passed_to_nsys() -> None:
    """With its flag nsys exits first, with 0, and the program's exit code is lost."""
    assert not any("duration" in flag for flag in built(duration_s=5.0).argv)


def test_an_option_without_its_flag_is_an_error() -> None:
    """The message names flag, version and program; the hint says what to do."""
    with pytest.raises(UsageError) as caught:
        built(pytorch="autograd-nvtx")
    assert caught.value.message == "nsys 2023.4.4.54 (/opt/old/nsys) has no --pytorch"
    assert "newer nsys" in caught.value.hint
    assert "NSYSWRAP_NSYS" in caught.value.hint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sample": "always"}, "sample: 'always' is not a valid value"),
        ({"context_switches": "yes"}, "context switches: 'yes' is not a valid value"),
        ({"cuda_graph": "kernel"}, "CUDA graph: 'kernel' is not a valid value"),
        ({"delay_s": -1.0}, "delay is -1.0, less than 0"),
        ({"duration_s": -0.5}, "duration is -0.5, less than 0"),
        ({"timeout_s": -3.0}, "timeout is -3.0, less than 0"),
        ({"timeout_s": float("nan")}, "timeout is nan, not a finite number"),
        ({"delay_s": float("inf")}, "delay is inf, not a finite number"),
        ({"python_sampling_hz": -1}, "python sampling is -1, less than 0"),
    ],
)
def test_a_wrong_value_is_an_error_before_anything_runs(fields: dict[str, Any], message: str) -> None:
    """Nsys would accept some of these and record something else."""
    with pytest.raises(UsageError) as caught:
        built(**fields)
    assert caught.value.message == message


def test_an_export_is_sqlite_and_replaces_an_existing_file() -> None:
    """It includes the payloads of ranges, which hold the stacks of Python samples."""
    argv = export_command(NEW, NEW_CAN, Path("/r/capture.nsys-rep"), Path("/r/capture.sqlite"))
    assert argv == (
        "/opt/new/nsys",
        "export",
        "--type=sqlite",
        "--output=/r/capture.sqlite",
        "--force-overwrite=true",
        "--include-json=true",
        "--include-blobs=true",
        "--lazy=true",
        "/r/capture.nsys-rep",
    )


def test_an_old_nsys_exports_without_payloads() -> None:
    """It lacks the flag."""
    argv = export_command(OLD, OLD_CAN, Path("/r/x.nsys-rep"), Path("/r/x.sqlite"))
    assert [flag for flag in argv if "include" in flag] == []


def test_a_capture_range_need_not_be_a_registered_string() -> None:
    """Without this variable nsys only accepts registered strings, which torch's ranges do not use."""
    assert extra_environment(options(Path("/r"), "x", capture_range="epoch")) == {
        "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"
    }
    assert extra_environment(options(Path("/r"), "x", capture_range="cudaProfilerApi")) == {}
    assert extra_environment(options(Path("/r"), "x")) == {}


def test_the_variables_of_the_user_take_precedence() -> None:
    """They also override ours."""
    wanted = options(
        Path("/r"), "x", capture_range="e", environment=(("NSYS_NVTX_PROFILER_REGISTER_ONLY", "1"), ("A", "b"))
    )
    assert extra_environment(wanted) == {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "1", "A": "b"}


@given(
    program=st.lists(st.text(min_size=1), min_size=1, max_size=5),
    traces=st.lists(st.sampled_from(["cuda", "nvtx", "osrt", "mystery"]), unique=True),
    delay_s=st.floats(0, 1e6),
)
def test_the_program_is_always_last_and_unchanged(program: list[str], traces: list[str], delay_s: float) -> None:
    """For any options, the program's words end the command line, and every flag before has a value."""
    wanted = options(Path("/r"), "unused", traces=tuple(traces), delay_s=delay_s)
    argv = profile_invocation(wanted, OLD, OLD_CAN, WORK, program).argv
    inner = WORK.inner(program)
    assert (list(inner[-len(program) :]), argv[-len(inner) :]) == (program, inner)
    assert all("=" in flag for flag in argv[2 : -len(inner)])
