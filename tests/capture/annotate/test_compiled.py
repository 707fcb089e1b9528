"""The compiled marker is loaded where it fits, and marks a program as the marker in Python does."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nsyswrap.capture.annotate.compiled import loaded, marker_of
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.marker import COLORS, GRAY
from nsyswrap.capture.annotate.nvtx_calls import VARIABLE

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader

class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        return self.inner(x)

torch.set_num_threads(1)
model, teacher = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), Teacher()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model.train()
    for x in DataLoader(torch.randn(6, 4), batch_size=2):
        with torch.no_grad():
            target = teacher(x)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x in DataLoader(torch.randn(6, 4), batch_size=2):
            model(x)
try:
    model(torch.randn(2, 5))
except RuntimeError:
    print("after an error")
"""


def heard(listener: Path, folder: Path, compiled: Path | None) -> tuple[list[str], str]:
    """Run the program with marks under a profiler that logs its calls; return its log, and the note on the run."""
    folder.mkdir()
    log = folder / "log"
    injection = Injection(folder / "run")
    injection.prepare()
    variables = {VARIABLE: str(listener), "LISTENER_LOG": str(log), "NVTX_DISABLE": "1"}
    environment = {"PATH": os.environ["PATH"], **variables, **injection.environment({}, compiled)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("after an error\n", "")
    (note,) = injection.notes()
    return log.read_text().splitlines(), note


def test_both_markers_mark_a_program_alike(listener: Path, tmp_path: Path, compiled_module: ModuleType) -> None:
    """The profiler hears the same calls in the same order, and a note says how phases were marked."""
    python, told = heard(listener, tmp_path / "python", None)
    compiled, told_compiled = heard(listener, tmp_path / "compiled", Path(str(compiled_module.__file__)))
    assert compiled == python
    assert [line.split()[1] for line in python if line.startswith("push")].count("backward") == 6
    assert "by nsyswrap, through the C interface" in told
    assert "by nsyswrap, in compiled code, through the C interface" in told_compiled


def test_a_module_that_cannot_be_loaded_is_left_out(listener: Path, tmp_path: Path) -> None:
    """It may be of another machine, or gone, as for a process that outlives nsyswrap: marks in Python do the same."""
    other = tmp_path / "compiled_marker.abi3.so"
    assert loaded("") is None
    assert loaded(str(other)) is None
    other.write_bytes(b"of another machine")
    assert loaded(str(other)) is None
    _, told = heard(listener, tmp_path / "run", other)
    assert "by nsyswrap, through the C interface" in told


def test_wrong_arguments_are_errors(compiled_module: ModuleType) -> None:
    """The marker is made once, from addresses and six phases."""
    phases = tuple(COLORS.items())
    with pytest.raises(ValueError, match="six phases"):
        compiled_module.Marker(1, 1, 1, phases[:5], GRAY, print)
    with pytest.raises(TypeError):
        compiled_module.Marker(1, 1)
    marker = compiled_module.Marker(1, 1, 1, phases, GRAY, print)
    with pytest.raises(ValueError, match="once"):
        marker.__init__(1, 1, 1, phases, GRAY, print)
    for name, arguments in (("begin_data", ()), ("begin_forward", (1,)), ("note_optimizer_step", (1,))):
        with pytest.raises(TypeError):
            getattr(marker, name)(*arguments)


class Calls:
    """Addresses that nothing is called at."""

    def addresses(self) -> tuple[int, int, int]:
        """Return three addresses."""
        return 1, 1, 1


class Odd:
    """A module whose mode cannot be read."""

    @property
    def training(self) -> bool:
        """Raise an error."""
        raise OSError("no mode")


def test_an_error_stops_the_marks_with_one_warning(
    compiled_module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The profiler is not called again, and the program goes on."""
    marker = marker_of(compiled_module, Calls())  # type: ignore[arg-type]
    assert marker.begin("no phase") is None
    assert capsys.readouterr().err == "nsyswrap: annotate: no more phases are marked: KeyError: 'no phase'\n"
    assert marker.begin_forward(Odd(), grad=True) is None
    assert marker.begin_backward()
    marker.finish()
    assert capsys.readouterr().err == ""
