# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Show which thresholds have a test: move each by half, flip the comparisons with it, and run the nearest tests.

A threshold is a number that a module gives a name in capitals. It is multiplied by 1.5 and by 0.5; in comparisons with
it, ``<`` becomes ``<=`` and the other way around. The files on the disk stay as they are: a process for each mutation
imports the changed source and runs the test files that are named like the module or import it, then the others of the
folder. Slow tests run last, and only the nearest.

    tools/mutate.py nsyswrap/loop nsyswrap/ranks/clocks.py
"""

import argparse
import ast
import math
import multiprocessing
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import CodeType

import pandas as pd  # noqa: F401 - imported once, before the processes start
import pyarrow as pa  # noqa: F401 - the same
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [f"nsyswrap/{name}" for name in ("attribution", "what_if", "loop", "ranks", "sections")]
# Of a program in tools/, or in a browser or nsys, no test is near.
QUICK = "not slow and not browser and not nsys and not thorough"
# How much is held or done at a time, and codes: no threshold of a result.
NO_THRESHOLDS = frozenset(
    {
        *("MOST_COUNTS", "LARGEST", "SPARE", "PAIRS", "_WIDEST_CELL", "REPORT_BITS", "LINK_BITS", "SEED", "LATEST"),
        *("_WORKERS", "PREFETCHED", "EVICTED", "_WAITS", "_LAUNCHES", "TRANSFER", "RELEASE", "WARNING", "ERROR"),
    }
)
# What fails where a module refuses the changed number when it is imported.
AT_IMPORT = "the import of the tests"
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """A file with one change.

    Attributes:
        path: The file, from the root of the checkout.
        line: The line where the change is.
        label: The change, as the table shows it.
        kind: ``threshold`` or ``comparison``.
        source: The whole source with the change.
    """

    path: Path
    line: int
    label: str
    kind: str
    source: bytes

    def __str__(self) -> str:
        """Return the place and the change."""
        return f"{self.path}:{self.line} {self.kind} {self.label}"


def mutations(path: Path) -> Iterator[Mutation]:
    """Yield the mutations of a file."""
    source = (ROOT / path).read_bytes()
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    at = [sum(len(line) for line in lines[:number]) for number in range(len(lines))]
    for name, node, number in _thresholds(tree):
        start, end = at[node.lineno - 1] + node.col_offset, at[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        for moved in (number * 1.5, number * 0.5):
            value = math.ceil(moved) if moved > number else math.floor(moved)
            text = repr(value if isinstance(number, int) else moved)
            changed = source[:start] + text.encode() + source[end:]
            yield Mutation(path, node.lineno, f"{name} = {text}", "threshold", changed)
    for compared in (node for node in ast.walk(tree) if isinstance(node, ast.Compare)):
        for left, right in pairwise([compared.left, *compared.comparators]):
            start = at[(left.end_lineno or 0) - 1] + (left.end_col_offset or 0)
            between = source[start : at[right.lineno - 1] + right.col_offset].decode()
            sign = between.strip(" ()\n")
            if sign in FLIPPED and (_names_number(left) or _names_number(right)):
                label = f"{ast.unparse(left)} {FLIPPED[sign]} {ast.unparse(right)}"
                flipped = between.replace(sign, FLIPPED[sign]).encode()
                changed = source[:start] + flipped + source[start + len(between.encode()) :]
                yield Mutation(path, compared.lineno, label, "comparison", changed)


def _names_number(side: ast.expr) -> bool:
    """Return whether a side of a comparison has a name in capitals, which is not one of a table."""
    names = [node.id for node in ast.walk(side) if isinstance(node, ast.Name)]
    if "tables" not in names:
        names += [node.attr for node in ast.walk(side) if isinstance(node, ast.Attribute)]
    return any(name.isupper() for name in names)


def _thresholds(tree: ast.Module) -> Iterator[tuple[str, ast.expr, float]]:
    """Yield the name, the expression and the value of each number above 0 that is named in a module."""
    known: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[-1] if isinstance(node, ast.Assign) else node.target
            pairs = [(target, node.value)]
            if isinstance(node.value, ast.Tuple):
                names = target.elts if isinstance(target, ast.Tuple) else [target] * len(node.value.elts)
                pairs = list(zip(names, node.value.elts, strict=True))
            for name, value in pairs:
                try:
                    number = eval(ast.unparse(value), {"__builtins__": {}}, known)  # noqa: S307 - the project's source
                except (AttributeError, NameError, SyntaxError, TypeError):
                    continue
                if type(number) in {int, float} and number > 0:
                    known[ast.unparse(name)] = number
                    if ast.unparse(name) not in NO_THRESHOLDS:
                        yield ast.unparse(name), value, number


def _import_changed(mutation: Mutation) -> None:
    """Let imports of a file read the mutation in place of what is on the disk."""
    from_disk = SourceFileLoader.get_code
    path = str(ROOT / mutation.path)

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        if loader.path == path:
            return compile(mutation.source, path, "exec", dont_inherit=True)
        return from_disk(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def nearest(path: Path) -> tuple[list[str], list[str]]:
    """Return the test files that are named like a module or import it, and the others of its folder.

    A module in a package inside another one has the tests of that package.
    """
    tests = ROOT / "tests"
    place = path.with_suffix("").parts if len(path.parts) == 3 else path.parent.parts  # noqa: PLR2004
    names = {f"test_{path.stem}.py", f"test_{path.parent.name}.py"}
    imports = rf"from {re.escape('.'.join(place))}[. ]|from {re.escape('.'.join(place[:-1]))} import .*\b{place[-1]}\b"
    files = sorted(tests.rglob("test_*.py"))
    own = [file for file in files if file.is_relative_to(tests / path.parts[1])]
    near = [file for file in own if file.name in names]
    near += [file for file in files if file not in near and re.search(imports, file.read_text(encoding="utf-8"))]
    return [str(file) for file in near], [str(file) for file in own if file not in near]


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the name of a failed test."""
        if report.failed and not self.name:
            self.name = report.nodeid


