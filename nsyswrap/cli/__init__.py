"""The command line: one module for each command, loaded when it is called, and one place that prints errors."""

import difflib
import errno
import importlib
import keyword
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from nsyswrap.base.errors import CaptureError, NsyswrapError, UsageError
from nsyswrap.base.version import __version__
from nsyswrap.cli.streams import discard_stdout
from nsyswrap.cli.terminal import printable

# Exit code after Ctrl-C: 128 and the number of the signal.
INTERRUPTED = 130
# Each command and its line in the help. Its module is `nsyswrap.cli.<command>`, with `_` for `-`.
COMMANDS: Mapping[str, str] = {
    "profile": "Run a program under Nsight Systems and report where the GPU's time went.",
    "try": "Make changes to a program from outside, and measure which of them make it faster.",
    "trigger": "Record steps of a program that runs already.",
    "resume": "Finish a run that was interrupted: its capture and its report.",
    "open": "Open the page of a result in the browser.",
    "analyze": "Print the report of a capture.",
    "report": "Write the report of a capture as one HTML page.",
    "ranks": "Print one report of all ranks of a job that has a capture for each rank.",
    "analyze-many": "Find what many captures have in common: findings, kernels, outliers, hosts, days.",
    "compare": "Compare two captures: faster or slower, and what changed.",
    "verify": "Tell whether two programs do the same work, and which is faster.",
    "history": "Keep runs in a database: add, list, show, page, rm, export.",
    "sweep": "Run a program over a grid of settings, such as workers, and say which to choose.",
    "gate": "Tell from runs of a program whether the newest ones became slower.",
    "export": "Write events or tables of a capture for other programs: Perfetto, Parquet, CSV.",
    "verify-tensor-cores": "Check what kernel names say about tensor cores against hardware counters.",
    "classify": "Tell from kernel names which kernels run on tensor cores.",
    "schema": "Print the JSON Schema of report.json, for programs that read it.",
    "redact": "Write an export that is safe to share: no environment, host, user or home folder.",
    "doctor": "Check whether captures work on this machine, and how to fix what does not.",
    "setup": "Install nsys where it is missing, without root.",
}


def exit_code(error: NsyswrapError, command: str | None) -> int:
    """Return the exit code of a command that ended with an error.

    Codes from 125 on are for `profile` only: they differ from the codes of the profiled program.
    """
    return 1 if isinstance(error, CaptureError) and command != "profile" else error.exit_code


class LazyGroup(click.Group):
    """A group that loads a command's module when the command is called, and prints errors in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, the most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load and return a command, or None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_") + "_" * keyword.iskeyword(cmd_name)
        command: click.Command = getattr(importlib.import_module(f"nsyswrap.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names; for one that does not exist, suggest similar names."""
        name = args[0]
        close = difflib.get_close_matches(name, COMMANDS)
        if close and name not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(map(repr, close))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without loading their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's signature
        """Run the command line; a help or version that cannot be printed is an error with exit code 1."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
                raise
            discard_stdout()
            click.echo(f"nsyswrap: cannot write to stdout: {error.strerror}", err=True)
            sys.exit(1)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's signature
        """Read the command line; Ctrl-C ends with 130, also before a command has begun."""
        try:
            return super().make_context(*args, **extra)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an ``NsyswrapError`` becomes a message and a hint on stderr, and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("nsyswrap: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except NsyswrapError as error:
            _exit_with(ctx, error)
        except FileNotFoundError:
            if _working_folder_exists():
                raise
            _exit_with(ctx, UsageError("the working folder has been removed", hint="change to one that exists"))


def _exit_with(ctx: click.Context, error: NsyswrapError) -> NoReturn:
    """Print an error and exit; control characters are escaped, since messages quote file names and output of nsys."""
    click.echo(f"nsyswrap: {printable(error.message)}", err=True)
    hint = error.hint if _working_folder_exists() else "the working folder has been removed: change to one that exists"
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)
    ctx.exit(exit_code(error, ctx.invoked_subcommand))


def _working_folder_exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nsyswrap")
def cli() -> None:
    """Profile PyTorch with NVIDIA Nsight Systems: where the GPU's time went, and why it was idle.

      \b
    nsyswrap profile train.py          run, capture, report
    nsyswrap report capture.nsys-rep   one HTML page
    nsyswrap analyze capture.sqlite    the same as text
    nsyswrap compare BASE NEW          faster or slower, and what changed
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
