"""Changes are made to programs that run: what helps is found, and a program that is hurt by a change loses nothing."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from capture_fixtures import options
from real_captures import more

from nsyswrap.base.errors import CannotTellError, UnfinishedError, UsageError
from nsyswrap.experiments import process_turns, search
from nsyswrap.experiments.outcome import Trial, TriedChange
from nsyswrap.experiments.request import Request, run_request
from nsyswrap.experiments.search import try_changes
from nsyswrap.experiments.try_runs import TryOptions, ending_of

SUPPORT = Path(__file__).parents[1] / "support"
PROGRAM, RANKS = SUPPORT / "tried_program.py", SUPPORT / "tried_ranks.py"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the program use one core, and a temporary folder beside that of the test, which it may write to.

    Its path is short, since the workers of a loader have sockets there.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        yield


def tried(folder: Path, modes: str, order: Sequence[str], **fields: object) -> Trial:
    """Try changes of the program in some modes, with some of the options."""
    wanted = TryOptions(**{"order": order, "budget_s": 90.0, **fields})  # type: ignore[arg-type]
    return try_changes(wanted, options(folder / "out", *command(modes), cwd=folder))


def command(modes: str, steps: int = 1_000_000) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAM), str(steps), *modes.split())


def outcome(trial: Trial, spec: str) -> TriedChange:
    return next(each for each in trial.outcomes if each.spec == spec)


@pytest.mark.thorough
def test_frozen_objects_make_collections_cheap(tmp_path: Path) -> None:
    """The program collects 50,000 lists in each step; frozen, they are left out."""
    found = outcome(tried(tmp_path, "garbage", ["gc"]), "gc")
    assert (found.verdict, found.kept, found.alters) == ("faster", True, "nothing")
    assert 0 < found.low <= found.ratio <= found.high < 1
    assert found.after_ns < found.before_ns


@pytest.mark.thorough
def test_a_fused_optimizer_of_many_parameters_is_faster(tmp_path: Path) -> None:
    """One that replaces a change of the same kind is the only one to write."""
    trial = tried(tmp_path, "many", ["fused"], budget_s=120.0)
    assert outcome(trial, "fused=AdamW").verdict == "faster"
    assert [each.spec for each in trial.kept] == ["fused=AdamW"]
    assert "fused=True" in trial.kept[0].lines["PyTorch"]


@pytest.mark.thorough
def test_a_change_that_does_not_apply_says_why(tmp_path: Path) -> None:
    found = outcome(tried(tmp_path, "", ["zero_grad"]), "zero_grad")
    assert (found.verdict, found.words) == ("does not apply", "no call of zero_grad keeps the gradients")


@pytest.mark.thorough
def test_after_a_change_that_ends_the_program_the_others_are_tried(tmp_path: Path) -> None:
    """The optimizer raises an error where it is fused."""
    trial = tried(tmp_path, "strict keeps", ["fused", "zero_grad"])
    found = outcome(trial, "fused=Strict")
    assert found.verdict == "failed"
    assert "must not be fused" in found.words
    assert outcome(trial, "zero_grad").pairs >= 4


@pytest.mark.thorough
def test_a_change_that_hangs_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """The optimizer waits for ever where it is fused; the next run goes on without that."""
    request = Request(turns=("fused", "zero_grad"), budget_s=20.0, block_s=0.02, hang_s=2.0)
    answer = run_request(request, options(tmp_path / "out", *command("stuck keeps")))
    assert answer.open == "fused=Stuck"
    assert ending_of(answer) == "no step for 2 s"


@pytest.mark.parametrize(("modes", "name"), [("saves", "model.pt"), *more(("writes", "results.txt"))])
def test_a_program_is_ended_before_it_changes_a_file(tmp_path: Path, modes: str, name: str) -> None:
    """Both files were there before, one second ago or longer."""
    (tmp_path / name).write_text("old")
    os.utime(tmp_path / name, (0, 0))
    subprocess.run(["sleep", "0.3"], check=True)
    with pytest.raises(UsageError, match=name):
        tried(tmp_path, modes, ["gc"])
    assert (tmp_path / name).read_text() == "old"


@pytest.mark.thorough
def test_a_program_may_change_files_where_the_user_allows_it(tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text("old")
    tried(tmp_path, "writes", ["zero_grad"], allow_writes=True)
    assert (tmp_path / "results.txt").read_text() == "new"


@pytest.mark.thorough
def test_a_program_may_write_its_own_files_again(tmp_path: Path) -> None:
    """It makes the file itself, and saves it every fifty steps."""
    assert outcome(tried(tmp_path, "saves keeps", ["zero_grad"]), "zero_grad").pairs >= 4


@pytest.mark.thorough
def test_a_program_that_writes_runs_again_only_with_leave(tmp_path: Path) -> None:
    given = list[Sequence[str]]()

    def refuse(paths: Sequence[str]) -> bool:
        given.append(paths)
        return False

    trial = tried(tmp_path, "writes strict keeps", ["fused", "zero_grad"], may_write_again=refuse)
    assert [Path(each).name for paths in given for each in paths] == ["results.txt"]
    assert [each.spec for each in trial.outcomes] == ["fused=Strict"]
    assert "writes files" in trial.notes[0]


def test_a_program_without_steps_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(CannotTellError):
        try_changes(TryOptions(order=["gc"], budget_s=5.0), options(tmp_path / "out", *command("", 3)))


def test_a_program_that_fails_by_itself_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="exit code 1"):
        try_changes(
            TryOptions(order=["gc"], budget_s=5.0),
            options(tmp_path / "out", sys.executable, "-c", "import torch; raise SystemExit(1)"),
        )


def test_turns_that_alter_nothing_leave_all_values_as_they_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hash of the losses and parameters of 400 steps is that of the program alone."""
    plain = subprocess.run(command("keeps", 400), check=True, capture_output=True, text=True).stdout.strip()
    request = Request(turns=("gc", "zero_grad"), budget_s=60.0, block_s=0.02)
    answer = run_request(request, options(tmp_path / "out", *command("keeps", 400), output_to_stderr=True))
    assert plain in capfd.readouterr().err
    assert any(answer.of("begin"))
    assert not any(answer.of("end"))


