"""Twelve programs of kinds that people know, each before and after the advice of its report.

    python tools/known_programs.py --gpus 4            profile them all, on so many GPUs
    python tools/known_programs.py nanogpt --gpus 1    profile one
    python tools/known_programs.py --again             write the pages from the captures in reports/programs

reports/programs has a folder for each form of a program, with `capture.sqlite.xz`, which is redacted, what `profile`
recorded beside it, and `report.html`, which is short after the advice; for both forms `compare.html`; and
`stories.json`, which the gallery shows.
"""

import argparse
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Any

from fault_captures import unpack
from gallery_results import plain
from rank_runs import drop_other_processes

from nsyswrap.base import units

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS, PROGRAMS = ROOT / "workloads", ROOT / "reports" / "programs"
NSYSWRAP = [sys.executable, "-m", "nsyswrap"]
BEFORE, AFTER = FORMS = ("before", "after")
# Three steps of warm-up and 22 that are only timed, then ten that are recorded; six of a program with long steps.
RECORDED, FEWER, STEPS, LONGEST_S = "25:35", "25:31", 40, 120
PORTS = {BEFORE: "29531", AFTER: "29533"}
PACKED, BESIDE, STORIES = "capture.sqlite.xz", ("run.json", "host.json", "alternatives.json"), "stories.json"


@dataclass(frozen=True, slots=True)
class Program:
    """A program with two forms.

    Attributes:
        name: Its folder in reports/programs.
        title: What people know it as.
        change: A sentence on what its second form does instead.
        module: What ``python -m`` runs in workloads/.
        before, after: Options of one form.
        rule: The finding that the second form answers, where that is not the first one.
    """

    name: str
    title: str
    what: str
    change: str
    module: str
    options: str = ""
    before: str = ""
    after: str = "--fixed"
    gpus: int = 1
    recorded: str = RECORDED
    rule: str = ""

    def command(self, form: str, data: Path) -> list[str]:
        """Return the command that runs a form in workloads/."""
        words = f"{self.options} {self.before if form == BEFORE else self.after} --steps {STEPS}".split()
        words += ["--data", str(data / self.name / form)] if self.module == "bert_qa" else []
        launcher = ["torch.distributed.run", "--nnodes", "1", "--nproc-per-node", str(self.gpus)]
        launcher += ["--master-addr", "127.0.0.1", "--master-port", PORTS[form]]
        started = [self.module] if self.gpus == 1 else [*launcher, f"{self.module}.py"]
        return [sys.executable, "-m", *started, *words]


def _fixes(*names: str) -> str:
    return " ".join(f"--fix {each}" for each in names)


KNOWN = (
    Program(
        *("ddp", "DDP on two GPUs", "Two ranks train residual blocks, with four micro-batches a step."),
        "The second form sums gradients in the last micro-batch only, with no_sync() around the others.",
        *("ranks/data_parallel", "", "--fault each_microbatch", "--fault none"),
        gpus=2,
        rule="communication/each_microbatch",
    ),
    Program(
        *("nanogpt", "nanoGPT", "A GPT of six layers learns random text, with attention by hand in full FP32."),
        "The second form has autocast, fused attention, 50,304 words and a fused AdamW.",
        "known.nanogpt",
    ),
    Program(
        *("resnet50", "ResNet-50", "ResNet-50 learns classes of images in FP32 without TF32, channels first."),
        "The second form trains in bfloat16 with channels last.",
        *("known.images", "--model resnet50"),
    ),
    Program(
        *("bert", "BERT", "An encoder of BERT-base's size learns to answer questions in FP32 without TF32."),
        "The second form has mixed precision and a fused AdamW.",
        *("bert_qa", "", "--optimizer single", "--amp --optimizer fused"),
    ),
    Program(
        *("vit", "ViT", "A ViT-B/16 in bfloat16 learns from two loader processes, which normalize on the CPU."),
        "The second form has twelve, which send bytes that the GPU normalizes.",
        *("known.images", "--model vit"),
    ),
    Program(
        *("recommender", "Recommender", "Many tables of embeddings and linear layers learn from pageable batches."),
        "The second form pins its batches, has a fused Adam, and reads norms of gradients at the end.",
        *("combined.recommender", "", "", _fixes("optimizer", "pinned", "norms")),
    ),
    Program(
        *("diffusion", "Diffusion", "A small U-Net learns to remove noise, with a moving average of its weights."),
        "The second form updates the average with a few kernels and reads the loss at the end.",
        "known.diffusion",
        rule="optimizer/many_kernels",
    ),
    Program(
        *("rl", "Reinforcement learning", "A policy learns from environments that play in other processes."),
        "In the second form the environments move while the policy learns.",
        "faults.environments_in_processes",
    ),
    Program(
        *("speech", "Speech", "A recurrent network learns from long sequences, and empties the allocator's cache."),
        "The second form keeps the cache and copies from pinned memory.",
        *("combined.speech", "", "", _fixes("pinned", "cache")),
    ),
    Program(
        *("lora", "LoRA", "Adapters of a frozen language model learn from four texts a step, one at a time."),
        "The second form has one batch of four, and keeps activations instead of computing them again.",
        "known.lora",
        recorded=FEWER,
    ),
    Program(
        *("moe", "Mixture of experts", "Four layers of eight experts each look up their tokens with nonzero()."),
        "The second form finds the tokens of each expert before the first step.",
        "faults.hashed_experts",
    ),
    Program(
        *("server", "Decoding server", "A server writes texts for its clients, one request and one token at a time."),
        "The second form serves all waiting requests as one batch, with a CUDA graph for each token.",
        "known.server",
        recorded=FEWER,
    ),
)


