"""The command line: one file a command, loaded when it is called, and one place where errors become messages."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import click

from nsyswrap import __version__
from nsyswrap.cli.terminal import printable
from nsyswrap.errors import CaptureError, NsyswrapError, UsageError

# Command to its one line of help; its code is `nsyswrap.cli.<command>`, with `_` for `-`. Loading it takes time.
COMMANDS: Mapping[str, str] = {
    "profile": "Run a program under Nsight Systems and report where the GPU's time went.",
    "analyze": "Read a capture and print what it says.",
    "report": "Read a capture and write one HTML page.",
    "compare": "Put two captures beside each other: faster or slower, and what moved.",
    "export": "Write events or tables for other programs: Perfetto, Parquet, CSV.",
    "verify-tensor-cores": "Ask the hardware whether kernel names tell the truth about tensor cores.",
    "classify": "Say which kernel names run on tensor cores.",
    "redact": "Write an export fit to share: no environment, host, user or home folder.",
    "doctor": "Check what works here, and name the remedy for what does not.",
    "setup": "Get nsys where it is missing, without root.",
}


def exit_code(error: NsyswrapError, command: str | None) -> int:
    """Return the exit code of a command that ended with an error of ours.

    The codes from 125 on say that a program could not be profiled; only `profile` has a program whose own codes they
    must not be taken for.
    """
    return 1 if isinstance(error, CaptureError) and command != "profile" else error.exit_code


class LazyGroup(click.Group):
    """A group that loads a command's module when the command is called, and prints our errors in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load and return a command, or None where there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"nsyswrap.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error of ours becomes two lines on stderr and its exit code."""
        try:
            return super().invoke(ctx)
        except NsyswrapError as error:
            _tell(ctx, error)
        except FileNotFoundError:
            if _is_somewhere():
                raise
            _tell(ctx, UsageError("the working folder has been removed", hint="change to one that is there"))


def _tell(ctx: click.Context, error: NsyswrapError) -> NoReturn:
    """Print an error and end; message and hint quote what others chose: names of files, arguments, what nsys said."""
    click.echo(f"nsyswrap: {printable(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {printable(error.hint)}", err=True)
    ctx.exit(exit_code(error, ctx.invoked_subcommand))


def _is_somewhere() -> bool:
    """Return whether the working folder is there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nsyswrap")
def cli() -> None:
    """Profile PyTorch with NVIDIA Nsight Systems: where the GPU's time went, and why it starved.

    \b
      nsyswrap profile train.py          run, capture, report
      nsyswrap report capture.nsys-rep   one HTML page
      nsyswrap analyze capture.sqlite    the same in the terminal
      nsyswrap compare BASE NEW          faster or slower, and what moved
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
