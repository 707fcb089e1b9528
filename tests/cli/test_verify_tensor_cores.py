"""`nsyswrap verify-tensor-cores` with a fake ncu and real programs: results, rules, exit codes and errors."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import commands
import pytest
from capture_fixtures import living, marker, until
from click.testing import Result
from export_builder import ExportBuilder
from ncu_fixtures import LAYOUT, PACKED, PRODUCT, SIMT, TRITON, VARIABLES, calls, kernel, put_on_path
from real_captures import more

from nsyswrap.capture.kernel_counters import mangled_pattern_of
from nsyswrap.capture.locate import Nsys

__all__ = ["marker"]

MMA, FMA = {"HGMMA.64x64x16.F32.BF16": 4096}, {"HFMA2.MMA": 512, "FADD": 1}
PROGRAM = (sys.executable, "-c", "print('said', 'by', 'the', 'program')")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of four kernels of one to four microseconds."""
    builder = ExportBuilder().gpu()
    for number, name in enumerate((PRODUCT, TRITON, LAYOUT, SIMT), 1):
        builder.kernel(10_000 * number, 10_000 * number + 1000 * number, name, launched=(10 * number, 10 * number + 1))
    return builder.write(tmp_path / "capture.sqlite")


def run(*arguments: str | Path, command: tuple[str, ...] = PROGRAM) -> Result:
    return commands.run("verify-tensor-cores", *arguments, "--", *command)


def test_correct_names_exit_with_0(tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unknown name gets a verdict, and the program's own output is not in the result."""
    opcodes = {PRODUCT: MMA, TRITON: MMA, LAYOUT: FMA, SIMT: FMA}
    put_on_path(tmp_path, monkeypatch, *(kernel(name, counts) for name, counts in opcodes.items()))
    result = run("--capture", capture)
    assert result.exit_code == 0, result.stderr
    assert "tensor cores, by hardware     30.0 %" in result.stdout
    assert "unknown by name, settled      20.0 %" in result.stdout
    assert "said by the program" not in result.stdout
    assert "measuring 4 launches of 4 functions, 100% of kernel time" in result.stderr
    assert "launches more" not in result.stderr


def test_a_wrong_name_fails_and_a_learned_rule_fixes_it(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This command, classify and analyze can load the saved rules."""
    opcodes = {PRODUCT: FMA, TRITON: MMA, LAYOUT: FMA, SIMT: FMA}
    put_on_path(tmp_path, monkeypatch, *(kernel(name, counts) for name, counts in opcodes.items()))
    rules, counters = tmp_path / "learned.json", tmp_path / "counters.csv"
    first = run("--capture", capture, "--save-rules", rules, "--save-counters", counters)
    assert first.exit_code == 1
    assert "name and hardware differ      10.0 %" in first.stdout
    assert PRODUCT in counters.read_text()
    assert run("--capture", capture, "--kernel-rules", rules).exit_code == 0

    named = commands.run("classify", "--format", "csv", "--kernel-rules", rules, TRITON, PRODUCT)
    assert named.stdout.splitlines()[1:] == [
        f"{TRITON},tensor,bf16,inductor,gemm,kernel_rules",
        f"{PRODUCT},simt_eligible,,cublas,gemm,kernel_rules",
    ]
    analysed = commands.run("analyze", capture, "--kernel-rules", rules, "--format", "json", "--window", "all")
    facts = json.loads(analysed.stdout)["sections"]["tensor_cores"]["facts"]
    assert (facts["tensor_ns"]["value"], facts["unknown_ns"]["value"]) == (2000, 0)


def test_kernels_with_unknown_names_are_measured_first_then_the_costliest(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_on_path(tmp_path, monkeypatch, kernel(TRITON, MMA), kernel(SIMT, FMA))
    assert run("--capture", capture, "--launches", "2").exit_code == 0
    arguments = next(each for each in calls(log) if "--kernel-id" in each)
    assert arguments[arguments.index("--kernel-id") + 1] == f"::regex:{mangled_pattern_of([TRITON, SIMT])}:1"
    assert arguments[arguments.index("--launch-count") + 1] == "2"
    assert "--clock-control none" in " ".join(arguments)


@pytest.mark.parametrize(("launches", "outcome"), [(10, "agrees"), (2, "unmeasured")])
def test_missed_kernels_are_measured_in_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launches: int, outcome: str
) -> None:
    """An ncu that counts launches by function name measures only the first instance of a template at first."""
    instances = [PACKED.replace("Gelu", other) for other in ("Gelu", "Relu", "Silu")]
    log = put_on_path(tmp_path, monkeypatch, *(kernel(name, FMA) for name in instances), failure="by-function")
    builder = ExportBuilder().gpu()
    for at, name in enumerate(instances):
        builder.kernel(1000 * at, 1000 * at + 500, name)
    capture, counters = builder.write(tmp_path / "packed.sqlite"), tmp_path / "counters.csv"
    arguments = ("--launches", str(launches), "--format", "json", "--save-counters", counters)
    result = run("--capture", capture, *arguments)
    assert result.exit_code == 0, result.stderr
    assert f"measuring {launches - 1} more launches, of 1 functions" in result.stderr
    assert {each["outcome"] for each in json.loads(result.stdout)["kernels"]} == {"agrees", outcome}
    assert counters.read_text().count('"ID",') == 2
    assert sum("--kernel-id" in each or "--kernel-name" in each for each in calls(log)) == 2


def test_nothing_measured_exits_with_3(tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured kernels have other template arguments."""
    put_on_path(tmp_path, monkeypatch, kernel(LAYOUT.replace("__half", "float"), FMA))
    assert run("--capture", capture).exit_code == 3


def test_a_program_without_kernels_exits_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch)
    capture = ExportBuilder().gpu().copy(0, 1000).write(tmp_path / "copies.sqlite")
    result = run("--capture", capture)
    assert (result.exit_code, "ran no kernel" in result.stderr) == (3, True)


def test_a_failing_program_gives_a_note_and_its_measurements_are_used(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, MMA))
    result = run("--capture", capture, command=(sys.executable, "-c", "raise SystemExit(7)"))
    assert result.exit_code == 0
    assert "note: ncu ended with code 7" in result.stderr