class Gpus:
    """The GPUs of the machine, each for one program at a time."""

    def __init__(self, count: int) -> None:
        """Take how many there are, of those that CUDA_VISIBLE_DEVICES names if it is set."""
        self.free: Queue[str] = Queue()
        self.turn = Lock()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        for each in visible[:count] if visible != [""] else map(str, range(count)):
            self.free.put(each)

    @contextmanager
    def taken(self, count: int) -> Iterator[str]:
        """Yield the value of CUDA_VISIBLE_DEVICES for a program that needs so many."""
        with self.turn:  # so that no two programs wait for a second one, each with one
            mine = [self.free.get() for _ in range(count)]
        try:
            yield ",".join(mine)
        finally:
            for each in mine:
                self.free.put(each)


def record(program: Program, form: str, gpus: Gpus, chosen: argparse.Namespace) -> str:
    """Profile one form, and keep its redacted capture; return what went wrong."""
    name = f"{program.name}/{form}"
    with tempfile.TemporaryDirectory() as temporary, gpus.taken(program.gpus) as visible:
        if time.monotonic() > chosen.end:
            return f"{name}: no time left"
        folder, began = Path(temporary) / "result", time.monotonic()
        options = ["--steps", program.recorded, "--timeout", str(LONGEST_S), "--cwd", str(WORKLOADS)]
        # Ranks end together by themselves. Only the first form needs alternatives of its operators.
        options += ["--stop-after"] * (program.gpus == 1) + ["--no-alternatives"] * (form == AFTER)
        words = [*NSYSWRAP, "profile", "-o", str(folder), *options, "--", *program.command(form, chosen.data)]
        shared = {"CUDA_VISIBLE_DEVICES": visible, "NCCL_NVLS_ENABLE": "0"}
        try:
            done = subprocess.run(  # noqa: S603 - nsyswrap itself
                words, env=os.environ | shared, capture_output=True, text=True, check=False, timeout=2 * LONGEST_S
            )
        except subprocess.TimeoutExpired:
            return f"{name}: took longer than {2 * LONGEST_S} s"
        print(f"{name}: {time.monotonic() - began:.1f} s, exit code {done.returncode}", flush=True)
        if done.returncode:
            return f"{name}: exit code {done.returncode}\n{done.stderr[-1500:]}"
        try:
            return keep(folder, chosen.out / name, chosen.data, of_ranks=program.gpus > 1)
        except (OSError, sqlite3.Error, RuntimeError) as error:
            return f"{name}: {error}"


def keep(folder: Path, target: Path, data: Path, *, of_ranks: bool) -> str:
    """Write the redacted capture of a run and what is beside it into a folder; return an empty text."""
    target.mkdir(parents=True, exist_ok=True)
    redacted = folder / "redacted.sqlite"
    nsyswrap("redact", folder / "capture.sqlite", "-o", redacted)
    if of_ranks:
        drop_other_processes(redacted)
    (target / PACKED).write_bytes(lzma.compress(redacted.read_bytes(), preset=6))
    run = json.loads(plain((folder / "run.json").read_text(), data))
    run |= {"host": "", "git": None}
    (target / "run.json").write_text(json.dumps(run, indent=2) + "\n")
    for each in BESIDE[1:]:
        if (folder / each).is_file():
            shutil.copyfile(folder / each, target / each)
    return ""


