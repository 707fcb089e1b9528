"""Compare operations and rate of large products in a report with the counters of ncu, on a GPU.

    python tools/hardware_checks/product_counters.py --out FOLDER [KIND ...]

Each kind of `product_loop.py` runs under `nsyswrap profile` and under ncu, with the clocks of the GPU as they are. Both
say how many operations the products of a step take, and how long. A row has both, and how far they differ.
"""

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from nsyswrap.capture.kernel_counters import counter_lists, find_ncu

HERE = Path(__file__).resolve().parent
KINDS = ("bfloat16", "tf32", "fp32")
PRODUCTS, LIMIT_S, RECORDED = 3, 240, "10:20"
# Kernels that multiply matrices, by the names that cuBLAS and CUTLASS give them.
KERNELS = "regex:gemm|nvjet|cutlass|xmma"
# Operations on tensor cores by type; with and without sparsity are parts of them. On CUDA cores an FMA counts as two.
ON_TENSOR_CORES = re.compile(r"sm__ops_path_tensor(_op_[a-z0-9]+)?_src_[a-z0-9]+(_dst_[a-z0-9]+)?$")
ON_CUDA_CORES = {f"sm__sass_thread_inst_executed_op_f{name}_pred_on": count for name, count in
                 (("fma", 2), ("add", 1), ("mul", 1))}  # fmt: skip
TIME = "gpu__time_duration"
IN_NS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


class Work(NamedTuple):
    """Operations of some products, the time that they took in ns, and how many kernels they are."""

    operations: float
    ns: float
    kernels: int

    @property
    def rate(self) -> float:
        """Return the rate in 10^12 operations per second."""
        return self.operations / self.ns / 1e3 if self.ns else 0.0


def run(words: list[str]) -> str:
    found = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)  # noqa: S603 - our words
    if found.returncode:
        raise OSError(f"{words}: {(found.stdout + found.stderr)[-1500:]}")
    return found.stdout


def in_report(kind: str, folder: Path) -> Work:
    """Return the products of all measured steps, as the report has them."""
    profile = ("profile", "--output", str(folder / kind), "--force", "--quiet", "--steps", RECORDED, "--")
    run([sys.executable, "-m", "nsyswrap", *profile, sys.executable, str(HERE / "product_loop.py"), kind])
    report = json.loads((folder / kind / "report.json").read_text(encoding="utf-8"))
    section = report["sections"]["operators"]
    facts = {label: fact["value"] for label, fact in section["facts"].items()}
    print(json.dumps({"kind": kind, "facts": facts, "peak": section["tables"]["peak"]}))
    rows = [each for each in section["tables"]["operators"] if each["operator"].endswith(("mm", "linear"))]
    return Work(*(sum(each[name] or 0 for each in rows) for name in ("operations", "total_ns", "count")))


def in_counters(kind: str, folder: Path) -> Work:
    """Return the products of one step, as ncu counts them."""
    ncu = find_ncu()
    known = {name for names in counter_lists(ncu) for name in names}
    names = [each for each in known if ON_TENSOR_CORES.match(each)] + [each for each in ON_CUDA_CORES if each in known]
    output = run([
        *(str(ncu.path), "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw"),
        *("--print-units", "base", "--kernel-name", KERNELS),
        *("--launch-skip", str(4 * PRODUCTS), "--launch-count", str(2 * PRODUCTS)),
        *("--metrics", ",".join(f"{each}.sum" for each in (TIME, *sorted(names)))),
        *(sys.executable, str(HERE / "product_loop.py"), kind),
    ])  # fmt: skip
    (folder / f"{kind}.csv").write_text(output, encoding="utf-8")
    return work_in(output)


def work_in(output: str) -> Work:
    """Return the products in a raw page of ncu: a row of names, a row of units, and a row for each launch."""
    units, *launches = csv.DictReader(io.StringIO(output[output.index('"ID"') :]))
    found = Work(0, 0, 0)
    for each in launches:
        values = {name.removesuffix(".sum"): number(value) for name, value in each.items() if name}
        tensor = max((value for name, value in values.items() if ON_TENSOR_CORES.match(name)), default=0.0)
        simple = sum(values.get(name, 0.0) * count for name, count in ON_CUDA_CORES.items())
        ns = values[TIME] * IN_NS[units[f"{TIME}.sum"]]
        print(each["Kernel Name"][:80], f"{ns:.0f} ns", f"{max(tensor, simple):.5g} operations")
        found = Work(found.operations + max(tensor, simple), found.ns + ns, found.kernels + 1)
    return found


def number(text: str) -> float:
    """Return a number as ncu writes it; 0 for anything else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = f"{HERE.parent.parent}:{os.environ.get('PYTHONPATH', '')}"
    print("| kind | TFLOP/s here | by ncu | differ by | one product here | by ncu |\n|---|---|---|---|---|---|")
    for kind in chosen.kinds:
        try:
            ours, theirs = in_report(kind, chosen.out), in_counters(kind, chosen.out)
        except (OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{kind}: {error!r}", flush=True)
            continue
        differ = ours.rate / theirs.rate - 1 if theirs.rate else float("nan")
        one, counted = (each.operations / max(each.kernels, 1) for each in (ours, theirs))
        numbers = (f"{ours.rate:.1f}", f"{theirs.rate:.1f}", f"{differ:+.1%}", f"{one:.5g}", f"{counted:.5g}")
        print(f"| {kind} | {' | '.join(numbers)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
