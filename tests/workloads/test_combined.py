"""The programs with several faults: they state what they show, and run the same steps whichever fault is fixed."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from fault_programs import constants

from nsyswrap.rules import RULES

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
NAMES = sorted(path.stem for path in (WORKLOADS / "combined").glob("*.py") if path.stem not in {"__init__", "switches"})
STEPS = 3
# The modules of the libraries whose training loops the programs run.
MODULES = {"transformers": ("transformers", "accelerate"), "Lightning": ("lightning",), "": ()}


def constants_of(name: str) -> dict[str, Any]:
    """Return the constants that describe a program."""
    return {"LIBRARY": "", **constants(WORKLOADS / "combined" / f"{name}.py")}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_has_two_or_three_faults_of_different_rules(name: str) -> None:
    faults = constants_of(name)["FAULTS"]
    assert len(set(faults.values())) == len(faults) in {2, 3}
    assert set(faults.values()) <= set(RULES)


def test_there_are_eight_programs_of_different_shape() -> None:
    """Two of the programs run the training loop of a library."""
    found = [constants_of(name) for name in NAMES]
    assert len({str(each["SHAPE"]) for each in found}) == len(found) >= 8
    assert {str(each["LIBRARY"]) for each in found} == set(MODULES)


@pytest.mark.usefixtures("shared")
@pytest.mark.filterwarnings("ignore:::lightning", "ignore:::transformers", "ignore:::torch")
@pytest.mark.parametrize("name", NAMES)
def test_a_program_does_the_same_steps_with_all_faults_and_with_none(
    name: str, events: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program runs small steps on a CPU, and its output says what was fixed."""
    described = constants_of(name)
    for module in MODULES[str(described["LIBRARY"])]:
        pytest.importorskip(module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    program = importlib.import_module(f"combined.{name}")
    faults = described["FAULTS"]
    for fixed in ([], sorted(faults)):
        events.clear()
        switches = [word for each in fixed for word in ("--fix", each)]
        program.main([*switches, "--steps", str(STEPS), "--device", "cpu"])
        assert [each for each in events if each.startswith("+batch ")] == [
            f"+batch {number}" for number in range(STEPS)
        ]
        assert capsys.readouterr().out.endswith(f"with {', '.join(fixed) or 'nothing'} fixed\n")


@pytest.mark.usefixtures("shared")
def test_an_unknown_switch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        importlib.import_module("combined.language").main(["--fix", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
