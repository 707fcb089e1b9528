"""An unchanged program under the real nsys: its losses stay the same, bit for bit, and its steps are recorded."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from capture_fixtures import options, python
from click.testing import CliRunner, Result
from real_captures import more

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.inherited import namespace_prefix
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.cli import cli
from nsyswrap.loop.step_detection import find_steps
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import RANGES, Trace

PROGRAM = Path(__file__).parents[1] / "support" / "annotated_program.py"
STEPS = 12  # of the program, whose import would import torch
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@dataclass(frozen=True, slots=True)
class Run:
    """A run whose calls were marked.

    Attributes:
        code: The program's exit code.
    """

    code: int
    notes: tuple[str, ...]
    trace: Trace

    def count(self, text: str) -> int:
        """Return how many of our ranges have a text."""
        ranges = self.trace[RANGES]
        return int(((ranges["text"] == text) & (ranges["domain"] == "nsyswrap")).sum())


def run(nsys: Nsys, folder: Path, command: tuple[str, ...], **fields: object) -> Run:
    """Record a program with marked calls."""
    result = profile(options(folder, *command, traces=("nvtx",), annotate=True, steps="all", **fields), nsys)
    return Run(result.exit_code, result.notes, load_export(result.export))


def can_hide() -> bool:
    """Return whether the kernel and the container allow process namespaces."""
    try:
        namespace_prefix()
    except CaptureError:
        return False
    return True


PLAIN, MIXED, RANKS = "plain", "accumulate,amp,persistent", "accumulate,ddp"
# The trainings of a run: one after another in one process, which imports torch once, or in a process that it starts.
ONE_PROCESS = "one process"
CHILD_PROCESS = "child process with a spawned worker, hidden environment, without the nvtx package"
RUNS = {ONE_PROCESS: (PLAIN, "workers", MIXED), CHILD_PROCESS: ("spawned",)}

# Starts the program in another process, and needs no torch itself.
IN_CHILD = """
import multiprocessing, runpy, sys
del sys.argv[0]
child = multiprocessing.get_context("spawn").Process(target=runpy.run_path, args=(sys.argv[0], None, "__main__"))
child.start()
child.join()
sys.exit(child.exitcode)
"""

# Runs of the program without marks and nsys, each in a process of its own. Torch is imported once for all of them.
UNMARKED = """
import os, runpy, socket, sys, torch, torch._dynamo, torch.utils.data
program, *runs = sys.argv[1:]
with socket.socket() as free:
    free.bind(("localhost", 0))
    port = str(free.getsockname()[1])
for run in runs:
    if not os.fork():
        rank, sys.argv[1] = run.split()
        del sys.argv[2:]
        if rank != "alone":
            os.environ.update(RANK=rank, WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT=port)
        runpy.run_path(program, run_name="__main__")
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in runs]
assert codes == [5 * ("alone" in runs[0])] * 2, codes
"""


@cache
def unmarked(*runs: str) -> list[str]:
    """Return the lines that two runs without marks and without nsys print."""
    command = [sys.executable, "-c", UNMARKED, str(PROGRAM), *runs]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


def printed(modes: str) -> str:
    """Return the line that a training prints, with the hash of the losses of a run without marks."""
    same = MIXED if modes == MIXED else PLAIN
    lines = unmarked(f"alone {PLAIN}", f"alone {MIXED}")
    (losses,) = [line.split()[1] for line in lines if line.endswith(f" {same.split(',')}")]
    return f"losses {losses} {modes.split(',')}\n"


@pytest.mark.parametrize("name", [ONE_PROCESS, *more(CHILD_PROCESS)])
def test_losses_and_exit_codes_are_unchanged_and_steps_are_recorded(
    name: str, nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a step from each optimizer step to the next.

    The nvtx package is not needed: the last run disables it. The program of that run sees the same files in its process
    namespace, where the kernel allows one.

    The losses are those of a run without marks. In one epoch without AMP, loader processes and a child process change
    no loss, so those trainings share the plain one.
    """
    trainings = RUNS[name]
    expected = "".join(printed(modes) for modes in trainings)
    command = (sys.executable, str(PROGRAM), *trainings)
    if "without the nvtx package" in name:
        monkeypatch.setenv("NVTX_DISABLE", "1")
        command = python(IN_CHILD, str(PROGRAM), *trainings)
    marked = run(nsys, tmp_path / "result", command, hide_environment="hidden" in name and can_hide())
    assert marked.notes == (f"The program ended with exit code {marked.code}",)
    assert capfd.readouterr().out == expected
    assert marked.code == 5
    names = list(find_steps(marked.trace).frame["name"])
    # The last step has no end. Where batches are marked, the first one begins with the first batch, and an evaluation
    # belongs to no step.
    first = 0 if sys.version_info >= (3, 12) else 1
    assert names == [f"step {number}" for number in range(first, STEPS * len(trainings))]


