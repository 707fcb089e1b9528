"""Profile the cases of the literature on a GPU, and keep their results in reports/gallery: `make gallery`.

Each case gets a folder with `run.json` and a `report.json` cut to the tables that the pages read; some cases also get
`report.html` and `capture.nsys-rep`. A case that fails or takes too long is printed and left out. Programs run one
after another and alone; reports are written after the last program. With --again no program runs and no GPU is needed:
each report.json gets the verdict and the order of findings of today's rules, and all pages are written from them.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gallery_capture
import gallery_index
import gallery_page
import gallery_slim
from gallery_cases import CASES, Case
from gallery_results import (
    GALLERY,
    PRINTED,
    PRINTED_ON_CPU,
    REPORT,
    ROOT,
    SHARED,
    broken,
    cut,
    expects,
    plain,
    private_variables,
    results,
    written,
)
from judge_faults import gpu_count

NO_GPU = "gallery: this needs an NVIDIA GPU; `--again` writes the pages from the results in reports/gallery"
LONGEST_S = 60
# No profile starts with less time left than this.
SHORTEST_S = 15
# Reports written in parallel.
KEEPERS = 4
CAPTURE = "capture.nsys-rep"
CPU_STEPS = "5"
DATA = {"mnist": "mnist", "image_models": "pictures", "cifar_files": "pictures", "bert_qa": "tokens"}
DATA |= {"image_pipeline": "jpeg", "convolution": "digits"}
# Cases that together draw all data sets.
DRAWING = frozenset({
    *("mnist-8-workers", "mlp-fp32", "alexnet-8", "cifar-1-worker", "bert-fp32", "pipeline-cpu"),
    *("convolution-cudnn-100", "convolution-cudnn-1000", "convolution-cudnn-10000"),
})  # fmt: skip
NSYSWRAP = [sys.executable, "-m", "nsyswrap"]


def program(case: Case, data: Path) -> list[str]:
    """Return the command of a case, with a data folder of its own."""
    where = ["--data", str(data / DATA[case.program])] if case.program in DATA else []
    return [sys.executable, str(ROOT / "workloads" / f"{case.program}.py"), *case.options.split(), *where]


def draw(case: Case, data: Path) -> None:
    """Run a program once so that it writes its data files.

    A failure is ignored: the profile of the case reports it.
    """
    if case.program in DATA:
        command = [*program(case, data), "--device", "cpu", "--steps", "1"]
        if case.program != "convolution":  # the others draw the same for every batch size
            command += ["--batch-size", "2"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, check=False, capture_output=True, timeout=LONGEST_S)  # noqa: S603 - a workload


def profile(case: Case, folder: Path, chosen: argparse.Namespace) -> str:
    """Profile a case; return the error, or an empty text."""
    began = time.monotonic()
    if chosen.end - began < SHORTEST_S:
        return "no time left"
    words = [*NSYSWRAP, "profile", "-o", str(folder), "--timeout", str(LONGEST_S), *chosen.option, "--"]
    with (folder.parent / PRINTED).open("w") as output:
        done = subprocess.run(  # noqa: S603 - nsyswrap itself
            [*words, *program(case, chosen.data)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=2 * LONGEST_S,
        )
    print(f"{case.name}: {time.monotonic() - began:.1f} s", flush=True)
    return "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stderr[-2000:]}"


def keep(case: Case, made: Path, chosen: argparse.Namespace) -> str:
    """Write the committed files of a profile from its redacted export; return what was left out, and why."""
    folder = chosen.gallery / case.name
    folder.mkdir(parents=True, exist_ok=True)
    redacted = made / "redacted.sqlite"
    commands = [
        [*NSYSWRAP, "redact", str(made / "capture.sqlite"), "-f", "-o", str(redacted)],
        [*NSYSWRAP, "analyze", str(redacted), "--format", "json", "-f", "-o", str(made / "whole.json")],
    ]
    if case.keeps_page:
        commands.append([*NSYSWRAP, "report", str(redacted), "-f", "-o", str(folder / "report.html")])
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=2 * LONGEST_S)  # noqa: S603 - nsyswrap
    report = cut(json.loads((made / "whole.json").read_text()))
    (folder / REPORT).write_text(written(report))
    for path in (made / "run.json", made.parent / PRINTED):
        (folder / path.name).write_text(plain(path.read_text(), chosen.data))
    return keep_capture(made / CAPTURE, folder, chosen.private) if case.keeps_capture else ""


def keep_capture(made: Path, folder: Path, seen: list[str]) -> str:
    """Write a masked capture into the case's folder if it holds nothing private; return why it was left out.

    nsys copies the environment of every process it sees into a capture, and a capture cannot be redacted.
    """
    (folder / CAPTURE).unlink(missing_ok=True)  # the capture of an earlier report
    if seen:
        names = ", ".join(seen)
        return f"no capture kept: it would hold {names}; start this under `env -i` with no other process visible"
    try:
        content = gallery_capture.masked(made.read_bytes())
        inside = gallery_capture.variables(gallery_capture.unpacked(content), SHARED)
    except ValueError as error:
        return f"no capture kept: its contents cannot be checked: {error}"
    if inside:
        return f"no capture kept: it holds {', '.join(inside)}"
    (folder / CAPTURE).write_bytes(content)
    return ""


def attempt(case: Case, work: Callable[..., str], *given: object) -> str:
    """Run a part of the work for a case; return its error with the name of the case, or an empty text."""
    try:
        wrong = work(case, *given)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        wrong = f"{error}\n{getattr(error, 'stderr', b'') or ''!r}"[-2000:]
    return f"{case.name}: {wrong}" if wrong else ""


def time_on_cpu(case: Case, chosen: argparse.Namespace) -> str:
    """Run a case on the CPU without a profiler and keep its output; return the error."""
    if not (chosen.gallery / case.name).exists() or chosen.end - time.monotonic() < SHORTEST_S:
        return f"{case.name}: not timed on the CPU"
    command = [*program(case, chosen.data), "--device", "cpu", "--steps", CPU_STEPS]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST_S)  # noqa: S603 - a workload
    except subprocess.SubprocessError as error:
        return f"{case.name} on the CPU: {error}"
    (chosen.gallery / case.name / PRINTED_ON_CPU).write_text(plain(done.stdout, chosen.data))
    return ""


def record_all(cases: list[Case], chosen: argparse.Namespace) -> list[str]:
    """Profile all cases one after another, then write their reports; return the errors.

    Other work on the machine would slow down the host and the loader, so reports are written after all programs.
    """
    with ThreadPoolExecutor(len(DRAWING)) as pool:
        list(pool.map(lambda case: draw(case, chosen.data), [case for case in cases if case.name in DRAWING]))
    wrong: list[str] = []
    profiled: dict[Case, Path] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for case in cases:
            folder = Path(temporary) / case.name
            folder.mkdir()
            wrong.append(attempt(case, profile, folder / "result", chosen))
            if not wrong[-1]:
                profiled[case] = folder / "result"
        with ThreadPoolExecutor(KEEPERS) as pool:
            running = [pool.submit(attempt, case, keep, made, chosen) for case, made in profiled.items()]
            wrong += [each.result() for each in running]
    wrong += [time_on_cpu(case, chosen) for case in cases if case.name.startswith("convolution-cudnn")]
    return [each for each in wrong if each]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases (all)")
    parser.add_argument("--again", action="store_true", help="write the pages from existing results")
    parser.add_argument("--gallery", type=Path, default=GALLERY, metavar="DIR", help="where to write results")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="folder of the drawn data")
    parser.add_argument("--seconds", type=float, default=3600, metavar="S", help="start no profile after S seconds")
    parser.add_argument("--no-pages", action="store_true", help="write neither docs/results.md nor reports/index.html")
    parser.add_argument("--option", action="append", default=[], metavar="OPTION", help="pass to nsyswrap profile")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Profile and write the pages; return 0 if all cases met their EXPECTS, 1 if not, 3 without a GPU."""
    chosen = options().parse_args(arguments)
    chosen.end = time.monotonic() + chosen.seconds
    # Before nsys starts, since nsys sets variables of its own.
    chosen.private = private_variables()
    wrong: list[str] = []
    if not chosen.again:
        if not gpu_count():
            print(NO_GPU, file=sys.stderr)
            return 3
        wrong = record_all([case for case in CASES if not chosen.names or case.name in chosen.names], chosen)
    found = gallery_slim.judge_again(results(chosen.gallery), chosen.gallery)
    wrong += [lack for each in found if (lack := broken(each, expects(each.case.program)))]
    if not chosen.no_pages:
        gallery_slim.write_pages(found, chosen.gallery)
        (ROOT / "docs" / "results.md").write_text(gallery_page.page(found))
        (ROOT / "reports" / "index.html").write_text(gallery_index.page(found, chosen.gallery))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