def test_a_missing_ncu_is_an_error_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NSYSWRAP_NCU", str(tmp_path / "gone"))
    marker = tmp_path / "ran"
    result = run(command=(sys.executable, "-c", f"open({str(marker)!r}, 'w')"))
    assert (result.exit_code, marker.exists()) == (1, False)
    assert "NSYSWRAP_NCU is" in result.stderr


def test_an_existing_result_is_an_error_before_anything_runs(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, MMA))
    there = tmp_path / "there.json"
    there.write_text("mine")
    for option in ("-o", "--save-rules", "--save-counters"):
        assert run("--capture", capture, option, there).exit_code == 2
    assert run("--capture", capture, "-o", tmp_path / "no" / "folder").exit_code == 2
    assert (there.read_text(), log.exists()) == ("mine", False)
    assert run("--capture", capture, "-o", there, "--format", "json", "--force").exit_code == 0
    assert json.loads(there.read_text())["gpu"] == "NVIDIA H200"


def test_an_invalid_rules_file_is_an_error_before_anything_runs(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, MMA))
    (tmp_path / "rules.json").write_text("{}")
    result = run("--capture", capture, "--kernel-rules", tmp_path / "rules.json")
    assert (result.exit_code, log.exists()) == (2, False)
    for command in ("analyze", "report"):
        found = commands.run(command, capture, "--kernel-rules", tmp_path / "rules.json")
        assert (found.exit_code, "not a file of kernel rules" in found.stderr) == (2, True)


def test_a_missing_program_is_an_error(tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, MMA))
    result = run("--capture", capture, command=("no-such-program",))
    assert (result.exit_code, "command not found" in result.stderr) == (1, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, *more(signal.SIGHUP, signal.SIGINT)])
def test_ncu_ends_when_the_command_is_ended(
    tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch, marker: str, number: signal.Signals
) -> None:
    """After a scheduler's signal no ncu keeps running and holding the GPU's counters.

    The number of processes does not tell that ncu runs: until a new process has loaded its program, it has the command
    line of the one that started it.
    """
    log = put_on_path(tmp_path, monkeypatch, failure="hangs")
    program = [sys.executable, "-m", "nsyswrap", "verify-tensor-cores", "--capture", str(capture), "--", "true", marker]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: log.exists() and marker in log.read_text(encoding="utf-8"), "ncu")
        process.send_signal(number)
        assert process.wait(30) == (130 if number == signal.SIGINT else 1)
    until(lambda: not living(marker), "the end of ncu")


def test_without_a_capture_the_program_is_recorded_first(
    tmp_path: Path, nsys: Nsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This uses the real nsys. Without a GPU there are no kernels to choose from, which is an error."""
    put_on_path(tmp_path, monkeypatch)
    monkeypatch.setenv("NSYSWRAP_NSYS", str(nsys.path))
    result = run()
    assert (result.exit_code, "ran nothing on a GPU" in result.stderr) == (3, True)
