"""The help of the command line, whose examples must parse, and completion in three shells."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest

from nsyswrap.cli import COMMANDS, cli

COMPLETE = "import sys; sys.argv[0] = 'nsyswrap'; from nsyswrap.__main__ import main; main()"


def command_of(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def help_of(name: str) -> str:
    """Return the help of a command on a terminal of 80 columns."""
    context = click.Context(command_of(name), info_name=f"nsyswrap {name}", terminal_width=80)
    return command_of(name).get_help(context)


def examples(name: str) -> list[list[str]]:
    """Return the arguments of each example in a command's help."""
    lines = re.findall(rf"^ +nsyswrap {name}\b(.*)$", help_of(name), re.MULTILINE)
    return [shlex.split(line.partition(" < ")[0]) for line in lines]


def completed(words: str, at: int) -> set[str]:
    """Return the completions for word number ``at``."""
    about = {"_NSYSWRAP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    program = [sys.executable, "-c", COMPLETE]
    done = subprocess.run(program, env=os.environ | about, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_examples_within_80_columns(name: str) -> None:
    assert len(examples(name)) >= 2
    assert max(map(len, help_of(name).splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_can_be_parsed(name: str) -> None:
    """Every option in an example exists and accepts its value."""
    for arguments in examples(name):
        command = command_of(name)
        with command.make_context(f"nsyswrap {name}", list(arguments)) as context:
            assert context.params


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    """As docs/terminal.md describes; click runs bash to read its version."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    about = os.environ | {"_NSYSWRAP_COMPLETE": f"{shell}_source"}
    program = [sys.executable, "-c", COMPLETE]
    done = subprocess.run(program, env=about, capture_output=True, text=True, check=True)
    assert f"_NSYSWRAP_COMPLETE={shell}_complete" in done.stdout
    assert done.stderr == ""


def test_commands_options_and_choices_complete() -> None:
    assert completed("nsyswrap exp", 1) == {"plain,export"}
    assert completed("nsyswrap ", 1) == {f"plain,{name}" for name in COMMANDS}
    assert completed("nsyswrap export x --form", 3) == {"plain,--format"}
    assert completed("nsyswrap export x --format p", 4) == {"plain,perfetto", "plain,parquet"}


def test_help_loads_no_heavy_libraries() -> None:
    """The help of every command must be fast."""
    program = (
        "import sys; from click.testing import CliRunner; from nsyswrap.cli import COMMANDS, cli\n"
        "for name in COMMANDS: assert CliRunner().invoke(cli, [name, '--help']).exit_code == 0\n"
        "print([name for name in ('pandas', 'numpy', 'pyarrow', 'jinja2', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
