"""What run.json says, and what it does not say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from capture_fixtures import executable, options

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.run_record import (
    git_state,
    program_versions,
    run_record,
    shareable_command,
    shareable_environment,
)

NSYS = Nsys(Path("/opt/nsys"), (2023, 4, 4, 54), "test")


def result_of(wanted: CaptureOptions, exit_code: int = 0) -> CaptureResult:
    """A finished capture of some options."""
    folder = wanted.folder
    return CaptureResult(
        folder=folder,
        report=folder / "capture.nsys-rep",
        export=folder / "capture.sqlite",
        exit_code=exit_code,
        wall_ns=1_500_000_000,
        command=wanted.command,
        nsys=NSYS,
        notes=("a note",),
    )


def git(folder: Path, *arguments: str) -> None:
    """Run git as nobody in particular."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit of a script."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    git(folder, "init", "-q")
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_record_has_all_that_the_contract_names(tmp_path: Path) -> None:
    """Command, environment, versions, git commit, exit code and wall time; it is plain JSON."""
    wanted = options(tmp_path / "r", sys.executable, "train.py", cwd=tmp_path)
    record = run_record(result_of(wanted, 3), wanted, "1.2.3", {"PATH": "/bin"})
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        "schema",
        "command",
        "environment",
        "versions",
        "git",
        "exit_code",
        "wall_ns",
        "notes",
    }
    assert (record["schema"], record["exit_code"], record["wall_ns"]) == ("nsyswrap.run/1", 3, 1_500_000_000)
    assert record["notes"] == ["a note"]


def test_the_versions_are_those_of_all_that_took_part(tmp_path: Path) -> None:
    """Ours, that of nsys, and those of the program's Python."""
    wanted = options(tmp_path / "r", sys.executable, "-c", "pass")
    versions = run_record(result_of(wanted), wanted, "1.2.3", {})["versions"]
    assert isinstance(versions, dict)
    assert (versions["nsyswrap"], versions["nsys"]) == ("1.2.3", "2023.4.4.54")
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_no_value_of_a_variable_is_told_but_of_those_that_tell_how_it_computed() -> None:
    """Names of all, values of few."""
    told = shareable_environment(
        {"WANDB_API_KEY": "s3cret", "CUDA_VISIBLE_DEVICES": "0,1", "FOO": "bar", "OMP_NUM_THREADS": "4"}
    )
    assert told["names"] == ["CUDA_VISIBLE_DEVICES", "FOO", "OMP_NUM_THREADS", "WANDB_API_KEY"]
    assert told["values"] == {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize("name", ["TORCH_HUB_TOKEN", "NCCL_SECRET", "PYTORCH_API_KEY"])
def test_a_secret_of_a_telling_family_is_not_told(name: str) -> None:
    """The family is known by its beginning, the secret by the rest."""
    assert shareable_environment({name: "s3cret"})["values"] == {}


def test_home_folders_in_values_are_not_told() -> None:
    """A path is told without the user's name."""
    assert shareable_environment({"TORCH_HOME": "/home/ada/torch"})["values"] == {"TORCH_HOME": "~/torch"}


def test_a_hidden_environment_is_recorded_as_the_program_had_it(tmp_path: Path) -> None:
    """Variables that it did not get are not named."""
    wanted = options(tmp_path, "true", hide_environment=True, environment=(("ADDED", "1"),))
    environment = run_record(result_of(wanted), wanted, "1", {"PATH": "/bin", "WANDB_API_KEY": "x"})["environment"]
    assert environment == {"names": ["ADDED", "PATH"], "values": {}}


def test_paths_are_relative_to_the_working_folder() -> None:
    """Also behind an equals sign."""
    command = ("/opt/python", "/jobs/a/train.py", "--data=/jobs/a/data", "/jobs/abc", "x:/jobs/a/b")
    shared = shareable_command(command, Path("/jobs/a"), "/home/ada")
    assert shared == ["/opt/python", "train.py", "--data=data", "/jobs/abc", "x:b"]


def test_the_home_folder_is_a_tilde() -> None:
    """Any home, wherever it lies, and nothing that only begins like it."""
    shared = shareable_command(("/data/ada/bin/python", "--out=/data/ada", "/data/adam/x"), Path("/w"), "/data/ada")
    assert shared == ["~/bin/python", "--out=~", "/data/adam/x"]


def test_secrets_on_the_command_line_are_withheld() -> None:
    """By the name of their option."""
    assert shareable_command(("train", "--api-key=s3cret", "--lr=1"), Path("/w"), "") == [
        "train",
        "--api-key=***",
        "--lr=1",
    ]


def test_a_home_of_one_slash_changes_nothing() -> None:
    """Some containers have that."""
    assert shareable_command(("/bin/x", "/a"), Path("/w"), "/") == ["/bin/x", "/a"]


def test_a_clean_repository(repository: Path) -> None:
    """Its commit, and that nothing differs from it; untracked files do not count."""
    (repository / "new.txt").write_text("untracked")
    state = git_state(repository)
    assert state is not None
    assert len(str(state["commit"])) == 40
    assert state["dirty"] is False


def test_a_changed_repository_is_dirty(repository: Path) -> None:
    """The commit alone would not be what ran."""
    (repository / "train.py").write_text("changed\n")
    state = git_state(repository)
    assert state is not None
    assert state["dirty"] is True


def test_outside_a_repository_there_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without git, nor without a commit."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_state(tmp_path) is None


def test_a_repository_runs_no_program_of_its_own(repository: Path, tmp_path: Path) -> None:
    """Looking at a strange repository must not start what its settings name."""
    spy = executable(tmp_path / "spy", f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    git(repository, "config", "core.fsmonitor", str(spy))
    git_state(repository)
    assert not (tmp_path / "ran").exists()


def test_the_commit_is_that_of_the_script_and_not_of_the_working_folder(repository: Path, tmp_path: Path) -> None:
    """One may run a script of another place."""
    wanted = options(tmp_path / "r", sys.executable, "-u", str(repository / "train.py"), cwd=tmp_path)
    assert run_record(result_of(wanted), wanted, "1", {})["git"] == git_state(repository)


def test_another_python_is_asked(tmp_path: Path) -> None:
    """Its packages are not ours."""
    other = executable(tmp_path / "python3", '#!/bin/sh\necho \'{"python": "3.12.1", "torch": "2.9", "nvtx": null}\'\n')
    assert program_versions((str(other), "train.py")) == {"python": "3.12.1", "torch": "2.9"}


def test_our_own_python_is_not_started_again() -> None:
    """We know what it has."""
    versions = program_versions((sys.executable, "x.py"))
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["nvtx"]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no json\n"])
def test_a_python_that_does_not_answer_has_no_versions(tmp_path: Path, text: str) -> None:
    """The capture is none the worse for it."""
    assert program_versions((str(executable(tmp_path / "python3.11", text)), "x.py")) == {}


def test_other_programs_are_not_asked() -> None:
    """Starting them would have effects."""
    assert program_versions(("torchrun", "x.py")) == {}
    assert program_versions(("/usr/bin/env", "python")) == {}


@pytest.mark.parametrize("word", ["x" * 400, "a/" * 3000, "locked/inner"])
def test_a_word_that_cannot_be_looked_at_is_no_file(tmp_path: Path, word: str) -> None:
    """The system refuses names that are too long, and what lies in a folder that is locked."""
    (tmp_path / "locked").mkdir(mode=0)
    wanted = options(tmp_path / "r", "true", word, cwd=tmp_path)
    record = run_record(result_of(wanted), wanted, "1", {})
    assert (record["command"], record["git"]) == (["true", word], None)
