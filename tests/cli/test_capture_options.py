"""How options of `nsyswrap profile` become capture options, and which Python runs a script."""

import sys
from pathlib import Path
from typing import Any

import click
import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.options import DEFAULT_TRACES, CaptureOptions
from nsyswrap.cli.capture_options import (
    ProfileCommand,
    active_python,
    capture_options,
    default_folder,
    options_of,
    program,
)


def given(*arguments: str) -> CaptureOptions:
    found: list[dict[str, Any]] = []

    @click.command()
    @capture_options
    def command(**values: object) -> None:
        found.append(values)

    command.main(["--output", "out", *arguments], standalone_mode=False)
    return options_of(("prog",), found[0], output_to_stderr=False)


OPTIONS: dict[str, tuple[list[str], dict[str, object]]] = {
    "output": ([], {"folder": Path("out"), "command": ("prog",), "force": False}),
    "force": (["-f"], {"force": True}),
    "traces": (["-t", "cuda,nvtx"], {"traces": ("cuda", "nvtx")}),
    "default traces": ([], {"traces": DEFAULT_TRACES}),
    "no traces": (["--trace", ""], {"traces": ()}),
    "delay": (["--delay", "1.5", "--duration", "2"], {"delay_s": 1.5, "duration_s": 2.0}),
    "timeout": (["--timeout", "60"], {"timeout_s": 60.0}),
    "no timeout": ([], {"timeout_s": None}),
    "capture range": (["--capture-range", "profile me"], {"capture_range": "profile me"}),
    "graphs by node": ([], {"cuda_graph": "node"}),
    "graphs": (["--cuda-graph", "graph"], {"cuda_graph": "graph"}),
    "light": (["--light"], {"traces": ("cuda", "nvtx", "osrt"), "cuda_graph": "graph", "cuda_events": False}),
    "light with more": (
        ["--light", "--trace", "cuda", "--cuda-graph", "node"],
        {"traces": ("cuda",), "cuda_graph": "node", "cuda_events": False},
    ),
    "counters": (["--gpu-metrics"], {"gpu_metrics": "all"}),
    "counters of some": (["--gpu-metrics=0,1"], {"gpu_metrics": "0,1"}),
    "python": (["--python-sampling"], {"python_sampling_hz": 1000}),
    "no annotation": ([], {"annotate": True, "pytorch": ""}),
    "annotation off": (["--annotate", "off"], {"annotate": False, "pytorch": ""}),
    "annotation under its other name": (["--annotate", "host"], {"annotate": True, "pytorch": ""}),
    "annotation": (["--annotate", "auto"], {"annotate": True, "pytorch": ""}),
    "operators": (["--annotate", "ops"], {"annotate": True, "pytorch": "autograd-nvtx"}),
    "memory": (["--cuda-memory"], {"cuda_memory": True}),
    "no sampling": ([], {"sample": "none", "context_switches": "none", "python_sampling_hz": 0}),
    "sampling": (["--sample-cpu"], {"sample": "process-tree", "context_switches": "process-tree"}),
    "environment": (["--env", "A=b", "--env", "C=d=e"], {"environment": (("A", "b"), ("C", "d=e"))}),
    "empty variable": (["--env", "A="], {"environment": (("A", ""),)}),
    "hidden": (["--hide-env"], {"hide_environment": True}),
    "folder": (["--cwd", "/"], {"cwd": Path("/")}),
    "nsys": (["--nsys-arg", "--stats=true", "--nsys-arg=-b"], {"nsys_args": ("--stats=true", "-b")}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_sets_its_capture_option(name: str) -> None:
    arguments, expected = OPTIONS[name]
    options = given(*arguments)
    assert {field: getattr(options, field) for field in expected} == expected


@pytest.mark.parametrize("text", ["A", "=b", ""])
def test_a_variable_without_name_or_value_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        given("--env", text)
    assert "--env" in raised.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        ["--delay", "-1"],
        ["--delay", "nan"],
        ["--duration", "-0.1"],
        ["--duration", "inf"],
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--cwd", "/no/such"],
    ],
)
def test_an_invalid_value_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        given(*arguments)