def record_all(programs: Sequence[Program], chosen: argparse.Namespace) -> list[str]:
    """Profile both forms of programs, on all GPUs at once; return what went wrong."""
    gpus = Gpus(chosen.gpus)
    programs = [each for each in programs if each.gpus <= chosen.gpus]
    with ThreadPoolExecutor(chosen.gpus) as pool:
        running = [pool.submit(record, each, form, gpus, chosen) for each in programs for form in FORMS]
        return [wrong for each in running if (wrong := each.result())]


def write_pages(program: Program, folder: Path) -> dict[str, Any]:
    """Write the pages of a program from its captures; return what the gallery shows of it."""
    with tempfile.TemporaryDirectory() as temporary:
        reports = {}
        for form in FORMS:
            run = Path(temporary) / form
            run.mkdir()
            for each in BESIDE:
                if (folder / form / each).is_file():
                    shutil.copyfile(folder / form / each, run / each)
            export = unpack(folder / form / PACKED, run).name
            # The commands on a page begin in the folder of its capture.
            nsyswrap("analyze", export, "--format", "json", "-o", "report.json", cwd=run)
            page = [export] if form == BEFORE else ["report.json", "--slim"]
            nsyswrap("report", *page, "--force", "-o", folder.resolve() / form / "report.html", cwd=run)
            reports[form] = json.loads((run / "report.json").read_text())
        words = [*FORMS, "--format", "html", "--force", "-o", folder.resolve() / "compare.html"]
        nsyswrap("compare", *words, codes=(0, 3), cwd=Path(temporary))
    return {"title": program.title, "story": story(program, reports[BEFORE], reports[AFTER])}


def nsyswrap(*words: object, codes: Sequence[int] = (0,), cwd: Path | None = None) -> None:
    command = [*NSYSWRAP, *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603 - itself
    if done.returncode not in codes:
        raise RuntimeError(f"nsyswrap {words[0]}: exit code {done.returncode}\n{done.stderr}")


def story(program: Program, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return five sentences: what it does, what limits it, the change, both steps, and what limits it then."""
    lengths = [step_of(each) for each in (before, after)]
    rules = [each["rule"] for each in before["findings"]]
    number = rules.index(program.rule) if program.rule in rules else 0
    said = f"Finding {number + 1} of its report" if number else "Its report said"
    return [
        program.what,
        f"{said}: “{before['findings'][number]['headline'].removesuffix('.') if number else first_sentence(before)}.”",
        program.change,
        f"A step took {lengths[0]} before and {lengths[1]} after, both without the profiler.",
        f"Now its report says: “{first_sentence(after)}.”",
    ]


def first_sentence(report: dict[str, Any]) -> str:
    """Return what limits a run by its report."""
    return str(report["verdict"]).partition(". ")[0].removesuffix(".")


def step_of(report: dict[str, Any]) -> str:
    """Return the mean step without the profiler as the page of a report has it, as a text."""
    alone = report["step"]["alone"]
    return units.duration(report["plan_base"]["step_ns"] or alone["point_ns"]) if alone else "an unknown time"


def main(arguments: list[str] | None = None) -> int:
    """Profile, or write the pages; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs (all)")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs to profile on (%(default)s)")
    parser.add_argument("--out", type=Path, default=PROGRAMS, metavar="DIR", help="where the results go (%(default)s)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="folder of drawn data")
    parser.add_argument("--seconds", type=float, default=540, metavar="S", help="start no profile after S seconds")
    parser.add_argument("--again", action="store_true", help="write the pages from the captures")
    chosen = parser.parse_args(arguments)
    chosen.out, chosen.data = chosen.out.resolve(), chosen.data.resolve()
    chosen.end = time.monotonic() + chosen.seconds
    programs = [each for each in KNOWN if not chosen.names or each.name in chosen.names]
    if not chosen.again:
        wrong = record_all(programs, chosen)
        print("\n".join(wrong), file=sys.stderr)
        return bool(wrong)
    there = [each for each in programs if all((chosen.out / each.name / form / PACKED).exists() for form in FORMS)]
    written, kept = {each.name: write_pages(each, chosen.out / each.name) for each in there}, chosen.out / STORIES
    # Programs that were not chosen keep their stories.
    stories = (json.loads(kept.read_text()) if kept.exists() else {}) | written
    if written:
        in_order = {each.name: stories[each.name] for each in KNOWN if each.name in stories}
        kept.write_text(json.dumps(in_order, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
