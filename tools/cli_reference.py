"""Write docs/cli.md from the --help of the commands: `make docs`. With --check, compare it only."""

import copy
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
# The width that the help is laid out for, whatever terminal this runs in.
COLUMNS = 100

# Words on an option begin here, below its name; the help of a terminal has them beside the longest name.
INDENT = 4
# An option that this many commands have with the same words is on the page once.
SHARED = 3

HEAD = """# Commands

Written by `make docs` from the commands' own `--help`.
"""
SHARED_HEAD = """## Shared options

Below each command are the names of those that it has.
"""


class Formatter(click.HelpFormatter):
    """Writes each option above its words, so that long names do not narrow them."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = INDENT, col_spacing: int = 0) -> None:
        super().write_dl(rows, col_max, col_spacing)


def contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of a command and of all commands under it, the command itself first."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=COLUMNS, max_content_width=COLUMNS)
    context.formatter_class = Formatter
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None and not below.hidden:
                yield from contexts(below, each, context)


def shared_options(found: Collection[click.Context]) -> dict[tuple[str, str], click.Parameter]:
    """Return the options that several commands have with the same words, by their words."""
    options = [
        (record, option)
        for context in found
        for option in context.command.params
        if isinstance(option, click.Option) and (record := option.get_help_record(context))
    ]
    counts = Counter(record for record, _ in options)
    return {record: option for record, option in options if counts[record] >= SHARED}


def without(context: click.Context, shared: Collection[tuple[str, str]]) -> tuple[str, list[str]]:
    """Return the help of a command and the names of its shared options; --help and a list of commands are left out."""
    command, names = copy.copy(context.command), []
    command.add_help_option, command.params = False, []
    for option in context.command.params:
        shown = copy.copy(option)
        if isinstance(shown, click.Option) and option.get_help_record(context) in shared:
            names.append(f"`{max(option.opts, key=len)}`")
            shown.hidden = True
        command.params.append(shown)
    return command.get_help(context).partition("\n\nCommands:\n")[0], names


def reference(command: click.Command, name: str) -> str:
    """Return the Markdown page of a command and of all commands under it."""
    found = list(contexts(command, name))
    shared = shared_options(found)
    parts = [HEAD]
    if shared:
        every = click.Command("", params=list(shared.values()), add_help_option=False)
        formatter = Formatter(width=COLUMNS, max_width=COLUMNS)
        every.format_options(found[0], formatter)
        parts.append(f"{SHARED_HEAD}\n```text\n{formatter.getvalue().rstrip()}\n```\n")
    for context in found:
        text, names = without(context, shared)
        parts.append(f"## {context.command_path}\n\n```text\n{text.rstrip()}\n```\n")
        if names:
            parts.append(f"[Shared](#shared-options): {', '.join(names)}.\n")
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
