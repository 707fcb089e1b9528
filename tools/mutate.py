"""Show which thresholds have a test: move each by half, flip the comparisons with it, and run the nearest tests.

A threshold is a number that a module gives a name in capitals. It is multiplied by 1.5 and by 0.5; in comparisons with
it, ``<`` becomes ``<=`` and the other way around. The files on the disk stay as they are: pytest collects the tests of
a package once, and a process for each mutation gives the loaded modules what the changed source defines. It runs the
test files that are named like the module or import it, then the others of the folder. Slow tests are left out.

    tools/mutate.py --near nsyswrap/loop nsyswrap/ranks/clocks.py
"""

import argparse
import ast
import gc
import math
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
PACKAGES = [f"nsyswrap/{name}" for name in ("attribution", "what_if", "loop", "ranks", "sections")]
# Of a program in tools/, or in a browser or nsys, no test is near.
QUICK = "not slow and not browser and not nsys and not thorough"
# What bounds memory or time, and codes: no threshold of a result.
NO_THRESHOLDS = frozenset({
    *("BASE_BYTES", "LARGEST", "LATEST", "LINK_BITS", "MOST_COMPARED", "MOST_COUNTS", "MOST_TRIED", "PAIRS"),
    *("PER_FILE_BYTE", "REPORT_BITS", "RESAMPLES", "SEED", "SPARE", "_WIDEST_CELL", "_WORKERS"),
    *("ERROR", "EVICTED", "PREFETCHED", "RELEASE", "TRANSFER", "WARNING"),
})  # fmt: skip
# What fails where a module refuses the changed number, and where a test does not end.
AT_IMPORT, NO_END = "the import of the module", "no end"
# Of one test in CPU time, and of all: a loaded machine is slow.
LIMIT_S, LIMIT_IN_ALL_S = 100, 3600
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """A file with one change.

    Attributes:
        path: The file, from the root of the checkout.
        kind: ``threshold`` or ``comparison``.
    """

    path: Path
    line: int
    label: str
    kind: str
    source: bytes

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind} {self.label}"


def mutations(path: Path) -> Iterator[Mutation]:
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


def _change(mutation: Mutation) -> None:
    """Give the loaded modules what a changed source defines: the code of functions and methods, and numbers."""
    name = ".".join(mutation.path.with_suffix("").parts).removesuffix(".__init__")
    module = sys.modules[name]
    fresh = ModuleType(name)
    fresh.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    sys.modules[name] = fresh
    try:
        exec(compile(mutation.source, str(module.__file__), "exec", dont_inherit=True), fresh.__dict__)  # noqa: S102
    finally:
        sys.modules[name] = module
    for each, new in vars(fresh).items():
        old = vars(module).get(each)
        if isinstance(old, type):
            for method, code in vars(new).items():
                _replace(vars(old).get(method), code)
        elif not _replace(old, new) and isinstance(old, int | float | tuple) and old != new:
            # A test may have a number of its own with this name.
            ours = [known for path, known in sys.modules.items() if path.startswith("nsyswrap")]
            for other in [known for known in ours if vars(known).get(each) is old]:
                setattr(other, each, new)


def _replace(old: Any, new: Any) -> bool:  # noqa: ANN401 - whatever a module defines
    """Give a function, also one in a cache, a property or a class method, the code of another; return if it is one."""
    old, new = (getattr(each, "fget", getattr(each, "__wrapped__", each)) for each in (old, new))
    old, new = (getattr(each, "__func__", each) for each in (old, new))
    if not isinstance(old, FunctionType) or not isinstance(new, FunctionType):
        return False
    if old.__code__.co_freevars == new.__code__.co_freevars:
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


class Mutations:
    """A plugin of pytest that runs the collected tests with each mutation in place of running them once.

    Attributes:
        near_only: Whether the other tests of the folder are left out.
        workers: How many processes run at a time.
        killers: The first test that fails with each mutation, empty without one; set by the run.
    """

    def __init__(self, wanted: Sequence[Mutation], *, near_only: bool, workers: int) -> None:
        self.wanted, self.near_only, self.workers = wanted, near_only, workers
        self.killers: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the nearest tests with each mutation, in some processes at a time."""
        by_file: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            by_file[str(item.path)].append(item)
        gc.collect()
        gc.freeze()
        jobs = []
        for each in self.wanted:
            near, others = nearest(each.path)
            jobs.append([item for file in (near if self.near_only else near + others) for item in by_file[file]])
        with ThreadPoolExecutor(self.workers) as pool:
            for each, test in zip(self.wanted, pool.map(partial(_killer, session), self.wanted, jobs), strict=True):
                self.killers.append(test)
                print(f"{each}: {f'killed by {test}' if test else 'SURVIVED'}", flush=True)
        return True


def _killer(session: pytest.Session, mutation: Mutation, items: Sequence[pytest.Item]) -> str:
    """Return the first test that fails with a mutation and passes without it, empty if there is none."""
    while found := _in_process(session, mutation, items):
        alone = [item for item in items if item.nodeid == found]
        if not alone or not _in_process(session, None, alone):
            break
        items = [item for item in items if item.nodeid != found]
    return found


def _in_process(session: pytest.Session, mutation: Mutation | None, items: Sequence[pytest.Item]) -> str:
    """Run tests with a mutation in a process of its own until one fails; return its name, empty if all pass."""
    reader, writer = os.pipe()
    folder = tempfile.mkdtemp(prefix="mutate-")
    child = os.fork()
    if not child:
        signal.alarm(LIMIT_IN_ALL_S)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        try:
            session.config._tmp_path_factory._basetemp = Path(folder)  # type: ignore[attr-defined]  # noqa: SLF001
            os.write(writer, _first_failure(mutation, items).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    return NO_END if os.WIFSIGNALED(status) else found


def _first_failure(mutation: Mutation | None, items: Sequence[pytest.Item]) -> str:
    """Return the name of the first test that fails with a mutation, or without one."""
    try:
        if mutation:
            _change(mutation)
    except Exception:  # noqa: BLE001 - a module may refuse a number in any way
        return AT_IMPORT
    for item, after in zip(items, [*items[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
            return item.nodeid
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
    wanted: defaultdict[str, list[Mutation]] = defaultdict(list)
    for file in files:
        for each in mutations(file.relative_to(ROOT)):
            if re.search(options.only, str(each)):
                wanted[each.path.parts[1]].append(each)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    counts: Counter[tuple[str, str, bool]] = Counter()
    for package, of_package in wanted.items():
        tests = sorted(
            {test for each in of_package for test in nearest(each.path)[0]} | {str(ROOT / "tests" / package)}
        )
        plugin = Mutations(of_package, near_only=options.near, workers=options.workers)
        pytest.main(["-q", "-p", "no:cacheprovider", "-o", "timeout=0", "-m", QUICK, *tests], plugins=[plugin])
        for each, test in zip(of_package, plugin.killers, strict=True):
            counts[package, each.kind, bool(test)] += 1
    print("\n| package | thresholds moved | found | comparisons flipped | found |\n|---|---|---|---|---|")
    for package in sorted({package for package, _, _ in counts}):
        cells = []
        for kind in ("threshold", "comparison"):
            killed, survived = (counts[package, kind, found] for found in (True, False))
            cells += [f"{killed + survived}", f"{killed}"]
        print(f"| `{package}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
