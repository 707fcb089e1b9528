"""The content of run.json, and what it leaves out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from capture_fixtures import executable, options
from made_secrets import COMMANDS, TOKENS, S

from nsyswrap.capture import run_record as run_record_module
from nsyswrap.capture.git_history import git_state
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.recorded_run import COPY_RATES, PROFILER_COST, recorded_value
from nsyswrap.capture.run_record import (
    program_versions,
    run_record,
    shareable_command,
    shareable_environment,
)

NSYS = Nsys(Path("/opt/nsys"), (2023, 4, 4, 54), "test")


def result_of(wanted: CaptureOptions, exit_code: int = 0) -> CaptureResult:
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
    """Run git with a neutral identity."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Create a repository with one commit of a script."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    git(folder, "init", "-q")
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_record_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    """It has command, environment, versions, git commit, exit code and wall time, as plain JSON."""
    wanted = options(tmp_path / "r", sys.executable, "train.py", cwd=tmp_path)
    record = run_record(result_of(wanted, 3), wanted, "1.2.3", {"PATH": "/bin"})
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        "schema",
        "command",
        "environment",
        "versions",
        "git",
        "host",
        "machine",
        "exit_code",
        "wall_ns",
        "notes",
        "steps",
        "pinned_copy_rates",
        "product_rates",
        "link_rates",
        "profiler_cost",
    }
    assert (record["schema"], record["exit_code"], record["wall_ns"]) == ("nsyswrap.run/1", 3, 1_500_000_000)
    assert record["notes"] == ["a note"]


def test_a_record_holds_no_secret_of_the_command(tmp_path: Path) -> None:
    """Whatever form it has; a note that quotes the command has none either."""
    tokens = [token for tokens in TOKENS.values() for token in tokens]
    for words in (*COMMANDS, ("x", *tokens)):
        wanted = options(tmp_path / "r", *words, cwd=tmp_path)
        text = json.dumps(run_record(result_of(wanted), wanted, "1.2.3", {}))
        assert [secret for secret in (S, *tokens) if secret in text] == []


def test_the_record_has_all_versions(tmp_path: Path) -> None:
    """They are those of nsyswrap, nsys and the program's Python."""
    wanted = options(tmp_path / "r", sys.executable, "-c", "pass")
    versions = run_record(result_of(wanted), wanted, "1.2.3", {})["versions"]
    assert isinstance(versions, dict)
    assert (versions["nsyswrap"], versions["nsys"]) == ("1.2.3", "2023.4.4.54")
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_why_nothing_was_measured_has_no_secret_and_no_folder_of_the_user(tmp_path: Path) -> None:
    """It may be the last line that nsys wrote."""
    environ = {"MY_SERVICE_TOKEN": "v4lue-of-a-secret", "HOME": "/srv/people/ada"}
    cost: dict[str, object] = {"calls": {}, "failure": "nsys: v4lue-of-a-secret at /srv/people/ada/run (exit code 1)"}
    record = run_record(
        result_of(options(tmp_path, "python", "train.py")),
        options(tmp_path, "python"),
        "1",
        environ,
        {"profiler_cost": cost},
    )
    written = json.dumps(record["profiler_cost"])
    assert "(exit code 1)" in written
    assert not any(word in written for word in ("v4lue", "ada", "people"))


