"""Read random exports without end, and print each kind of failure with the number of its first case: `make fuzz`.

A case follows from its number, so `tools/fuzz.py --only 1234` repeats one and shows its traceback. Ctrl-C ends with
the counts. The exit code is 1 where a case failed.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from itertools import count, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from fuzz_checks import WHOLE_EVERY, Outcome, examine, examine_strictly

PRINT_EVERY_S = 30


def main() -> int:
    """Examine cases until the count is reached or Ctrl-C is pressed."""
    parser = argparse.ArgumentParser(description="Read random exports, and print what fails.")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, help="number of cases; without end where it is not given")
    parser.add_argument("--only", type=int, help="examine one case whole, and let its exception through")
    parser.add_argument("--every", type=int, default=WHOLE_EVERY, help="check one of so many cases whole, read others")
    given = parser.parse_args()
    if given.only is not None:
        with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
            examine_strictly(given.only, Path(folder))
        return 0
    return _run(given.first, given.count, given.every)


def _run(first: int, cases: int | None, every: int) -> int:
    """Examine cases from a number on, print failures as they come, and return the exit code."""
    counts: Counter[Outcome] = Counter()
    failures: Counter[str] = Counter()
    began = printed = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
            for number in islice(count(first), cases):
                found = examine(number, Path(folder), every=every)
                counts[found.outcome] += 1
                if found.outcome is Outcome.FAILED:
                    failures[found.reason] += 1
                    if failures[found.reason] == 1:
                        print(f"case {number}: {found.reason}", flush=True)
                if time.monotonic() - printed > PRINT_EVERY_S:
                    printed = time.monotonic()
                    _print(counts, printed - began)
    except KeyboardInterrupt:
        print()
    _print(counts, time.monotonic() - began)
    for reason, times in failures.most_common():
        print(f"{times} times: {reason}")
    return 1 if failures else 0


def _print(counts: Counter[Outcome], seconds: float) -> None:
    shown = ", ".join(f"{counts[each]} {each}" for each in Outcome)
    print(f"{counts.total()} cases in {seconds:.0f} s: {shown}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
