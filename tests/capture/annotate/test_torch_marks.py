"""Marks of a program's calls of torch, in each Python of this machine: nothing is replaced, and each call has a range.

The programs import a small package with the parts of torch that marks are connected to. Older versions of Python cannot
monitor calls; there, optimizers and collections alone are marked.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from annotate_fixtures import pythons, write_torch

from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.monitoring import Monitor

ROOT = Path(__file__).parents[3]

PYTHONS = pythons()
MONITORING = [version for version in PYTHONS if version >= (3, 12)]
needs_monitoring = pytest.mark.skipif(not MONITORING, reason="no Python 3.12 or newer")
Started = Callable[..., list[str]]


@pytest.fixture
def heard(listener: Path, tmp_path: Path) -> Started:
    """Return a function that runs a program with marks, and returns the texts of its ranges: "+data", "-data"."""
    write_torch(tmp_path)

    def started(python: tuple[int, int], program: str, steps: str | None = None) -> list[str]:
        injection = Injection(tmp_path / "run", steps=steps)
        injection.prepare()
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        (tmp_path / "train.py").write_text(program)
        environment = injection.environment({"PYTHONPATH": str(tmp_path)})
        done = subprocess.run(
            [PYTHONS[python], str(tmp_path / "train.py")],
            env={**environment, "NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(log)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stderr, done.returncode) == ("", 0)
        texts: dict[str, str] = {}
        lines = []
        for line in log.read_text().splitlines():
            kind, *rest = line.split()
            if kind == "start":
                texts[str(len(texts) + 1)] = text = " ".join(rest[:-4])
                lines.append(f"+{text}")
            elif kind == "end":
                lines.append(f"-{texts[rest[0]]}")
        # Python collects garbage once more when it ends.
        return [each for each in [*lines, *done.stdout.splitlines()] if "garbage" not in each]

    return started


STEPS = """
import sys, torch
optimizer, other = torch.optim.Optimizer(), torch.optim.Optimizer()
wrapper, bad = torch.optim.Optimizer(optimizer), torch.optim.Optimizer(fails=True)
optimizer.step()
if sys.version_info < (3, 12):
    torch.compiler.tracing = True
    optimizer.step()
    torch.compiler.tracing = False
try: bad.step()
except ArithmeticError: pass
wrapper.step()
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_optimizer_steps_end_steps_in_each_python(python: tuple[int, int], heard: Started) -> None:
    """One around another ends none of its own, one that fails ends none, and a compiler that traces sees nothing."""
    assert heard(python, STEPS) == ["+step 1", "-step 1", "+step 2"]


HOOKS = """
import torch
from torch.optim import optimizer
print(torch.utils.hooks.RemovableHandle().id)
torch.optim.optimizer = None
handle = optimizer.register_optimizer_step_pre_hook(lambda *_: print("own"))
print(handle.id)
optimizer.Optimizer().step()
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_the_program_s_own_hooks_have_the_numbers_that_they_have_without_us(
    python: tuple[int, int], heard: Started
) -> None:
    assert heard(python, HOOKS) == ["+step 1", "0", "1", "own"]


CALLS = """
import torch
for batches in ("ab", ["bad"]):
    try:
        for batch in torch.utils.data.dataloader.DataLoader(batches):
            pass
    except ValueError: pass
torch.grad = False
next(iter(torch.utils.data.dataloader.DataLoader("c")))
torch.save({}, "x")
torch.load("x")
"""


LOOP = """
import time, torch
optimizer = torch.optim.Optimizer()
for batch in torch.utils.data.dataloader.DataLoader(range(12)):
    time.sleep(0.002)
    optimizer.step()
"""


@pytest.mark.parametrize("python", PYTHONS, ids=str)
def test_a_process_times_its_steps_and_then_records_some(
    python: tuple[int, int], heard: Started, tmp_path: Path
) -> None:
    """Nothing reaches the profiler before and after. Where Python monitors calls, the loader is timed, too."""
    lines = heard(python, LOOP, "8:10")
    assert [line for line in lines if "data" not in line] == [
        "+record",
        "+step 8",
        "-step 8",
        "+step 9",
        "-step 9",
        "-record",
    ]
    assert lines.count("+data") == (2 if python in MONITORING else 0)
    (alone,) = Injection(tmp_path / "run", steps="").steps_alone()
    assert (alone["first_step"], alone["rank"], alone["gpu_ns"]) == (3, None, None)
    host, data = alone["host_ns"], alone["data_ns"]
    assert isinstance(host, list)
    assert len(host) == 5
    assert min(host) >= 2_000_000
    assert (data is not None) is (python in MONITORING)
    assert Injection(tmp_path / "run").recorded() == [{"first": 8, "last": 9}]


OWN_RANGES = """
import contextlib, time, torch
optimizer = torch.optim.Optimizer()
def use(batch):
    time.sleep(0.002)
    optimizer.step()
