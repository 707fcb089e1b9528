"""`nsyswrap classify`: tell from kernel names which kernels run on tensor cores."""

import csv
import dataclasses
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import click

from nsyswrap.cli.inputs import kernel_rules_option, read_kernel_rules
from nsyswrap.cli.output import print_result
from nsyswrap.cli.terminal import printable
from nsyswrap.hardware.kernel_names.classify import Classification
from nsyswrap.hardware.kernel_names.classify import classify as classify_name

COLUMNS = tuple(field.name for field in dataclasses.fields(Classification))
# A longer name shifts only its own line to the right.
WIDEST_NAME = 80


def capability_of(
    ctx: click.Context,  # noqa: ARG001 - click's signature
    param: click.Parameter,  # noqa: ARG001
    value: str | None,
) -> tuple[int, int] | None:
    """Return (9, 0) for ``9.0`` and None for no value; anything else is a usage error."""
    if value is None:
        return None
    parts = re.fullmatch(r"([0-9]{1,2})\.([0-9])", value)
    if parts is None:
        raise click.BadParameter(f"{value!r} is not a compute capability; write major.minor, such as 9.0 for an H100.")
    return int(parts[1]), int(parts[2])


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    show_default=True,
    help="Output format; csv and json hold name, verdict, precision, library, op and rule.",
)
@click.option(
    "--compute-capability",
    "capability",
    metavar="X.Y",
    callback=capability_of,
    help="Compute capability of the device; corrects verdicts that the device rules out.",
)
@kernel_rules_option
def classify(
    names: tuple[str, ...], form: str, capability: tuple[int, int] | None, kernel_rules: tuple[Path, ...]
) -> None:
    """Tell for each kernel NAME whether the kernel runs on tensor cores, from the name alone.

    Without NAME, names are read from standard input, one a line. Give full, demangled names, as nsys and PyTorch's
    profiler write them. The verdict is tensor, simt_eligible (matrix work that could use tensor cores), not_eligible,
    or unknown if the name does not say.

    \b
      nsyswrap classify ampere_sgemm_128x64_nn Kernel2
      nsyswrap classify --format csv < names.txt
      nsyswrap classify --compute-capability 7.5 ampere_sgemm_128x64_nn
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    given = [readable(name) for name in names] or list(lines(sys.stdin.buffer.read() if sys.stdin else b""))
    learned = read_kernel_rules(kernel_rules)
    found = [classify_name(name, capability, learned) for name in given]
    if text := FORMS[form](found):
        print_result(text)


def readable(argument: str) -> str:
    """Return an argument with bytes that are not UTF-8 written as escapes."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def lines(data: bytes) -> Iterable[str]:
    """Yield the lines that are not empty; bytes that are not UTF-8 are written as escapes."""
    for line in data.decode("utf-8", "backslashreplace").split("\n"):
        if line.strip():
            yield line.removesuffix("\r")


def text_of(found: Sequence[Classification]) -> str:
    """Return an aligned table with full names; an empty text for no names."""
    if not found:
        return ""
    rows = [COLUMNS, *([printable(str(value)) for value in dataclasses.astuple(each)] for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    widths[0] = min(widths[0], WIDEST_NAME)
    aligned = ("  ".join(f"{value:<{width}}" for value, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in aligned)


def csv_of(found: Sequence[Classification]) -> str:
    """Return a CSV table with a header row; hidden characters are shown, and no cell is a formula."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(COLUMNS)
    cells = ([printable(str(value)) for value in dataclasses.astuple(each)] for each in found)
    # An apostrophe disarms a formula.
    writer.writerows([f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in row] for row in cells)
    return target.getvalue()


def json_of(found: Sequence[Classification]) -> str:
    """Return a JSON list with one object for each name."""
    return json.dumps([dataclasses.asdict(each) for each in found], indent=2, ensure_ascii=False) + "\n"


FORMS: Mapping[str, Callable[[Sequence[Classification]], str]] = {"text": text_of, "csv": csv_of, "json": json_of}
