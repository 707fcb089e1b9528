"""`nsyswrap gate --against` commits: the runs of the history of a real repository, and what is compared with what."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import commands
import pytest
from made_runs import made_run

from nsyswrap.runs.history import open_history
from nsyswrap.runs.run import Run

# Commits and runs of each: enough for the gate to tell.
COMMITS, RUNS = 6, 3
# Runs differ by up to 0.4 %, in an order without a trend.
NOISE = (1.0, 1.003, 0.999, 1.001, 0.998, 1.002, 1.004)


def numbered(number: int, factor: float = 1.0, commit: str = "", **changes: Any) -> Run:  # noqa: ANN401 - fields of a run
    """Return run of a number: its commit is that of its time, and it has a little noise."""
    made = made_run(number, 10.0 * NOISE[number % len(NOISE)] * factor, commit, number if commit else None)
    return Run(made.row._replace(**changes), made.content, made.accounts, made.findings, made.facts)


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commits of a repository, which is the working folder, with a tag at the second."""
    monkeypatch.delenv("NSYSWRAP_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True, timeout=60)
    for number in range(COMMITS):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True, timeout=60)
    subprocess.run([*git, "tag", "v1.0", "HEAD~4"], check=True, timeout=60)
    done = subprocess.run(
        ["git", "rev-list", "--reverse", "HEAD"], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.split()


def recorded(commits: list[str], last: float = 1.0) -> None:
    """Add the runs of all commits; those of the last one take longer by a factor."""
    history = open_history()
    for at, commit in enumerate(commits):
        for repeat in range(RUNS):
            history.add(numbered(at * RUNS + repeat, last if at == COMMITS - 1 else 1.0, commit))


run, in_json = partial(commands.run, "gate"), partial(commands.in_json, "gate")


def test_a_commit_that_made_steps_longer_regresses_with_its_parts(commits: list[str]) -> None:
    """The runs of the checked-out commit are new, and those of the other commits of the range are earlier ones."""
    recorded(commits, 1.1)
    found = in_json("--against", "main~4..")
    assert (found["outcome"], len(found["earlier"]), len(found["new"])) == ("regressed", 3 * RUNS, RUNS)
    assert {one["commit"] for one in found["new"]} == {commits[-1]}
    assert found["blame"][0]["part"] == "compute"
    assert run("--against", "main~4..").exit_code == 1


def test_a_tag_stands_for_its_own_runs(commits: list[str]) -> None:
    recorded(commits)
    found = in_json("--against", "v1.0")
    assert {one["commit"] for one in found["earlier"]} == {commits[1]}
    assert len(found["earlier"]) == RUNS


def test_runs_with_changes_are_a_state_of_their_own(commits: list[str]) -> None:
    """They are new where they are the newest; the runs of the same commit without changes are earlier ones then."""
    recorded(commits)
    open_history().add(numbered(100, 1.0, commits[-1], is_dirty=True))
    found = in_json("--against", "main~2..")
    assert [one["commit"] for one in found["new"]] == [f"{commits[-1]}+changes"]
    assert {one["commit"] for one in found["earlier"]} == set(commits[-2:])


def test_too_few_earlier_runs_say_why_the_others_do_not_count(commits: list[str]) -> None:
    """Runs of the program on another machine, with other arguments, and of a commit outside the range."""
    history = open_history()
    for number in range(3):
        history.add(numbered(number, 1.0, commits[-1]))
        history.add(numbered(10 + number, 1.0, commits[2], host="f" * 12))
    history.add(numbered(20, 1.0, commits[2], arguments="--epochs 2"))
    history.add(numbered(21, 1.0, commits[0]))
    result = run("--against", "main~4..")
    assert result.exit_code == 3
    words = " ".join(result.stdout.split())
    assert "0 earlier runs, too few" in words
    assert f"3 runs of train.py do not count. Other machine: 0123456789ab against {'f' * 12}." in words
    assert "1 run of train.py does not count. Other arguments: --epochs 1 against --epochs 2." in words
    assert "1 run of train.py does not count. Their commit is not in main~4..." in words


def test_a_series_holds_runs_of_any_machine_and_arguments(commits: list[str]) -> None:
    """Its name stands for the program; the verdict begins with the other machine."""
    history = open_history()
    for number in range(12):
        history.add(numbered(number, 1.0, commits[2], program="nightly", arguments="", host="a"))
    for number in range(3):
        history.add(numbered(20 + number, 1.0, commits[-1], program="nightly", arguments="", host="bc"[number % 2]))
    found = in_json("--against", "main~5..", "--series", "nightly")
    assert (len(found["earlier"]), len(found["new"])) == (12, 3)
    assert found["verdict"].startswith("Other machine: b against a. ")


def test_several_programs_need_a_name(commits: list[str]) -> None:
    recorded(commits)
    open_history().add(numbered(300, 1.0, commits[-1], arguments="--epochs 2"))
    result = run("--against", "main~5..")
    assert result.exit_code == 2
    assert "several programs: train.py --epochs 1; train.py --epochs 2" in result.stderr
    assert "hint: name one: --program 'train.py --epochs 1'" in result.stderr
    assert len(in_json("--against", "main~5..", "--program", "train.py --epochs 1")["new"]) == RUNS


def test_runs_without_enough_steps_or_events_are_left_out_and_counted(commits: list[str]) -> None:
    recorded(commits)
    history = open_history()
    history.add(numbered(400, 1.0, commits[2], step_count=5))
    lossy = numbered(401, 1.0, commits[2])
    history.add(Run(lossy.row, lossy.content, (), (lossy.findings[0]._replace(rule="capture/incomplete"),), ()))
    found = in_json("--against", "main~5..")
    assert len(found["earlier"]) == 4 * RUNS
    assert "2 earlier runs do not count: fewer than 10 measured steps, or an incomplete capture." in found["notes"]


def test_a_word_that_is_no_path_and_no_commit_is_named(commits: list[str]) -> None:
    assert commits
    result = run("--against", "report/nowhere")
    assert result.exit_code == 2
    assert "there is no run at report/nowhere, and git cannot list the commits of report/nowhere: " in result.stderr
    assert "^!" not in result.stderr


def test_without_runs_of_the_commit_the_hint_says_how_to_make_them(commits: list[str]) -> None:
    history = open_history()
    history.add(numbered(1, 1.0, commits[0]))
    result = run("--against", "main~5..")
    assert result.exit_code == 2
    assert "profile --record" in result.stderr


def test_a_range_and_paths_exclude_one_another(commits: list[str], tmp_path: Path) -> None:
    assert commits
    result = run("--against", tmp_path, "main~5..")
    assert result.exit_code == 2
    assert "one range of commits" in result.stderr
