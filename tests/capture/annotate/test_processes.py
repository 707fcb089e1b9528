"""A process can start to mark its phases: the profiler's interface, the import of torch, and sitecustomize work."""

import ctypes
import importlib.util
import json
import os
import shutil
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
    """Characters that are not ASCII are replaced; what describes a range can be used many times."""
    log = tmp_path / "log"
    program = (
        "import os\nfrom nsyswrap.capture.annotate.nvtx_calls import connected\n"
        "calls = connected(os.environ)\n"
        "data = calls.described('data', 0x123456)\n"
        "outer = calls.start(calls.domain, calls.described('st\\u00e9p 1', 0x7f7f7f))\n"
        "inner = calls.start(calls.domain, data)\ncalls.end(calls.domain, outer); calls.end(calls.domain, inner)\n"
        "calls.start(calls.domain, data)"
    )
    root = str(Path(__file__).parents[3])
    variables = {"NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(log), "PYTHONPATH": root}
    done = run(program, {**variables, "NVTX_DISABLE": "1"})
    assert (done.stderr, done.returncode) == ("", 0)
    data = "start data ff123456 3 48 1"
    starts = ["start st?p 1 ff7f7f7f 3 48 1", data]
    assert log.read_text().splitlines() == ["domain nsyswrap", *starts, "end 1 1", "end 2 1", data]
    monkeypatch.setenv("LISTENER_LOG", str(log))
    for variable in ("LISTENER_REFUSES", "LISTENER_DEAF"):
        monkeypatch.setenv(variable, "1")
        with pytest.raises(LookupError):
            connected({nvtx_calls.VARIABLE: str(listener)})
        monkeypatch.delenv(variable)


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
    assert done.stderr.startswith("nsyswrap: annotate: nothing is marked: ModuleNotFoundError")
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
    assert note.startswith("Calls were not marked in 1 process: no profiler records NVTX ranges")


def test_an_unknown_torch_gives_a_note_and_works(
    prepared: tuple[Injection, dict[str, str]], listener: Path, tmp_path: Path
) -> None:
    injection, environment = prepared
    heard = {"NVTX_INJECTION64_PATH": str(listener), "LISTENER_LOG": str(tmp_path / "log")}
    done = run("import torch; print(torch.__version__)", {**environment, **heard})
    assert (done.stdout, done.stderr) == ("9.9\n", "")
    (note,) = injection.notes()
    assert "'torch' has no attribute 'compiler'" in note


OLD = {
    "2.7": "python2.7",
    **{f"3.{minor}": f"python3.{minor}" for minor in range(6, 10)},
}


@pytest.mark.parametrize("version", OLD)
def test_a_python_that_is_too_old_runs_without_a_word_and_leaves_a_note(version: str, tmp_path: Path) -> None:
    """It runs the program's own sitecustomize."""
    places = [None, *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    found = (path for place in places if (path := shutil.which(OLD[version], path=place)))
    python = next((each for each in found if not subprocess.run([each, "-c", ""], check=False).returncode), None)
    if python is None:
        pytest.skip(f"no Python {version}")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nsys.own = 1\n")
    injection = Injection(tmp_path / "run")
    injection.prepare()
    environment = injection.environment({"PYTHONPATH": str(tmp_path / "own")})
    command = [python, "-c", "import sys; print([sys.own, any('startup' in each for each in sys.path)])"]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[1, False]\n", "")
    assert injection.notes() == (f"Calls were not marked in 2 processes: Python {version} is older than 3.10",)


def test_processes_without_torch_leave_no_note(prepared: tuple[Injection, dict[str, str]]) -> None:
    injection, environment = prepared
    for flags in ((), ("-I",)):
        assert run("print(1)", environment, *flags).stdout == "1\n"
    assert injection.notes() == ()


def test_the_notes_count_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    injection = Injection(tmp_path / "run")
    injection.prepare()
    folder = Path(injection.environment({})[process_start.STATUS_VARIABLE])
    monkeypatch.setenv(process_start.STATUS_VARIABLE, str(folder))
    process_start.write_status("2.9")
    assert injection.notes() == ()
    for pid in (1, 2):
        (folder / f"{pid}.json").write_text(json.dumps({"pid": pid, "torch": "2.8", "problem": "deaf"}))
    assert injection.notes() == ("Calls were not marked in 2 processes: deaf",)


def test_a_status_file_that_cannot_be_written_gives_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable nothing is written."""
    monkeypatch.setenv(process_start.STATUS_VARIABLE, str(tmp_path / "gone"))
    process_start.write_status("2.9")
    assert "cannot write" in capsys.readouterr().err
    monkeypatch.delenv(process_start.STATUS_VARIABLE)
    process_start.write_status("2.9")
    assert capsys.readouterr().err == ""


def test_the_environment_keeps_the_program_s_path_and_requests_cached_batches(tmp_path: Path) -> None:
    path = Injection(tmp_path).environment({"PYTHONPATH": "/own:/more"})["PYTHONPATH"]
    assert path == f"{tmp_path / 'startup'}{os.pathsep}/own:/more"
    assert process_start.CACHED_BATCHES_VARIABLE not in Injection(tmp_path).environment({})
    assert Injection(tmp_path, 4).environment({})[process_start.CACHED_BATCHES_VARIABLE] == "4"


def test_a_process_that_was_killed_while_it_wrote_does_not_lose_the_notes(tmp_path: Path) -> None:
    """The same is true of the times of its ranges."""
    injection = Injection(tmp_path / "annotate", step_text="step", is_timed=True)
    injection.prepare()
    folder = Path(injection.environment({})[process_start.STATUS_VARIABLE])
    for name, text in {"1.json": "", "2.json": '{"pid": 2, "torch": "2.9", "problem": "deaf"}'}.items():
        (folder / name).write_text(text)
    for name, text in {"1.ranges.json": '{"pid": 1, "ra', "2.ranges.json": '{"pid": 2}'}.items():
        (folder / name).write_text(text)
    assert injection.notes() == ("Calls were not marked in 1 process: deaf",)
    assert injection.timed_ranges() == [{"pid": 2}]