def first_failure(runs: list[tuple[list[str], str]], mutation: Mutation | None = None) -> str:
    """Run tests with a mark, one run after another, until a test fails; return its name, empty if all pass."""
    os.chdir(ROOT)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    if mutation:
        _import_changed(mutation)
    for tests, mark in runs:
        first = FirstFailure()
        options = ["-xq", "-p", "no:cacheprovider", "--timeout=100", "-m", mark]
        code = pytest.main([*options, *tests], plugins=[first]) if tests else pytest.ExitCode.OK
        if code == pytest.ExitCode.USAGE_ERROR:
            raise ValueError(f"pytest cannot run {tests} with the mark {mark}")
        if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return first.name or AT_IMPORT
    return ""


def main() -> None:
    """Try all mutations of the files and packages that are named, and print each and the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", default=PACKAGES, help="packages and modules; without any, five packages")
    parser.add_argument("--only", default="", help="a pattern that the shown place and change match")
    parser.add_argument("--near", action="store_true", help="run only the quick tests of the module itself")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    roots = [ROOT / path for path in options.paths]
    files = sorted(file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py")))
    wanted = [
        each for file in files for each in mutations(file.relative_to(ROOT)) if re.search(options.only, str(each))
    ]
    runs = []
    for each in wanted:
        near, others = nearest(each.path)
        tests = [(near, QUICK), (others, QUICK), (near, "slow")]
        runs.append((tests[:1] if options.near else tests, each))
    counts: Counter[tuple[str, str, bool]] = Counter()
    killers = set()
    with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        for each, test in zip(wanted, pool.imap(_first_failure, runs), strict=True):
            counts[each.path.parts[1], each.kind, bool(test)] += 1
            killers |= {test} - {"", AT_IMPORT}
            print(f"{each}: {f'killed by {test}' if test else 'SURVIVED'}", flush=True)
        if killers and (test := pool.apply(first_failure, ([(sorted(killers), "")],))):
            print(f"{test} fails without a mutation, so the counts are wrong")
    print("\n| package | thresholds moved | found | comparisons flipped | found |\n|---|---|---|---|---|")
    for package in sorted({package for package, _, _ in counts}):
        cells = []
        for kind in ("threshold", "comparison"):
            killed, survived = (counts[package, kind, found] for found in (True, False))
            cells += [f"{killed + survived}", f"{killed}"]
        print(f"| `{package}` | {' | '.join(cells)} |")


def _first_failure(run: tuple[list[tuple[list[str], str]], Mutation]) -> str:
    """Call `first_failure` with the arguments of a pool."""
    return first_failure(*run)


if __name__ == "__main__":
    main()