@pytest.mark.thorough
def test_workers_that_load_beside_the_loop_are_found_and_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample takes 10 ms without a core; the losses are the same with workers, bit for bit."""
    monkeypatch.setattr(process_turns, "TIMED_S", 1.0)
    monkeypatch.setattr(search, "_SEARCH_S", 1.0)
    trial = tried(tmp_path, "slow", ["workers"], budget_s=240.0)
    assert [each.spec.partition("=")[0] for each in trial.kept] == ["workers"]
    assert {each.workers for each in trial.points} >= {0, 1}
    assert trial.together is not None
    assert trial.together.ratio < 0.8
    assert "the same work as the unchanged one. Losses: equal in each step, to the last bit." in trial.notes[0]


@pytest.mark.thorough
def test_a_loop_that_waits_and_cannot_have_workers_takes_turns(tmp_path: Path) -> None:
    wanted = {"turns": ("zero_grad",), "processes": ("workers",), "is_for_loader": True, "timed_s": 1.0}
    request = Request(**wanted, budget_s=10.0, block_s=0.02)  # type: ignore[arg-type]
    answer = run_request(request, options(tmp_path / "out", *command("stream keeps")))
    assert {each["spec"]: each["verdict"] for each in answer.of("result")}.keys() == {"workers", "zero_grad"}
    assert any(answer.of("timed"))


@pytest.mark.thorough
def test_ranks_of_a_job_are_timed_with_a_change_of_their_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take no turns: what could is listed with what needs new processes."""
    monkeypatch.setenv("PYTHONPATH", "")
    job = options(tmp_path / "out", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(RANKS))
    wanted = Request(base=("bucket_view",), turns=("fused",), processes=("bucket_size",), timed_s=0.1, budget_s=60.0)
    answer = run_request(wanted, job)
    assert answer.exit_code == 0
    assert answer.step_ns is not None
    (ready,) = answer.of("ready")
    assert ready["models"] == ["DistributedDataParallel"]
    assert ready["processes"] == ["bucket_size=50", "bucket_size=100", "fused=SGD"]
    assert [each["spec"] for each in answer.of("made")] == ["bucket_view"]
