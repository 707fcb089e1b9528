"""The options of `nsyswrap profile` that say what to record, and how they become ``CaptureOptions``."""

import itertools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.base.errors import UsageError

if TYPE_CHECKING:
    from nsyswrap.capture.options import CaptureOptions

Command = TypeVar("Command", bound=Callable[..., object])

_SAMPLE_HZ = 1000

# The value of nsys's --pytorch that adds a range around each operator.
_OPERATORS = "autograd-nvtx"

# Options whose values are those of the capture option of the same name.
_UNCHANGED = ("capture_range", "gpu_metrics", "cuda_memory", "cwd", "nsys_args", "force", "stop_after", "xray")

_GPU_METRICS = "--gpu-metrics"
_IDS = re.compile(r"all|none|cuda-visible|\d+(,\d+)*")


class Seconds(click.FloatRange):
    """A finite number of seconds; ``click.FloatRange`` alone accepts NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number, or fail with click's error."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return seconds


# The help of `profile` by what options are about. Those that no group names come last.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Options used most": ("output", "steps", "stop_after", "then_open", "force"),
    "What to run": ("python", "cwd", "environment", "timeout", "ranks"),
    "How much to record": ("light", "traces", "delay", "duration", "capture_range", "cuda_graph"),
    "What to record besides": (
        *("xray", "python_sampling", "gpu_metrics", "annotate", "cuda_memory", "sample_cpu", "hide_env", "nsys_args"),
    ),
    "What to measure without nsys": ("baseline", "counterfactual", "with_alternatives", "with_cost"),
    "How to read the capture": ("window", "step_range", "step_kernel", "phases", "kernel_rules", "memory"),
}


class ProfileCommand(click.Command):
    """A command whose help groups its options.

    ``--gpu-metrics`` takes the next word only if that is a list of GPUs and not the script.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        options = {each.name: each.get_help_record(ctx) for each in self.get_params(ctx)}
        groups = {title: [options.pop(name, None) for name in names] for title, names in _GROUPS.items()}
        for title, records in {**groups, "Other options": list(options.values())}.items():
            rows = [each for each in records if each]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the option its default value where the next word is not a list; keep the words after the script."""
        written = [
            f"{word}=all" if word == _GPU_METRICS and not _IDS.fullmatch(after) else word
            for word, after in itertools.pairwise([*args, ""])
        ]
        given, _, _ = self.make_parser(ctx).parse_args(list(written))
        script = given.get("command")
        own = len(args) - (len(script) if isinstance(script, tuple) else 0)
        return super().parse_args(ctx, [*written[:own], *args[own:]])


_OPTIONS = (
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Folder for the result; a rank of torchrun, srun or mpirun writes to rank-N in it.  "
        "[default: reports/<script>-<time>]",
    ),
    click.option(
        "--ranks",
        metavar="LIST",
        help="Ranks to record, such as 0,3 or 0-7 or all; the others run without nsys.  [default: all of up to 16 "
        "ranks, else 0-7]",
    ),
    click.option("-f", "--force", is_flag=True, help="Replace an earlier result in the folder."),
    click.option(
        "-t",
        "--trace",
        "traces",
        metavar="LIST",
        help="What nsys traces; values unknown to this nsys are left out.  [default: cuda,nvtx,cudnn,cublas,osrt]",
    ),
    click.option(
        "--light",
        is_flag=True,
        help="Record less, which still shows whether the GPU starves, and by what: --trace cuda,nvtx,osrt and "
        "--cuda-graph graph, without the completion of CUDA events.",
    ),
    click.option(
        "--steps",
        default="",
        metavar="N|FIRST:END|all|later",
        help="Record N steps of the training loop, those with the numbers FIRST to END - 1, the whole program, or "
        "those that `nsyswrap trigger` asks for.  "
        "[default: of a training program up to 100 steps or 10 s, after 3 for warm-up and up to 100 only timed; "
        "else the whole program]",
    ),
    click.option("--stop-after", is_flag=True, help="End the program when its steps are recorded, with exit code 0."),
    click.option(
        "--xray/--no-xray",
        default=True,
        show_default=True,
        help="Record one more step after those, in which PyTorch names the operator, line and module of each kernel.",
    ),
    click.option("--delay", type=Seconds(min=0), default=0.0, metavar="S", help="Start recording after S seconds."),
    click.option("--duration", type=Seconds(min=0), default=0.0, metavar="S", help="Record for S seconds."),
    click.option("--timeout", type=Seconds(min=0, min_open=True), metavar="S", help="End the program after S seconds."),
    click.option(
        "--capture-range",
        default="",
        metavar="R",
        help="Record only between cudaProfilerStart and Stop (cudaProfilerApi), or inside the NVTX range named R.",
    ),
    click.option(
        "--cuda-graph",
        type=click.Choice(["node", "graph"]),
        help="Record the kernels inside CUDA graphs, or each graph as one operation (cheaper).  [default: node]",
    ),
    click.option(
        _GPU_METRICS, is_flag=False, flag_value="all", default="", metavar="[IDS]", help="Sample GPU counters."
    ),
    click.option("--python-sampling", is_flag=True, help=f"Sample Python stacks, {_SAMPLE_HZ} times a second."),
    click.option(
        "--annotate",
        type=click.Choice(["off", "host", "auto", "ops"]),
        default="auto",
        show_default=True,
        help="auto, or host: mark the steps of a PyTorch program and garbage collections, and with "
        "Python 3.12 or newer also data loading, checkpoints and tokenizers; ops: also mark its "
        "operators, if this nsys can.",
    ),
    click.option("--cuda-memory", is_flag=True, help="Record memory allocations on the GPU."),
    click.option(
        "--sample-cpu",
        is_flag=True,
        help="Sample instruction pointers of the program, and record its thread scheduling.",
    ),
    click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Set a variable for the program."),
    click.option(
        "--hide-env", is_flag=True, help="Hide other processes and most environment variables from the capture."
    ),
    click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Working folder of the program.",
    ),
    click.option("--nsys-arg", "nsys_args", multiple=True, metavar="ARG", help="Pass ARG to nsys profile unchanged."),
    click.option(
        "--python", metavar="PROGRAM", help="Python that runs SCRIPT.py.  [default: the active environment's]"
    ),
)


def capture_options(command: Command) -> Command:
    """Add the options that say what to record to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_of(
    command: tuple[str, ...], given: Mapping[str, Any], *, output_to_stderr: bool, annotate: bool = False
) -> "CaptureOptions":
    """Return the capture options for the command line."""
    from nsyswrap.capture.launcher import folder_of_rank, launched_as  # noqa: PLC0415 - so that --help stays fast
    from nsyswrap.capture.options import DEFAULT_TRACES, LIGHT_TRACES, CaptureOptions  # noqa: PLC0415

    default = LIGHT_TRACES if given["light"] else DEFAULT_TRACES
    sampled = "process-tree" if given["sample_cpu"] else "none"
    return CaptureOptions(
        command=program(command, given["python"]),
        folder=folder_of_rank(given["output"] or default_folder(command[0], os.environ), os.environ),
        next_free=given["output"] is None and launched_as(os.environ) is None,
        sample=sampled,
        context_switches=sampled,
        delay_s=given["delay"],
        duration_s=given["duration"],
        steps=given["steps"],
        python_sampling_hz=_SAMPLE_HZ if given["python_sampling"] else 0,
        pytorch=_OPERATORS if given["annotate"] == "ops" else "",
        annotate=annotate or given["annotate"] != "off",
        environment=tuple(map(_variable, given["environment"])),
        timeout_s=given["timeout"],
        hide_environment=given["hide_env"],
        output_to_stderr=output_to_stderr,
        traces=default if given["traces"] is None else tuple(filter(None, given["traces"].split(","))),
        cuda_graph=given["cuda_graph"] or ("graph" if given["light"] else "node"),
        cuda_events=not given["light"],
        **{name: given[name] for name in _UNCHANGED},
    )