def test_a_script_is_run_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arguments are unchanged."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert program(("train.py", "--lr", "x.py")) == (sys.executable, "train.py", "--lr", "x.py")
    assert program(("train.py",), "python3.12") == ("python3.12", "train.py")


@pytest.mark.parametrize("command", [("torchrun", "train.py"), ("python", "train.py"), ("./train",)])
def test_another_command_is_unchanged(command: tuple[str, ...]) -> None:
    assert program(command, "python3.12") == command


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_s_python_runs_scripts(variable: str, tmp_path: Path) -> None:
    """The package may be installed in another environment than the program."""
    assert active_python({variable: str(tmp_path)}) == sys.executable
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert active_python({variable: str(tmp_path)}) == str(tmp_path / "bin" / "python")


def test_a_virtual_environment_takes_precedence_over_conda(tmp_path: Path) -> None:
    for name in ("venv", "conda"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").touch()
    both = {"CONDA_PREFIX": str(tmp_path / "conda"), "VIRTUAL_ENV": str(tmp_path / "venv")}
    assert active_python(both) == str(tmp_path / "venv" / "bin" / "python")


def test_the_folder_is_named_after_the_script_and_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it exists is checked when it is created."""
    monkeypatch.setattr("time.strftime", lambda _: "20260102-030405")
    assert default_folder("workloads/mnist.py", {}) == Path("reports/mnist-20260102-030405")


RANK = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
STEP = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3"}


def test_the_ranks_of_a_job_have_one_folder() -> None:
    """They start at different times."""
    assert default_folder("train.py", STEP) == Path("reports/train-4711.3")
    with pytest.raises(UsageError, match="ranks of a job on several nodes need one folder") as caught:
        default_folder("train.py", RANK)
    assert "-o" in caught.value.hint


COUNTERS: dict[str, tuple[list[str], str, tuple[str, ...]]] = {
    "before the script": (["--gpu-metrics", "train.py", "0"], "all", ("train.py", "0")),
    "before an option": (["--gpu-metrics", "-f", "train.py"], "all", ("train.py",)),
    "before dashes": (["--gpu-metrics", "--", "prog"], "all", ("prog",)),
    "one": (["--gpu-metrics", "0", "train.py"], "0", ("train.py",)),
    "some": (["--gpu-metrics", "0,12", "train.py"], "0,12", ("train.py",)),
    "all": (["--gpu-metrics", "all", "train.py"], "all", ("train.py",)),
    "none": (["--gpu-metrics", "none", "train.py"], "none", ("train.py",)),
    "nothing else": (["--gpu-metrics"], "all", ()),
    "with a sign": (["--gpu-metrics=0", "train.py"], "0", ("train.py",)),
    "anything with a sign": (["--gpu-metrics=help", "train.py"], "help", ("train.py",)),
    "the script's own": (["-f", "train.py", "--gpu-metrics", "x"], "", ("train.py", "--gpu-metrics", "x")),
    "the command's own": (["--", "prog", "--gpu-metrics", "x"], "", ("prog", "--gpu-metrics", "x")),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_gpu_metrics_takes_a_list_of_gpus_but_not_the_script(name: str) -> None:
    """After an equals sign any text belongs to the option."""
    arguments, expected, rest = COUNTERS[name]
    found: list[tuple[object, object]] = []

    @click.command(cls=ProfileCommand, context_settings={"allow_interspersed_args": False})
    @capture_options
    @click.argument("command", nargs=-1, type=click.UNPROCESSED)
    def profile(command: tuple[str, ...], **values: object) -> None:
        found.append((values["gpu_metrics"], command))

    profile.main(arguments, standalone_mode=False)
    assert found == [(expected, rest)]
