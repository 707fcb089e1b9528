"""One Markdown table of many programs: `verify_table.py verify_*.json`, as `verify-tensor-cores --format json` writes.

`verify_table.py --into docs/kernel_names.md verify_*.json` writes it into a page, between two marks.

A second table lists the kernels above 0.1 % of their program's kernel time with a wrong or unknown classification.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEADS = (
    *(
        "program",
        "kernel time",
        "tensor cores by hardware",
        "by name",
        "agree",
        "differ",
    ),
    "launches",
)
LEAST_SHARE = 0.001
NAME_WIDTH = 90
BEGIN, END = "<!-- verify_table -->\n", "<!-- /verify_table -->\n"

Result = Mapping[str, Any]


def row(name: str, result: Result) -> str:
    shares = result["shares"]
    cells = [
        name,
        f"{result['kernel_ns'] / 1e6:.2f} ms",
        band(result["tensor_share_low"], result["tensor_share_high"]),
        band(result["named_share_low"], result["named_share_high"]),
        *(f"{each:.2%}" for each in (shares["agrees"], shares["differs"])),
        str(result["launches"]),
    ]
    return f"| {' | '.join(cells)} |"


def band(low: float, high: float) -> str:
    """Return one share, or two where they differ."""
    return f"{low:.1%}" if f"{low:.1%}" == f"{high:.1%}" else f"{low:.1%} to {high:.1%}"


def exceptions(name: str, result: Result) -> list[str]:
    """Return a line for each kernel that was classified wrongly or as unknown, costliest first."""
    lines = []
    for each in result["kernels"]:
        is_listed = each["outcome"] in {"differs", "settled", "open"} or each["verdict"] == "unknown"
        if is_listed and each["share"] > LEAST_SHARE:
            kernel = each["name"] if len(each["name"]) <= NAME_WIDTH else f"{each['name'][: NAME_WIDTH - 1]}…"
            cells = (name, f"{each['share']:.2%}", each["outcome"], each["verdict"], each["reason"], f"`{kernel}`")
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return lines


def table(results: Mapping[str, Result]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [row(name, result) for name, result in results.items()]
    listed = [line for name, result in results.items() for line in exceptions(name, result)]
    if listed:
        lines += [
            "",
            "| program | share | outcome | by name | hardware | kernel |",
            "|---|---|---|---|---|---|",
            *listed,
        ]
    return "\n".join(lines)


def put_into(page: Path, tables: str) -> None:
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no line {BEGIN.strip()} and {END.strip()}")
    page.write_text(f"{before}{begin}\n{tables}\n\n{end}{after}", encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """Print the tables of all files that are there, or write them into the page behind ``--into``."""
    page, files = (Path(words[1]), words[2:]) if words[:1] == ["--into"] else (None, words)
    paths = [Path(file) for file in files]
    results = {
        path.stem.removeprefix("verify_"): json.loads(path.read_text(encoding="utf-8"))
        for path in paths
        if path.is_file()
    }
    if page is None:
        print(table(results))
    else:
        put_into(page, table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