def program(command: tuple[str, ...], python: str | None = None) -> tuple[str, ...]:
    """Return the command to run: a ``.py`` script gets a Python interpreter in front.

    That is the Python of the active environment, because nsyswrap may be installed in another one.
    """
    if not command[0].endswith(".py"):
        return command
    return (python or active_python(os.environ), *command)


def active_python(environ: Mapping[str, str]) -> str:
    """Return the Python of the active virtual or conda environment, else the one that runs nsyswrap."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = Path(environ.get(variable, "")) / "bin" / "python"
        if environ.get(variable) and candidate.exists():
            return str(candidate)
    return sys.executable


def default_folder(script: str, environ: Mapping[str, str]) -> Path:
    """Return a folder under reports/ named after the script and the time, or after the job for one of its ranks.

    Raises:
        UsageError: The ranks of the job cannot find a common name.
    """
    from nsyswrap.capture.launcher import common_name, launched_as  # noqa: PLC0415 - so that --help stays fast

    name = time.strftime("%Y%m%d-%H%M%S")
    if launched_as(environ) is not None:
        name = common_name(environ) or ""
        if not name:
            raise UsageError(
                "the ranks of a job on several nodes need one folder for their results",
                hint="Give it with -o, on a disk that all nodes share",
            )
    return Path("reports") / f"{Path(script).stem}-{name}"


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--env {text!r} is not NAME=VALUE", hint="write it as --env OMP_NUM_THREADS=4")
    return name, value