@pytest.mark.thorough
def test_each_rank_of_torchrun_is_marked(nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The program uses DistributedDataParallel with gradient accumulation, two processes and gloo."""
    plain = unmarked(*(f"{rank} {RANKS}" for rank in range(2)))
    marked = run(nsys, tmp_path / "result", (sys.executable, *TORCHRUN, str(PROGRAM), RANKS))
    assert sorted(capfd.readouterr().out.splitlines()) == plain
    assert [line[:6] for line in plain] == ["rank 0", "rank 1"]
    assert (
        find_steps(marked.trace).frame.groupby("process").size().to_list() == [STEPS - (sys.version_info < (3, 12))] * 2
    )


# The comparison needs only ranges. With system calls, nsys needs three times as long for the import of torch.
WITHOUT_LOADER = ("profile", "--counterfactual", "data", "--steps", "all", "--trace", "nvtx", "-o", "out", "train.py")
SLOW = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)  # threads that wait for a core would slow down steps without a loader
class Samples(Dataset):
    def __len__(self): return 80
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(4), index % 2
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Samples(), batch_size=4, num_workers=1)
for epoch in range(2):
    for inputs, labels in loader:
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
print("trained")
"""


@pytest.fixture
def without_loader(nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Result]:
    """Return a function that writes train.py, records it, and runs it without nsys with and without its loader."""
    assert nsys.version
    monkeypatch.chdir(tmp_path)

    def profiled(program: str) -> Result:
        (tmp_path / "train.py").write_text(program)
        before = os.umask(0o022)
        try:
            return CliRunner().invoke(cli, WITHOUT_LOADER)
        finally:
            os.umask(before)

    return profiled


@pytest.mark.thorough
def test_the_report_has_the_cost_of_the_loader(
    without_loader: Callable[[str], Result], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command runs the program three times, shows its output once, and returns its exit code.

    The last run uses batches of the first epoch again. Nothing of the runs without nsys is recorded.
    """
    done = without_loader(SLOW)
    assert (done.exit_code, done.stdout, capfd.readouterr().out) == (0, "", "trained\n")
    section = json.loads((tmp_path / "out" / "report.json").read_text())["sections"]["counterfactual"]
    assert section["facts"]["loader_share"]["value"] > 0.5
    assert section["notes"][0] in " ".join(done.stderr.split())
    assert [each.name for each in (tmp_path / "out").rglob("*.nsys-rep")] == ["capture.nsys-rep"]
    assert len(find_steps(load_export(tmp_path / "out" / "capture.sqlite")).frame) >= 39


def test_a_program_that_fails_is_not_run_again(
    without_loader: Callable[[str], Result], capfd: pytest.CaptureFixture[str]
) -> None:
    """Its exit code is returned, and the report says why the loader's cost is unknown."""
    done = without_loader("import sys; print('once'); sys.exit(6)")
    assert (done.exit_code, capfd.readouterr().out) == (6, "once\n")
    assert "is unknown: the program ended with exit code 6" in done.stderr


def test_a_program_without_torch_runs_without_a_note(nsys: Nsys, tmp_path: Path) -> None:
    marked = run(nsys, tmp_path / "result", python("import sys; sys.exit(len(sys.argv))"))
    assert (marked.code, marked.notes) == (1, ("The program ended with exit code 1",))
