"""The law of marks: a program does the same alone and marked: the same bits, text and exit code.

`make law` runs all programs (``tests/support/law.py``). Here run those that broke once, and one of each kind.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import law
import pytest
from law import ALONE, ARMED, MARKED, Outcome, Program
from real_captures import more

# Programs of each kind; most of them differed once.
KEPT = (
    *("compiling:own_class_first", "watching:profiler_after_compile"),
    *(
        "watching:own_ranges",
        "watching:profiler_with_stack",
        "pickling:functions_of_torch",
        "pickling:methods_of_torch",
    ),
    *("positions:warning_of_module_to", "positions:error_in_forward", "positions:frames_in_backward_and_step"),
    *("names:attributes_of_classes", "names:identities", "hooks:optimizer_hooks", "patching:optimizer_steps"),
    *(
        "training:own_optimizer",
        "training:optimizers",
        "loading:forked_workers",
        "processes:threads_train_at_once",
        "processes:exit_in_forward",
    ),
    *("fresh_python:other_pythons", "fresh_python:own_sitecustomize"),
    *("observed_steps:eager", "observed_steps:errors_in_the_step"),
)
OWN_OPTIMIZER, OBSERVED = Program("training.py", "own_optimizer"), Program("observed_steps.py", "eager")
OF_ARMED = "test_the_program_does_the_same_when_it_records_its_steps"
# Those that `make test` runs, and the one of them that it runs armed, in a process that imports torch.
FEW_ARMED = {str(OBSERVED)}
FEW = FEW_ARMED | {
    *(str(OWN_OPTIMIZER), "loading:forked_workers", "processes:exit_in_forward", "hooks:optimizer_hooks"),
    *("positions:error_in_forward", "watching:profiler_with_stack", "fresh_python:own_sitecustomize"),
}


def chosen() -> list[Program]:
    """Return the programs that are run here."""
    return [each for each in law.programs() if str(each) in KEPT]


def cases(programs: Iterable[Program], few: Collection[str]) -> list[object]:
    """Return some programs as cases of a test; `make test` runs only few."""
    return [each if str(each) in few else more(each)[0] for each in programs]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Mapping[Program, Outcome]]:
    """Run the programs that tests want in each mode, once for all tests."""
    tests = [each for each in request.session.items if isinstance(each, pytest.Function) and hasattr(each, "callspec")]
    of_tests = [(each.originalname, str(each.callspec.params.get("program"))) for each in tests]
    found = (each for each in chosen() if str(each) in {name for _, name in of_tests})
    wanted = {OWN_OPTIMIZER, OBSERVED, *found}
    armed = {OBSERVED, *(each for each in wanted if (OF_ARMED, str(each)) in of_tests)}
    python, folder = Path(sys.executable), tmp_path_factory.mktemp("law")
    recorded = law.run(armed, (ARMED,), python, tmp_path_factory.mktemp("armed"))
    return law.run(wanted, (ALONE, MARKED), python, folder) | recorded


def test_each_program_has_a_name_of_its_own() -> None:
    """Of two functions with one name Python would keep the second."""
    found = law.programs()
    assert len(set(found)) == len(found)
    assert {str(each) for each in found} >= set(KEPT)


@pytest.mark.parametrize("program", cases(chosen(), FEW), ids=str)
def test_the_program_does_the_same(program: Program, outcomes: Mapping[str, Mapping[Program, Outcome]]) -> None:
    """The message shows what differs, line by line."""
    assert "\n".join(law.differences(outcomes[ALONE][program], outcomes[MARKED][program])) == ""


@pytest.mark.parametrize("program", cases(filter(law.runs_armed, chosen()), FEW_ARMED), ids=str)
def test_the_program_does_the_same_when_it_records_its_steps(
    program: Program, outcomes: Mapping[str, Mapping[Program, Outcome]]
) -> None:
    """It times steps and records some of them."""
    assert "\n".join(law.differences(outcomes[ALONE][program], outcomes[ARMED][program])) == ""


def test_steps_were_recorded(outcomes: Mapping[str, Mapping[Program, Outcome]]) -> None:
    """Two steps, and the range around them; nothing is sent before, and after them the ranges of an X-ray step."""
    ranges = outcomes[ARMED][OBSERVED].ranges
    assert ranges > 3 if hasattr(sys, "monitoring") else ranges == 3


def test_an_x_ray_step_was_taken_where_calls_can_be_monitored(
    outcomes: Mapping[str, Mapping[Program, Outcome]],
) -> None:
    """That is with Python 3.12 and newer."""
    assert outcomes[ARMED][OBSERVED].has_xray == hasattr(sys, "monitoring")


def test_marks_were_made(outcomes: Mapping[str, Mapping[Program, Outcome]]) -> None:
    """Otherwise the programs would be the same for another reason. Alone there are none."""
    assert outcomes[ALONE][OWN_OPTIMIZER].ranges == 0
    assert outcomes[MARKED][OWN_OPTIMIZER].ranges >= 9


def test_differences_name_what_differs() -> None:
    """They hold the exit code and the lines of stdout and stderr that were added or are missing, and nothing else."""
    alone = Outcome(code=0, stdout="a\nb\n", stderr="", ranges=0, seconds=1.0)
    other = Outcome(code=1, stdout="a\nc\n", stderr="Traceback\nValueError: wrong\n", ranges=5, seconds=2.0)
    assert law.differences(alone, replace(alone, ranges=5, seconds=2.0)) == []
    found = [line for line in law.differences(alone, other) if not line.startswith(("---", "+++", "@@"))]
    assert found == ["exit code 1, alone 0", "-b", "+c", "+Traceback", "+ValueError: wrong"]
    assert law.first_difference(law.differences(alone, other)) == "+ValueError: wrong"
    assert law.differences(alone, replace(alone, stdout="a\nb")) != []


def test_texts_without_times_and_numbers_of_processes() -> None:
    """PyTorch logs them, and they differ between any two runs."""
    logged = "W1127 01:08:25.369000 24501 torch/x.py:1] process 24589 at 0x7f0d95b21a80\n"
    assert law.without_chance(logged) == "W torch/x.py:1] process NUMBER at 0xADDRESS\n"