@pytest.mark.parametrize(
    ("variables", "values"),
    [
        ({"WANDB_API_KEY": "s3cret", "FOO": "bar", "OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "4"}),
        ({"TORCH_HUB_TOKEN": "s3cret", "NCCL_SECRET": "s3cret", "PYTORCH_API_KEY": "s3cret"}, {}),
        ({"TORCH_HOME": "/home/ada/torch"}, {"TORCH_HOME": "~/torch"}),
    ],
    ids=["harmless variables", "secrets with an allowed prefix", "home folders"],
)
def test_only_values_of_harmless_variables_are_recorded(variables: dict[str, str], values: dict[str, str]) -> None:
    """The names of all variables are recorded."""
    assert shareable_environment(variables) == {"names": sorted(variables), "values": values}


@pytest.mark.parametrize(
    ("command", "place", "home", "shared"),
    [
        (
            "/opt/python /a/b/train.py --data=/a/b/data /a/bc x:/a/b/c",
            "/a/b",
            "",
            "/opt/python train.py --data=data /a/bc x:c",
        ),
        ("/data/ada/bin/python --out=/data/ada /data/adam/x", "/w", "/data/ada", "~/bin/python --out=~ /data/adam/x"),
        ("train --api-key=s3cret --lr=1", "/w", "", "train --api-key=*** --lr=1"),
        ("/bin/x /a", "/w", "/", "/bin/x /a"),
    ],
    ids=["the working folder", "the home folder", "a secret", "a home of one slash, as in some containers"],
)
def test_a_command_is_shared_without_folders_and_secrets(command: str, place: str, home: str, shared: str) -> None:
    assert shareable_command(tuple(command.split()), Path(place), home) == shared.split()


def test_a_hidden_environment_is_recorded_as_the_program_had_it(tmp_path: Path) -> None:
    """Variables that the program did not get are not listed."""
    wanted = options(tmp_path, "true", hide_environment=True, environment=(("ADDED", "1"),))
    environment = run_record(result_of(wanted), wanted, "1", {"PATH": "/bin", "WANDB_API_KEY": "x"})["environment"]
    assert environment == {"names": ["ADDED", "PATH"], "values": {}}


def test_the_commit_is_that_of_the_script_and_not_of_the_working_folder(repository: Path, tmp_path: Path) -> None:
    """The script may be in another folder."""
    wanted = options(tmp_path / "r", sys.executable, "-u", str(repository / "train.py"), cwd=tmp_path)
    assert run_record(result_of(wanted), wanted, "1", {})["git"] == git_state(repository)


def test_the_versions_of_another_python_are_read(tmp_path: Path) -> None:
    """It has its own packages."""
    other = executable(tmp_path / "python3", '#!/bin/sh\necho \'{"python": "3.12.1", "torch": "2.9", "nvtx": null}\'\n')
    assert program_versions((str(other), "train.py")) == {"python": "3.12.1", "torch": "2.9"}


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no json\n"])
def test_a_python_that_fails_has_no_versions(tmp_path: Path, text: str) -> None:
    """That is not an error."""
    assert program_versions((str(executable(tmp_path / "python3.11", text)), "x.py")) == {}
    assert program_versions(("/usr/bin/env", "python")) == {}, "starting another program could have effects"


@pytest.mark.parametrize("word", ["x" * 400, "a/" * 3000, "locked/inner"])
def test_an_argument_that_cannot_be_a_path_is_not_a_file(tmp_path: Path, word: str) -> None:
    """The system refuses names that are too long, and paths in a folder without permission."""
    (tmp_path / "locked").mkdir(mode=0)
    wanted = options(tmp_path / "r", "true", word, cwd=tmp_path)
    record = run_record(result_of(wanted), wanted, "1", {})
    assert (record["command"], record["git"]) == (["true", word], None)


RATES = {"Host-to-Device": {"low_bytes_per_second": 20e9, "high_bytes_per_second": 25e9}}


def write_record(folder: Path, text: str) -> None:
    """Write the run.json of a folder."""
    (folder / "run.json").write_text(text, encoding="utf-8")


def test_a_record_holds_the_measured_copy_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record_module, "copy_rates", lambda: RATES)
    record = run_record(result_of(options(tmp_path, "true", cwd=tmp_path)), options(tmp_path, "true"), "1", {})
    assert record["pinned_copy_rates"] == RATES
    write_record(tmp_path, json.dumps(record))
    assert recorded_value(tmp_path / "capture.sqlite", COPY_RATES) == RATES


def test_a_record_holds_the_measured_cost_of_recording(tmp_path: Path) -> None:
    """Without a measurement the cost is empty."""
    cost = {"conditions": {"nsys": "2025.3.1"}, "calls": {"launch": {"low_ns": 3000}}}
    wanted = options(tmp_path, "true", cwd=tmp_path)
    write_record(tmp_path, json.dumps(run_record(result_of(wanted), wanted, "1", {}, {"profiler_cost": cost})))
    assert recorded_value(tmp_path / "capture.sqlite", PROFILER_COST) == cost
    assert recorded_value(tmp_path / "other.sqlite", PROFILER_COST) is None
    assert run_record(result_of(wanted), wanted, "1", {})["profiler_cost"] == {}
