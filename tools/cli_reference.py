# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Write docs/cli.md from the --help of the commands: `make docs`. With --check, compare it only."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
# The width that the help is laid out for, whatever terminal this runs in.
COLUMNS = 100

HEAD = """# Commands

Written by `make docs` from the commands' own `--help`.
"""


def pages(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield (name, help) of a command and of all commands under it, the command itself first.

    Args:
        command: A click command or group.
        name: What is typed for it, without the names above it.
        parent: The context of the command's group.
    """
    context = click.Context(command, info_name=name, parent=parent, terminal_width=COLUMNS, max_content_width=COLUMNS)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None and not below.hidden:
                yield from pages(below, each, context)


def reference(command: click.Command, name: str) -> str:
    """Return the Markdown page of a command and of all commands under it."""
    parts = [HEAD]
    for title, text in pages(command, name):
        parts.append(f"## {title}\n\n```text\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it; return the exit code."""
    from nsyswrap.cli import cli  # noqa: PLC0415 - the functions above work on any command

    text = reference(cli, "nsyswrap")
    if "--check" not in arguments:
        PAGE.write_text(text)
        return 0
    if PAGE.is_file() and PAGE.read_text() == text:
        return 0
    print("docs/cli.md is not what the commands' --help says: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
