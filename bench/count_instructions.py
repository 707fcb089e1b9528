"""Count the instructions of fixed small cases, and compare them with the counts that are kept.

    python bench/count_instructions.py [--save] [CASE]...

Seconds depend on the load of the machine; the number of instructions does not, so a job of continuous integration can
watch it. valgrind counts (`--tool=cachegrind`, without its model of caches); it takes some forty times as long as the
case alone. Counts depend on Python and on the pinned packages: `bench/instructions.json` says with which they were
counted. After a change that is meant to cost, or `make lock`, save new counts with --save and commit them.

Exits with 0 if all cases are within the tolerance, 1 if one needs more, and 3 if nothing can be compared.
"""

import argparse
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "bench" / "instructions.json"
CAPTURE = ROOT / "tests" / "captures" / "cnn_amp.sqlite.xz"
# A case counts as changed beyond this share. Runs of one commit differ by less: addresses, and how threads meet.
TOLERANCE = 0.05
LIMIT_S = 3600
MORE, CANNOT_TELL = 1, 3
# Arguments of `python -m nsyswrap`; {capture} is the export of a small training loop.
CASES = {
    "help": ("--help",),
    "analyze": ("analyze", "{capture}", "--format", "json"),
}
# One thread in each library, and the same order of sets, so that each run does the same.
SAME = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


class CannotCountError(Exception):
    """Nothing can be counted or compared, and why."""


def counted(case: str, folder: Path, program: str = "valgrind") -> int:
    """Return the number of instructions of a case.

    Args:
        case: Its name in ``CASES``.
        folder: Folder with ``capture.sqlite``.
        program: The counting tool.

    Raises:
        CannotCountError: The tool is missing, or it or the case failed.
    """
    tool = shutil.which(program)
    if tool is None:
        raise CannotCountError(f"{program} is not installed. On Debian: apt-get install {program}")
    own = [each.format(capture=folder / "capture.sqlite") for each in CASES[case]]
    command = [sys.executable, "-m", "nsyswrap", *own]
    counting = [tool, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command]
    environment = {**os.environ, **SAME}
    for each in (command, counting):  # the first writes the bytecode, so that the second does not compile
        done = subprocess.run(  # noqa: S603 - our own program
            each, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=environment, cwd=ROOT
        )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or found is None:
        raise CannotCountError(f"case {case} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return int(found[1].replace(",", ""))


def surroundings() -> dict[str, str]:
    """Return what counts depend on beside the code: Python, the kind of processor and the pinned packages."""
    lock = (ROOT / "requirements" / "base.lock").read_text(encoding="utf-8")
    names = ("numpy", "pandas", "pyarrow")
    pinned = {name: found[1] for name in names if (found := re.search(rf"^{name}==([\w.]+)", lock, re.MULTILINE))}
    return {"python": ".".join(platform.python_version_tuple()[:2]), "processor": platform.machine()} | pinned


def compared(found: Mapping[str, int], kept: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return a line for each case, and the exit code.

    Args:
        found: Instructions by case.
        kept: What ``bench/instructions.json`` holds.

    Raises:
        CannotCountError: The counts were kept with another Python, processor or package.
    """
    here = surroundings()
    if kept["surroundings"] != here:
        other = ", ".join(f"{key} {kept['surroundings'].get(key)} (here {value})" for key, value in here.items())
        raise CannotCountError(f"the kept counts are from other surroundings: {other}. Count again with --save.")
    lines, code = [], 0
    for case, count in found.items():
        before = kept["instructions"].get(case)
        if before is None:
            raise CannotCountError(f"no count is kept for case {case}. Count again with --save.")
        change = count / before - 1
        code = MORE if change > TOLERANCE else code
        verdict = "more than allowed" if change > TOLERANCE else "ok"
        verdict = "fewer: save the new count" if change < -TOLERANCE else verdict
        lines.append(f"{case}: {count / 1e9:.3f} billion instructions, {change:+.2%} of {before / 1e9:.3f}: {verdict}")
    return lines, code


def main(arguments: list[str] | None = None) -> int:
    """Count, compare or save; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one of {', '.join(CASES)}; default all")
    parser.add_argument("--save", action="store_true", help="keep the counts instead of comparing them")
    options = parser.parse_args(arguments)
    if unknown := [each for each in options.cases if each not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "capture.sqlite").write_bytes(lzma.decompress(CAPTURE.read_bytes()))
            found = {each: counted(each, Path(folder)) for each in options.cases or CASES}
        if options.save:
            earlier = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
            kept = earlier.get("instructions", {}) if earlier.get("surroundings") == surroundings() else {}
            content = {"surroundings": surroundings(), "instructions": {**kept, **found}}
            KEPT.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            print(f"{KEPT.relative_to(ROOT)}: {', '.join(f'{case} {count:,}' for case, count in found.items())}")
            return 0
        lines, code = compared(found, json.loads(KEPT.read_text(encoding="utf-8")))
    except (CannotCountError, OSError, subprocess.TimeoutExpired) as error:
        print(f"count_instructions: {error}", file=sys.stderr)
        return CANNOT_TELL
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
