"""Write the reports of all captures in tests/captures, and compare two folders of them.

    python tools/report_differences.py write FOLDER [PART OF A NAME]...
    python tools/report_differences.py compare OLD NEW

A change that should leave the reports as they are is checked so: write before, write after, compare. Each capture gets
report.json, and the texts that a reader sees: terminal, Markdown and HTML without its scripts. ``compare`` prints each
place of report.json that differs, with the number of captures and one example, then the lines of the texts. Exit code:
0 if nothing differs, 1 if something does.
"""

import dataclasses
import difflib
import json
import lzma
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[1] / "tests" / "captures"
PACKED = ".sqlite.xz"
SHOWN = 20
FILES = {"json": "report.json", "text": "report.txt", "markdown": "report.md", "html": "page.txt"}


class VisibleText(HTMLParser):
    """Collects the text of a page, one line for each piece, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style"}
        self.lines += [f"[{value}]" for name, value in attrs if name in {"title", "aria-label"} and value]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if text and not self._hidden:
            self.lines.append(text)


def write(packed: Path, folder: Path) -> None:
    """Write the report of a packed export in each form."""
    from nsyswrap.api import open_capture  # noqa: PLC0415 - after the process has started
    from nsyswrap.render import render  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as temporary:
        export = Path(temporary) / packed.name.removesuffix(".xz")
        export.write_bytes(lzma.decompress(packed.read_bytes()))
        report = open_capture(export).report
    # The page names the folder of the capture, which has another name each time.
    report = dataclasses.replace(report, capture=dataclasses.replace(report.capture, folder="unpacked"))
    folder.mkdir(parents=True, exist_ok=True)
    for form, name in FILES.items():
        text = render(form, report)
        if form == "html":
            page = VisibleText()
            page.feed(text)
            text = "\n".join(page.lines)
        (folder / name).write_text(text, encoding="utf-8")


def write_all(folder: Path, parts: Sequence[str]) -> None:
    """Write the reports of all captures whose names hold one of the parts."""
    chosen = [
        path
        for path in sorted(CAPTURES.rglob(f"*{PACKED}"))
        if not parts or any(part in str(path.relative_to(CAPTURES)) for part in parts)
    ]
    targets = [folder / str(path.relative_to(CAPTURES)).removesuffix(PACKED) for path in chosen]
    with ProcessPoolExecutor() as pool:
        list(pool.map(write, chosen, targets))


def places(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON
    """Yield each place where two JSON values differ, without the numbers of rows, and both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from places(old.get(key), new.get(key), f"{at}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        for before, after in zip_longest(old, new):
            yield from places(before, after, f"{at}[]")
    elif old != new:
        yield at, f"{json.dumps(old)[:120]} -> {json.dumps(new)[:120]}"


def differences(old: Path, new: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the capture, the place and both values of each difference between two folders of reports."""
    names = {path.relative_to(each) for each in (old, new) for path in each.rglob("*") if path.is_file()}
    for name in sorted(names):
        both = [(each / name).read_text(encoding="utf-8") if (each / name).exists() else "{}" for each in (old, new)]
        capture = str(name.parent)
        if both[0] == both[1]:
            continue
        if name.suffix == ".json":
            yield from ((capture, place, shown) for place, shown in places(*map(json.loads, both)))
            continue
        for line in difflib.unified_diff(both[0].splitlines(), both[1].splitlines(), lineterm="", n=0):
            if re.match(r"[-+](?![-+])", line):
                yield capture, name.name, line


def compare(old: Path, new: Path) -> int:
    """Print the differences by place; return the exit code."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for capture, place, shown in differences(old, new):
        found[place].append((capture, shown))
    for place, pairs in sorted(found.items()):
        print(f"{place}: {len(pairs)} in {len({capture for capture, _ in pairs})} captures")
        for capture, text in pairs[: 1 if place.startswith("/") else SHOWN]:
            print(f"    {capture}: {text}")
    return int(bool(found))


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["write", folder, *parts]:
            write_all(Path(folder), parts)
            return 0
        case ["compare", old, new]:
            return compare(Path(old), Path(new))
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
