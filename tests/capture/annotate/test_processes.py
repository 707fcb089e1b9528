"""A process can start to mark its phases: the profiler's interface, the import of torch, and sitecustomize work."""

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nsyswrap.capture.annotate import nvtx_calls, process_start
from nsyswrap.capture.annotate.import_hook import AfterImport, after_import
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.nvtx_calls import NvtxCalls, Tables, connected


def run(program: str, environment: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new Python, with only PATH and these variables."""
    return subprocess.run(
        [sys.executable, *flags, "-c", program],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_ranges_reach_a_profiler_with_name_colour_and_domain(
    listener: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Characters that are not ASCII are replaced; a prepared call can open its range many times."""
    log = tmp_path / "log"
    program = (
        "import os\nfrom nsyswrap.capture.annotate.nvtx_calls import connected\n"
        "calls = connected(os.environ)\n"
        "data, described = calls.opener('data', 0x123456)\n"
        "step, numbered = calls.opener('st\\u00e9p 1', 0x7f7f7f)\n"
        "close, domain = calls.closer()\n"
        "for _ in range(2):\n    data(*described); close(*domain)\n"
        "step(*numbered); close(*domain)"
    )
    root = str(Path(__file__).parents[3])
    variables = {"NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(log), "PYTHONPATH": root}
    done = run(program, {**variables, "NVTX_DISABLE": "1"})
    assert (done.stderr, done.returncode) == ("", 0)
    pushes = ["push data ff123456 3 48 1", "pop 1"] * 2 + ["push st?p 1 ff7f7f7f 3 48 1", "pop 1"]
    assert log.read_text().splitlines() == ["domain nsyswrap", *pushes]
    monkeypatch.setenv("LISTENER_LOG", str(log))
    for variable in ("LISTENER_REFUSES", "LISTENER_DEAF"):
        monkeypatch.setenv(variable, "1")
        with pytest.raises(LookupError):
            connected({nvtx_calls.VARIABLE: str(listener)})
        monkeypatch.delenv(variable)


@pytest.mark.parametrize(
    ("before", "disabled", "calls"),
    [
        ("", "", "PackageCalls"),
        ("", "1", "NvtxCalls"),
        ("nvtx_calls.TESTED = {'0.2.13'}", "", "NvtxCalls"),
        ("import sys; sys.modules['nvtx'] = None", "", "NvtxCalls"),
    ],
    ids=["there", "switched off", "of another version", "not to be imported"],
)
def test_the_nvtx_package_is_used_if_its_version_is_tested(
    listener: Path, tmp_path: Path, before: str, disabled: str, calls: str
) -> None:
    """The profiler gets the same number of ranges in both ways; the package registers their texts."""
    log = tmp_path / "log"
    program = (
        "import os\nfrom nsyswrap.capture.annotate import nvtx_calls\n"
        f"{before}\n"
        "calls = nvtx_calls.connected(os.environ)\n"
        "print(type(calls).__name__)\n"
        "data, described = calls.opener('data', 0x123456)\n"
        "close, domain = calls.closer()\n"
        "for _ in range(3):\n    data(*described); close(*domain)"
    )
    variables = {"NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(log), "NVTX_DISABLE": disabled}
    done = run(program, {**variables, "PYTHONPATH": str(Path(__file__).parents[3])})
    assert (done.stdout, done.stderr) == (f"{calls}\n", "")
    heard = [line.split() for line in log.read_text().splitlines()]
    assert [words[0] for words in heard if words[0] in {"push", "pop"}] == ["push", "pop"] * 3
    assert ["domain", "nsyswrap"] in heard
    assert {words[2] for words in heard if words[0] == "push"} == {"ff123456"}


def test_without_a_profiler_there_is_an_error() -> None:
    """There may be no profiler, a missing library, or tables that stay empty."""
    with pytest.raises(LookupError, match="NVTX_INJECTION64_PATH is not set"):
        connected({})
    with pytest.raises(OSError, match="gone"):
        connected({nvtx_calls.VARIABLE: "/gone/lib.so"})
    with pytest.raises(LookupError, match="no profiler records"):
        NvtxCalls(Tables())


def test_attributes_are_laid_out_as_in_c() -> None:
    """The structure has 48 bytes, and the message is last."""
    attributes = nvtx_calls._Attributes  # noqa: SLF001 - its layout is its contract
    assert (ctypes.sizeof(attributes), attributes.message.offset, attributes.color.offset) == (48, 40, 12)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that is not imported yet."""
    (tmp_path / "late_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "late_module", raising=False)
    return "late_module"


def test_the_function_is_called_after_the_import_of_the_module(module: str) -> None:
    """It is called once, with the complete module; the hook then removes itself, and find_spec alone has no effect."""
    seen: list[int] = []
    before = list(sys.meta_path)
    after_import(module, lambda found: seen.append(found.VALUE))
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith("late_module.py")
    assert seen == []
    found = importlib.import_module(module)
    assert (seen, sys.meta_path) == ([1], before)
    assert found.__spec__ is not None
    assert "exec_module" not in vars(found.__spec__.loader)
    after_import(module, lambda found: seen.append(found.VALUE + 1))
    assert seen == [1, 2]


def test_two_functions_can_wait_for_one_module(module: str) -> None:
    """Each is called once, and both hooks remove themselves."""
    seen: list[int] = []
    before = list(sys.meta_path)
    after_import(module, lambda found: seen.append(found.VALUE))
    after_import(module, lambda found: seen.append(found.VALUE + 1))
    found = importlib.import_module(module)
    assert (sorted(seen), sys.meta_path) == ([1, 2], before)
    assert found.__spec__ is not None
    assert "exec_module" not in vars(found.__spec__.loader)


def test_other_and_missing_modules_are_left_to_other_finders() -> None:
    finder = AfterImport("nowhere_at_all", print)
    assert (finder.find_spec("json"), finder.find_spec("nowhere_at_all")) == (None, None)


def test_a_loader_that_cannot_be_changed_still_loads() -> None:
    """It may have no instance attributes, or no exec_module."""
    watch = AfterImport("x", print)._watch  # noqa: SLF001 - odd loaders cannot be had otherwise

    class Slotted:
        __slots__ = ()

        def exec_module(self, module: ModuleType) -> None:
            """Do nothing."""

    watch(Slotted())
    watch(object())


def test_the_program_s_own_sitecustomize_runs(tmp_path: Path) -> None:
    """It is the module of that name, with the program's path, and its errors are not caught."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nsys.own = __name__, __file__\n")
    injection = Injection(tmp_path / "run")
    injection.prepare()
    environment = injection.environment({"PYTHONPATH": str(tmp_path / "own")})
    show = "import sys, sitecustomize; print(sys.own, sitecustomize.__file__, sys.argv, 'startup' in ''.join(sys.path))"
    done = run(show, environment)
    own = str(tmp_path / "own" / "sitecustomize.py")
    assert done.stdout == f"{('sitecustomize', own)} {own} ['-c'] False\n"
    assert done.stderr == ""
    (tmp_path / "own" / "sitecustomize.py").write_text("1 / 0\n")
    assert "ZeroDivisionError" in run("pass", environment).stderr


def test_without_another_sitecustomize_the_module_is_ours_and_children_inherit_it(tmp_path: Path) -> None:
    injection = Injection(tmp_path / "run")
    injection.prepare()
    child = (
        "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'import sys; print(sys.argv)']))"
    )
    done = run(child, injection.environment({}))
    assert (done.stdout, done.stderr) == ("b\"['-c']\\n\"\n", "")


def test_a_missing_package_gives_a_warning_and_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may run longer than nsyswrap."""
    monkeypatch.setattr("nsyswrap.capture.annotate.injection.PACKAGE", tmp_path / "gone")
    injection = Injection(tmp_path / "run")
    injection.prepare()
    done = run("print('ran')", injection.environment({}))
    assert done.stdout == "ran\n"
    assert done.stderr.startswith("nsyswrap: annotate: no phases are marked: ModuleNotFoundError")
    assert done.stderr.count("\n") == 1


FAKE_TORCH = """
__version__ = "9.9"
class {name}: pass
"""


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Injection, dict[str, str]]:
    """Return an injection and the environment of a program with an empty torch."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "torch.py").write_text(FAKE_TORCH.format(name="Empty"))
    injection = Injection(tmp_path / "run")
    injection.prepare()
    return injection, injection.environment({"PYTHONPATH": str(tmp_path / "path")})


def test_without_a_profiler_a_note_has_the_reason(
    prepared: tuple[Injection, dict[str, str]],
) -> None:
    injection, environment = prepared
    done = run("import torch; print(torch.__version__)", environment)
    assert (done.stdout, done.stderr) == ("9.9\n", "")
    (note,) = injection.notes()
    assert note.startswith("No phases were marked in a process with PyTorch: no profiler records")


def test_an_unknown_torch_gives_a_warning_and_works(
    prepared: tuple[Injection, dict[str, str]], listener: Path, tmp_path: Path
) -> None:
    """There is one line on stderr, and the program runs."""
    _, environment = prepared
    heard = {"NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(tmp_path / "log")}
    done = run("import torch; print(torch.__version__)", {**environment, **heard})
    assert done.stdout == "9.9\n"
    assert done.stderr.startswith("nsyswrap: annotate: no phases are marked: AttributeError")
    assert done.stderr.count("\n") == 1


def test_a_python_that_ignores_its_environment_leaves_a_note(prepared: tuple[Injection, dict[str, str]]) -> None:
    injection, environment = prepared
    assert run("print(1)", environment, "-I").stdout == "1\n"
    (note,) = injection.notes()
    assert note.startswith("No phases were marked: no process of the program imported torch")


def test_the_notes_count_processes_and_name_torch(tmp_path: Path) -> None:
    injection = Injection(tmp_path / "run")
    injection.prepare()
    variable = {process_start.STATUS_VARIABLE: injection.environment({})[process_start.STATUS_VARIABLE]}
    torch = ModuleType("torch")
    torch.__version__ = "2.9"  # type: ignore[attr-defined]
    process_start.write_status(torch, variable)
    assert injection.notes()[0].startswith("Phases were marked in 1 process by nsyswrap")
    folder = Path(variable[process_start.STATUS_VARIABLE])
    for pid in (1, 2):
        (folder / f"{pid}.json").write_text(
            json.dumps({"pid": pid, "torch": "2.8", "problem": "deaf" if pid == 2 else ""})
        )
    assert injection.notes() == (
        "Phases were marked in 2 processes by nsyswrap, through the C interface of NVTX (torch 2.8, 2.9)",
        "No phases were marked in a process with PyTorch: deaf",
    )


def test_a_status_file_that_cannot_be_written_gives_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the variable nothing is written."""
    torch = ModuleType("torch")
    process_start.write_status(torch, {process_start.STATUS_VARIABLE: str(tmp_path / "gone")})
    assert "cannot write" in capsys.readouterr().err
    process_start.write_status(torch, {})
    assert capsys.readouterr().err == ""


def test_the_environment_keeps_the_program_s_path_and_requests_cached_batches(tmp_path: Path) -> None:
    path = Injection(tmp_path).environment({"PYTHONPATH": "/own:/more"})["PYTHONPATH"]
    assert path == f"{tmp_path / 'startup'}{os.pathsep}/own:/more"
    assert process_start.CACHED_BATCHES_VARIABLE not in Injection(tmp_path).environment({})
    assert Injection(tmp_path, 4).environment({})[process_start.CACHED_BATCHES_VARIABLE] == "4"


def test_a_process_that_was_killed_while_it_wrote_does_not_lose_the_notes(tmp_path: Path) -> None:
    """The same is true of the times of its ranges."""
    injection = Injection(tmp_path / "annotate", timed_text="step")
    injection.prepare()
    folder = Path(injection.environment({})[process_start.STATUS_VARIABLE])
    for name, text in {"1.json": "", "2.json": '{"pid": 2, "torch": "2.9", "problem": ""}'}.items():
        (folder / name).write_text(text)
    for name, text in {"1.ranges.json": '{"pid": 1, "ra', "2.ranges.json": '{"pid": 2}'}.items():
        (folder / name).write_text(text)
    assert [note[:33] for note in injection.notes()] == ["Phases were marked in 1 process b"]
    assert injection.timed_ranges() == [{"pid": 2}]
