"""Programs that make it hard to change them from outside come through `nsyswrap try` unharmed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from capture_fixtures import options
from forked_programs import ForkedPrograms
from hostile_programs import HOSTILE

from nsyswrap.capture.options import CaptureOptions
from nsyswrap.experiments.request import Answer, Request, run_request

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
# So many steps hold turns of each change, and end before all of them: a program is ended when all are tried.
STEPS = 300
TURNS = ("fused", "zero_grad", "gc", "foreach", "threads")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@pytest.fixture(scope="module")
def programs() -> Iterator[ForkedPrograms]:
    found = ForkedPrograms({"OMP_NUM_THREADS": "1"})
    yield found
    found.close()


@dataclass
class Ran:
    """What came of a program.

    Attributes:
        words: What it printed, without its numbers.
    """

    code: int
    words: list[str]
    numbers: list[float]
    files: dict[str, int]


def ran(programs: ForkedPrograms, name: str, folder: Path, request: Request | None) -> tuple[Ran, Answer]:
    """Run a program, tried or alone, and return what came of it and of what was tried."""
    cwd, script, output = folder / "work", folder.parent / "program.py", folder / "output"
    cwd.mkdir(parents=True)
    script.write_text(HOSTILE[name].with_steps(STEPS))
    codes = list[int]()

    def run(given: CaptureOptions) -> int:
        job = {"script": str(script), "cwd": str(cwd), "output": str(output), "environment": dict(given.environment)}
        codes.append(programs.run(**job))
        return codes[0]

    settings = options(folder / "out", "python", cwd=cwd)
    answer = Answer(run(settings), ()) if request is None else run_request(request, settings, run)
    text = output.read_text()
    files = {str(each.relative_to(cwd)): each.stat().st_size for each in cwd.rglob("*") if each.is_file()}
    return Ran(codes[0], NUMBER.sub("#", text).split("\n"), list(map(float, NUMBER.findall(text))), files), answer


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_ends_as_alone(name: str, programs: ForkedPrograms, tmp_path: Path) -> None:
    """It prints the same within rounding, writes the same files, and ends in the same way."""
    alone, _ = ran(programs, name, tmp_path / "alone", None)
    request = Request(turns=TURNS * 9, processes=("workers",), budget_s=600.0, block_s=1e-6)
    tried, answer = ran(programs, name, tmp_path / "tried", request)
    assert (list(answer.of("error")), answer.refused) == ([], "")
    assert "failed" not in [each["verdict"] for each in answer.of("result")], list(answer.of("result"))
    assert tried.code == alone.code
    if "repeat" not in HOSTILE[name].refused:
        assert tried.words == alone.words
        assert tried.numbers == pytest.approx(alone.numbers, rel=1e-3, abs=1e-4, nan_ok=True)
        assert tried.files == alone.files
