"""The recipes of docs/ci.md: each line of shell runs from a fresh clone, on the main branch and for a change."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import paired_reports as pairs
import pytest
import yaml

from nsyswrap.render import json_report

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
STEP_MS = {"main": 4.0, "same": 4.0, "slow": 5.0}
# What stands in for pip and for profiling: installing needs the network, and profiling a GPU. All else is real.
STAND_IN = """#!{python}
import os, pathlib, shutil, sys
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if name == "curl":
    sys.exit(22)
if name == "pip":
    sys.exit(words[0] != "install" or not (pathlib.Path(words[1]) / "pyproject.toml").is_file())
if words[0] == "setup":
    sys.exit(0)
if words[0] == "profile":
    kept, target = pathlib.Path({reports!r}), pathlib.Path(words[words.index("-o") + 1])
    kind = "main" if pathlib.Path.cwd().name == "base" else os.environ["KIND"]
    counter = kept / "count"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    shutil.copytree(kept / f"{{kind}}-{{number % 12}}", target)
    sys.exit(0)
os.execv({python!r}, [{python!r}, "-m", "nsyswrap", *words])
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a fresh clone of a project with train.py, and nsyswrap cloned into it, as checkout does."""
    reports, programs = tmp_path / "reports", tmp_path / "bin"
    programs.mkdir()
    for kind, ms in STEP_MS.items():
        for number in range(12):
            folder = reports / f"{kind}-{number}"
            folder.mkdir(parents=True)
            whole = pairs.report(pairs.lengths(ms, seed=number, spread=0.01))
            started = f"2026-11-21T0{list(STEP_MS).index(kind)}:{number:02d}:00"
            text = json_report.render(pairs.with_session(whole, started_utc=started))
            (folder / "report.json").write_text(text, encoding="utf-8")
            (folder / "run.json").write_text(json.dumps({"git": {"commit": kind}}))
    for name in ("pip", "nsyswrap", "curl"):
        (programs / name).write_text(STAND_IN.format(python=sys.executable, reports=str(reports)))
        (programs / name).chmod(0o755)
    project = tmp_path / "origin"
    project.mkdir()
    (project / "train.py").touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], cwd=project, check=True, timeout=60)
    subprocess.run([*git, "clone", "-q", str(project), str(tmp_path / "job")], check=True, timeout=60)
    subprocess.run([*git, "clone", "-q", str(ROOT), str(tmp_path / "tools")], check=True, timeout=120)
    # The files as they are now, also where they are not committed yet.
    shutil.copytree(ROOT / "ci", tmp_path / "tools" / "ci", dirs_exist_ok=True)
    return tmp_path / "job"


def recipes() -> list[Any]:
    """Return the YAML of the page, in order."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(encoding="utf-8"), re.DOTALL)
    return [yaml.safe_load(block) for block in blocks]


def run(job: Path, line: str, kind: str, **variables: str) -> int:
    """Run a line as a runner does, and return its exit code."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    path = {"PATH": f"{job.parent / 'bin'}:{os.environ['PATH']}", "KIND": kind, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line], cwd=job, env=kept | path | variables, timeout=LIMIT_S, check=False
    )
    return done.returncode


def steps_for(event: str) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of the workflow that run for an event."""
    for step in recipes()[0]["jobs"]["gate"]["steps"]:
        if step.get("if", f"== '{event}'").endswith(f"'{event}'"):
            yield step


def on_github(job: Path, event: str, kind: str) -> int:
    """Run the workflow, the steps of the action among them, up to the first that fails; return its exit code."""
    shutil.rmtree(job / "new", ignore_errors=True)
    code = 0
    for step in steps_for(event):
        if step.get("uses") == "./nsyswrap/ci/gate":
            action = yaml.safe_load((job / "nsyswrap" / "ci" / "gate" / "action.yml").read_text())
            values = {"NEW": step["with"]["new"], "AGAINST": step["with"]["against"], "OPTIONS": "", "STRICT": "false"}
            gate, _, result = action["runs"]["steps"]
            place = {"GITHUB_ACTION_PATH": str(job / "nsyswrap" / "ci" / "gate"), **values}
            code = run(job, gate["run"], kind, **place)
            code = code or run(job, result["run"], kind, CODE=(job / "gate.code").read_text().strip(), **values)
        elif "run" in step:
            code = run(job, step["run"], kind)
        if code:
            return code
    return 0


@pytest.mark.parametrize(("kind", "code"), [("same", 0), ("slow", 1)])
def test_the_workflow_of_github_runs_as_it_stands(job: Path, kind: str, code: int) -> None:
    """Without results of the base it cannot tell, which does not fail; four pushes later it tells."""
    checkouts = [
        step["with"] for step in steps_for("push") if step.get("uses") == "actions/checkout@v4" and "with" in step
    ]
    assert [one["path"] for one in checkouts] == ["nsyswrap"]
    shutil.copytree(job.parent / "tools", job / "nsyswrap")
    assert on_github(job, "pull_request", kind) == 0
    assert "no runs of the base yet" in (job / "gate.md").read_text()
    for _ in range(4):
        assert on_github(job, "push", "main") == 0
    assert len(list((job / "main").iterdir())) == 12
    assert on_github(job, "pull_request", kind) == code
    assert {"same": "passes", "slow": "regressed"}[kind] in (job / "gate.md").read_text()


def on_gitlab(job: Path, kind: str, **variables: str) -> int:
    """Run the included job as a shell that stops at the first line that fails; return its exit code."""
    text = (job.parent / "tools" / "ci" / "gate.gitlab-ci.yml").read_text()
    included = yaml.safe_load(text)[".nsyswrap-gate"]
    shutil.rmtree(job / "nsyswrap", ignore_errors=True)
    shutil.rmtree(job / "new", ignore_errors=True)
    own = {
        **included["variables"],
        **recipes()[1]["gate"]["variables"],
        "NSYSWRAP_URL": str(job.parent / "tools"),
        "CI_DEFAULT_BRANCH": "main",
        "CI_API_V4_URL": "http://127.0.0.1:9",
        "CI_PROJECT_ID": "5",
        "CI_JOB_NAME": "gate",
        "CI_JOB_TOKEN": "x",
    }
    return run(job, "\n".join([*included["before_script"], *included["script"]]), kind, **own | variables)


@pytest.mark.parametrize(("kind", "code"), [("same", 0), ("slow", 1)])
def test_the_job_of_gitlab_brings_its_scripts_along(job: Path, kind: str, code: int) -> None:
    subprocess.run(["git", "add", "ci"], cwd=job.parent / "tools", check=True, timeout=60)
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "ci"]
    subprocess.run(words, cwd=job.parent / "tools", check=True, timeout=60)
    assert on_gitlab(job, kind, CI_COMMIT_BRANCH="") == 3
    for _ in range(4):
        assert on_gitlab(job, "main", CI_COMMIT_BRANCH="main") == 0
    assert on_gitlab(job, kind, CI_COMMIT_BRANCH="") == code


@pytest.mark.parametrize(("kind", "code"), [("same", 0), ("slow", 1)])
def test_two_commits_are_compared_in_one_job(job: Path, kind: str, code: int) -> None:
    """The base is checked out beside the change; both take turns."""
    base = subprocess.run(["git", "rev-parse", "HEAD"], cwd=job, check=True, capture_output=True, text=True, timeout=60)
    *before, last = (step["run"] for step in recipes()[2])
    assert [run(job, line, kind, BASE=base.stdout.strip()) for line in before] == [0, 0]
    assert run(job, last, kind) == code
