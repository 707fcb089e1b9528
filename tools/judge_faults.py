"""Profile each program with its planted fault and without it, and say whether the report found it: `make faults`.

Each program of workloads/faults is profiled twice; the captures go, redacted, cut and packed, into
tests/captures/faults, what was found in them into reports/faults.json, and a page into docs/faults.md. Programs whose
fault lies on the host alone need no GPU: without one, only they are profiled. With --again the page alone is written,
from reports/faults.json. A root cause with too few programs is an error.
"""

import argparse
import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import fault_captures
import fault_programs
import fault_table
import held_out
import plan_table

from nsyswrap.capture.result_folder import HOST_NAME

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "workloads"
CAPTURES = ROOT / "tests" / "captures" / "faults"
PAGE = ROOT / "docs" / "faults.md"
RESULTS = ROOT / "reports" / "faults.json"
NO_GPU = "faults: there is no NVIDIA GPU here, so only faults of the host are profiled"
FORMS = ("", "--fixed")
# Beginnings of the rules that need the samples of the host.
OF_SAMPLES = ("host/", "idle/off_cpu")
LONGEST_S = 120
PACKERS = 4


def gpu_count() -> int:
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    done = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)  # noqa: S603 - NVIDIA's own
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def label(name: str, form: str) -> str:
    """Return the name of a capture: that of the program, and of its form."""
    return f"{name}-{form.strip('-')}" if form else name


def profile(program: fault_programs.Program, form: str, folder: Path, options: Sequence[str]) -> str:
    """Profile one form of one program; alternatives of operators are measured with the fault alone.

    Returns:
        What went wrong; nothing where all went well.
    """
    name, options = program.name, [*options, *(["--no-alternatives"] if form else [])]
    words = [sys.executable, "-m", "nsyswrap", "profile", "-o", str(folder), "--timeout", str(LONGEST_S)]
    program_words = [sys.executable, "-m", *program.words.split(), *form.split()]
    command = [*words, "--cwd", str(WORKLOADS), *options, "--", *program_words]
    began = time.monotonic()
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - nsyswrap itself
    print(f"{label(name, form)}: {time.monotonic() - began:.1f} s", flush=True)
    said = done.stderr.splitlines()[-30:]
    return "" if done.returncode == 0 else "\n".join([f"{label(name, form)}: exit code {done.returncode}", *said])


def redact(folder: Path, target: Path) -> None:
    words = [sys.executable, "-m", "nsyswrap", "redact", str(folder / "capture.sqlite"), "--force", "-o", str(target)]
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - nsyswrap itself


def is_of_the_host(profiled: str) -> bool:
    """Return whether a capture, by its label, is of a fault that the samples of the host explain."""
    programs = {each.name: each for each in fault_programs.find_programs(WORKLOADS / "faults")}
    program = programs.get(profiled.removesuffix("-fixed"))
    return program is not None and (program.gpus == 0 or program.rule.startswith(OF_SAMPLES))


def pack(profiled: str, folder: Path, chosen: argparse.Namespace) -> str:
    """Redact and pack one profile; return what went wrong."""
    redacted = folder / "redacted.sqlite"
    redact(folder, redacted)
    (chosen.whole / f"{profiled}.sqlite.xz").write_bytes(lzma.compress(redacted.read_bytes(), preset=6))
    try:
        fault_captures.pack(redacted, chosen.captures / f"{profiled}.sqlite.xz")
    except ValueError as error:
        return f"{profiled}: {error}"
    samples = folder / HOST_NAME
    for target in (chosen.whole, chosen.captures) if samples.exists() and is_of_the_host(profiled) else ():
        shutil.copyfile(samples, target / f"{profiled}.json")
    return ""


def record_all(programs: Sequence[fault_programs.Program], chosen: argparse.Namespace) -> list[str]:
    """Profile all programs in both forms, one after another and alone; return what went wrong.

    Other processes on the machine delay the host by milliseconds at times, so packing begins after the last profile.
    """
    wrong, profiled = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        for program, form in product(programs, FORMS):
            folder = Path(temporary) / label(program.name, form)
            if said := profile(program, form, folder, chosen.option):
                wrong.append(said)
            else:
                profiled[label(program.name, form)] = folder
        with ThreadPoolExecutor(PACKERS) as pool:
            running = [pool.submit(pack, each, folder, chosen) for each, folder in profiled.items()]
            return wrong + [said for each in running if (said := each.result())]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs of workloads/faults (all)")
    parser.add_argument("--again", action="store_true", help="write the page from the results that are there")
    parser.add_argument("--captures", type=Path, default=CAPTURES, metavar="DIR", help="where the captures lie")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the results lie")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="where the page goes")
    parser.add_argument(
        "--whole", type=Path, metavar="DIR", help="keep the whole redacted exports here; with --again, judge these"
    )
    parser.add_argument("--option", action="append", default=[], metavar="OPTION", help="pass to nsyswrap profile")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Profile and judge; 0 where every profile worked."""
    chosen = options().parse_args(arguments)
    count = 0 if chosen.again else gpu_count()
    programs = fault_programs.find_programs(WORKLOADS / "faults")
    wanted = [each for each in programs if not chosen.names or each.name in chosen.names]
    wrong: list[str] = []
    if not chosen.again and not count:
        print(NO_GPU, file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        if not chosen.again:
            chosen.whole = chosen.whole or Path(temporary)
            for folder in (chosen.captures, chosen.whole):
                folder.mkdir(parents=True, exist_ok=True)
            wrong = [f"{each.name}: left out, it needs {each.gpus} GPUs" for each in wanted if each.gpus > count]
            wanted = [each for each in wanted if each.gpus <= count]
            wrong += record_all(wanted, chosen)
        verdicts = {each.name: each for each in fault_table.read(chosen.results)}
        if chosen.whole:
            judged = fault_table.judged([chosen.whole, chosen.captures], wanted)
            verdicts |= {each.name: each for each in judged}
            fault_table.write(chosen.results, list(verdicts.values()))
    wrong += fault_programs.shortages(programs)
    more = [*plan_table.section(plan_table.CAPTURES), "", *held_out.section(held_out.RESULTS).splitlines()]
    page = fault_table.page(list(verdicts.values()), programs, more)
    chosen.page.write_text(page)
    print(page)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