def push(batch):
    torch.cuda.nvtx.range_push(f"batch {batch}")
    use(batch)
    torch.cuda.nvtx.range_pop()
def enter(batch):
    with torch.cuda.nvtx.range(f"batch {batch}"): use(batch)
def annotate(batch):
    import nvtx
    with nvtx.annotate(f"batch {batch}"): use(batch)
def push_nvtx(batch):
    import nvtx
    nvtx.push_range(f"batch {batch}")
    use(batch)
    nvtx.pop_range()
for batch in range(12):
    HOW(batch)
    time.sleep(0.02)
"""


@needs_monitoring
@pytest.mark.parametrize("how", ["push", "enter", "annotate", "push_nvtx"])
def test_a_process_records_the_steps_that_its_own_ranges_name(how: str, heard: Started, tmp_path: Path) -> None:
    """They are timed from their start to the start of the next."""
    lines = heard(MONITORING[0], OWN_RANGES.replace("HOW", how), "8:10")
    assert lines == ["+record", "+step 8", "-step 8", "+step 9", "-step 9", "-record"]
    (alone,) = Injection(tmp_path / "run", steps="").steps_alone()
    host = alone["host_ns"]
    assert isinstance(host, list)
    assert (alone["first_step"], len(host)) == (3, 5)
    assert min(host) > 20_000_000


@needs_monitoring
@pytest.mark.parametrize("python", MONITORING)
def test_calls_are_marked_where_python_can_monitor_them(python: tuple[int, int], heard: Started) -> None:
    """The last wait of an epoch gets no batch, and one for a bad batch fails: neither ends."""
    end = ["+torch.save at train.py:10", "-torch.save at train.py:10", "+torch.load at train.py:11"]
    data = ["+data", "-data"]
    epoch = ["+step 0", *data, *data, *data, "+data"]
    assert heard(python, CALLS) == [*epoch, *data, "+data", *data, *data, *end, "-torch.load at train.py:11"]


UNCHANGED = """
import sys
import torch
from torch.utils.data.dataloader import DataLoader
assert not any("nsyswrap" in type(each).__module__ for each in [*sys.meta_path, *sys.path_hooks])
for found in (torch.save, torch.load, DataLoader.__iter__, torch.optim.Optimizer.step):
    assert type(found).__name__ == "function" and not hasattr(found, "__wrapped__"), found
    assert found.__code__.co_filename.endswith(".py") and "nsyswrap" not in found.__code__.co_filename
seen = []
sys.settrace(lambda frame, event, value: seen.append(frame.f_code.co_name))
next(iter(DataLoader("a")))
torch.save({}, "x")
sys.settrace(None)
print(*seen)
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_nothing_is_replaced_and_a_tracer_sees_no_call_of_ours(python: tuple[int, int], heard: Started) -> None:
    assert heard(python, UNCHANGED)[-1] == "__init__ __iter__ __init__ __next__ save"


TAKEN = """
import sys
assert sys.monitoring.get_tool(4) == "nsyswrap" and sys.monitoring.get_tool(3) is None
import torch, wave, importlib
next(iter(torch.utils.data.dataloader.DataLoader("a")))
"""


@needs_monitoring
@pytest.mark.parametrize("python", MONITORING)
def test_a_number_for_tools_that_python_reserves_for_none_is_taken(python: tuple[int, int], heard: Started) -> None:
    assert heard(python, TAKEN)[0] == "+step 0"


TAKEN_BY_OTHERS = """
import sys
for number in (3, 4): sys.monitoring.use_tool_id(number, "other")
from nsyswrap.capture.annotate.monitoring import Monitor
Monitor()
"""


@needs_monitoring
def test_where_other_tools_took_the_numbers_there_is_a_reason() -> None:
    command = [PYTHONS[MONITORING[0]], "-c", TAKEN_BY_OTHERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "LookupError: other tools monitor the calls of this process" in done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python can monitor calls")
def test_an_older_python_cannot_monitor_calls() -> None:
    with pytest.raises(LookupError, match="only Python 3\\.12 and newer"):
        Monitor()
