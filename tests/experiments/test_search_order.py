"""What is tried after what, with runs that are made up: their step is a product of factors, one for each change."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import options

from nsyswrap.experiments import try_runs
from nsyswrap.experiments.outcome import Trial
from nsyswrap.experiments.request import Answer, Request
from nsyswrap.experiments.search import try_changes
from nsyswrap.experiments.try_runs import NoMoreRunsError, TryOptions
from nsyswrap.experiments.verify_runs import WorkRun

LOSSES = [1.0, 0.5, 0.25]


class Program:
    """A program with made-up times.

    Args:
        factors: What each change does to a step.
        waits: Whether its loop waits for a loader without workers.
        losses: The losses with a change, where they are others.
    """

    def __init__(
        self, factors: Mapping[str, float], *, waits: bool = False, losses: Mapping[str, list[float]] | None = None
    ) -> None:
        self.factors, self.waits, self.losses = factors, waits, losses or {}
        self.requests: list[Request] = []

    def step_ns(self, specs: tuple[str, ...]) -> float:
        """Return a step with some changes, in ns."""
        return 1e7 * math.prod(self.factors.get(each, 1.0) for each in specs)

    def run(self, request: Request, _options: object) -> Answer:
        self.requests.append(request)
        waits = self.waits and not any(each.startswith("workers") for each in request.base)
        needs = waits and request.is_for_loader and "workers" in request.processes
        applicable = [each for each in self.factors if {each, each.partition("=")[0]} & set(request.processes)]
        events: list[dict[str, Any]] = [
            {"event": "ready", "needs_workers": needs, "workers": 0, "cores": 4, "processes": applicable}
        ]
        losses = next((self.losses[each] for each in request.base if each in self.losses), LOSSES)
        if request.proved_steps:
            losses = [each * (1 + 1e3 * request.roundoff) for each in losses]
            backward = [{"kind": "backward", "value": each, "work": {}} for each in losses]
            record = {"pid": 1, "problem": "", "events": backward, "parameters": {}, "written": {}}
            record["precision"] = {"float32 products": "highest"}
            return Answer(0, tuple(events), work=WorkRun(0, (), (record,), {}))
        if request.timed_s:
            wiggle = 1 + 0.001 * (len(self.requests) % 3)
            length = [self.step_ns(request.base) * wiggle * (1 + 0.001 * (number % 2)) for number in range(40)]
            timed = {"event": "timed", "step_ns": length, "losses": losses, "cores": 1.0, "worker_bytes": 0}
            events.append({**timed, "since_s": 10.0})
        if needs:
            return Answer(0, (*events, {"event": "end"}))
        events += [self.result(each) for each in self.factors if each.partition("=")[0] in request.turns]
        return Answer(0, (*events, {"event": "end"}))

    def result(self, spec: str) -> dict[str, Any]:
        """Return the event of a change that was tried in turns."""
        ratio = self.factors[spec]
        verdict = "faster" if ratio < 1 else "slower"
        timed = {"low": ratio, "ratio": ratio, "high": ratio, "pairs": 9, "before_ns": 1e7, "after_ns": 1e7 * ratio}
        return {"event": "result", "spec": spec, "verdict": verdict, "kept": ratio < 1, **timed}

    def tried(self, *order: str) -> Trial:
        """Try changes of it."""
        wanted = TryOptions(order=order, budget_s=1e6)
        return try_changes(wanted, options(Path("out"), "train.py"), self.run)

    def within(self, budget_s: float, run_s: float, monkeypatch: pytest.MonkeyPatch, *order: str) -> Trial:
        """Try changes of it within a budget; each process takes ``run_s``."""
        monkeypatch.setattr(try_runs.time, "monotonic", lambda: run_s * len(self.requests))
        return try_changes(TryOptions(order=order, budget_s=budget_s), options(Path("out"), "train.py"), self.run)


def test_a_loop_that_waits_for_data_gets_workers_first() -> None:
    """Its turns come with these workers; so does the comparison of all changes."""
    program = Program({"workers=1": 0.9, "workers=2": 0.5, "workers=4": 0.5, "fused": 0.8}, waits=True)
    trial = program.tried("fused", "workers")
    assert [each.spec for each in trial.kept] == ["workers=2", "fused"]
    assert [each.workers for each in trial.points] == [0, 1, 2, 4]
    assert [each.base for each in program.requests if each.turns and not each.is_for_loader] == [("workers=2",)]
    assert trial.together is not None
    assert trial.together.ratio == pytest.approx(0.4, rel=0.01)


def test_a_loop_that_does_not_wait_keeps_its_loader() -> None:
    trial = Program({"workers=1": 0.5, "fused": 0.8}).tried("fused", "workers")
    assert [each.spec for each in trial.kept] == ["fused"]
    assert trial.points == ()


def test_the_best_number_so_far_is_tried_where_the_time_for_a_search_ends() -> None:
    """Two numbers were timed; the third one does not fit."""
    program = Program({"workers=1": 0.9, "workers=2": 0.5, "workers=4": 0.3}, waits=True)

    def run(request: Request, made: object) -> Answer:
        if request.timed_s and request.base == ("workers=4",):
            raise NoMoreRunsError("The budget ended.")
        return program.run(request, made)

    trial = try_changes(TryOptions(order=["workers"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert [each.workers for each in trial.points] == [0, 1, 2]
    assert [each.spec for each in trial.kept] == ["workers=2"]
    assert trial.notes[0] == "The budget ended."


def test_a_number_of_workers_is_tried_without_a_search() -> None:
    trial = Program({"workers=4": 0.3}, waits=True).tried("workers=4")
    assert [each.spec for each in trial.kept] == ["workers=4"]
    assert trial.points == ()


def test_what_needs_a_process_is_compared_with_the_changes_so_far() -> None:
    program = Program({"fused": 0.8, "pin_memory": 0.7, "prefetch=4": 1.2})
    trial = program.tried("fused", "pin_memory", "prefetch")
    assert [(each.spec, each.verdict) for each in trial.outcomes][1:3] == [
        ("pin_memory", "faster"),
        ("prefetch=4", "slower"),
    ]
    assert {each.base[0] for each in program.requests[1:4]} == {"fused"}
    assert [each.spec for each in trial.kept] == ["fused", "pin_memory"]


def test_a_clear_change_is_known_and_proved_after_six_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, which finds what applies, is timed as well; processes of 9 s fit into a minute."""
    program = Program({"pin_memory": 0.7})
    trial = program.within(60, 9, monkeypatch, "pin_memory")
    assert [(each.base, each.proved_steps > 0) for each in program.requests] == [
        ((), False),
        (("pin_memory",), False),
        (("pin_memory",), False),
        ((), False),
        ((), True),
        (("pin_memory",), True),
    ]
    assert [each.spec for each in trial.kept] == ["pin_memory"]
    assert "does the same work" in trial.notes[0]


def test_where_time_is_short_the_first_changes_are_compared_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of each of three changes do not fit; the runs with what is kept count for the next ones."""
    program = Program({"pin_memory": 0.7, "prefetch=4": 0.9, "prefetch=8": 0.8, "persistent": 0.95})
    trial = program.within(95, 9, monkeypatch, "pin_memory", "prefetch", "persistent")
    assert [each.base for each in program.requests[1:4]] == [("pin_memory",), ("pin_memory",), ()]
    assert [(each.spec, each.verdict) for each in trial.outcomes] == [
        ("pin_memory", "faster"),
        ("prefetch=4", "faster"),
        ("prefetch=8", "faster"),
        ("persistent", "cannot tell"),
        ("all", "faster"),
    ]
    assert trial.notes[0].startswith("The budget ended")
    assert "does the same work" in trial.notes[1]


def test_of_several_values_the_fastest_is_kept() -> None:
    trial = Program({"prefetch=4": 0.8, "prefetch=8": 0.7}).tried("prefetch")
    assert [each.spec for each in trial.kept] == ["prefetch=8"]


def test_a_value_that_replaced_another_one_saves_what_both_saved() -> None:
    """Attention of cuDNN was compared with the flash kernels; the time to compare it with none has ended."""
    program = Program({"attention=flash": 0.8, "attention=cudnn": 0.9})

    def run(request: Request, made: object) -> Answer:
        if not request.turns:
            raise NoMoreRunsError("The budget ended.")
        return program.run(request, made)

    trial = try_changes(TryOptions(order=["attention"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert [each.spec for each in trial.kept] == ["attention=cudnn"]
    assert trial.together is not None
    assert trial.together.ratio == pytest.approx(0.72)


def test_a_change_that_alters_the_losses_is_not_recommended() -> None:
    """Two changes differ together; each alone shows which one it is."""
    program = Program({"gc": 0.9, "fused": 0.8}, losses={"fused": [1.0, 0.9, 0.9]})
    trial = program.tried("gc", "fused")
    assert [each.spec for each in trial.kept] == ["gc"]
    assert next(each for each in trial.outcomes if each.spec == "fused").words == "does other work"
    assert "does other work: in step 1, the changed program has 0.9, the unchanged one 0.5" in " ".join(trial.notes)


def test_rounding_of_the_losses_is_no_objection() -> None:
    """The losses of a run with rounding errors differ by 1e3 times the roundoff of float32, 6e-5 of their size."""
    trial = Program({"fused": 0.8}, losses={"fused": [1.0, 0.5001, 0.25]}).tried("fused")
    assert [each.spec for each in trial.kept] == ["fused"]
    assert "does the same work as the unchanged one. Losses: within rounding in each step" in trial.notes[0]


def test_a_change_that_implies_no_rounding_leaves_each_bit() -> None:
    trial = Program({"gc": 0.8}, losses={"gc": [1.0, 0.5001, 0.25]}).tried("gc")
    assert trial.kept == ()


def test_random_numbers_may_differ_where_a_change_implies_that() -> None:
    trial = Program({"persistent": 0.8}, losses={"persistent": [1.0, 0.9, 0.25]}).tried("persistent")
    assert [each.spec for each in trial.kept] == ["persistent"]
    assert "The changes alter random numbers: compare a whole training." in trial.notes[0]


def test_random_numbers_may_differ_beside_a_change_of_rounding() -> None:
    """Without the change of random numbers, the other is compared."""
    program = Program({"fused": 0.8, "persistent": 0.8}, losses={"persistent": [1.0, 0.9, 0.25]})
    trial = program.tried("fused", "persistent")
    assert [each.spec for each in trial.kept] == ["fused", "persistent"]
    assert "alter random numbers" in trial.notes[0]
    assert "random numbers: the changed program does the same work" in trial.notes[1]
    program.losses = {"persistent": [1.0, 0.9, 0.25], "fused": [1.0, 0.5, 0.9]}
    assert [each.spec for each in program.tried("fused", "persistent").kept] == ["persistent"]


def test_nothing_is_compared_where_nothing_helps() -> None:
    program = Program({"fused": 1.2})
    trial = program.tried("fused")
    assert (trial.kept, trial.together, len(program.requests)) == ((), None, 1)


def test_the_budget_ends_the_runs() -> None:
    wanted = TryOptions(order=["fused", "pin_memory"], budget_s=1e-9)
    trial = try_changes(wanted, options(Path("out"), "train.py"), Program({"fused": 0.8}).run)
    assert trial.outcomes == ()
    assert "--budget" in trial.notes[0]


def test_settings_come_before_what_keeps_its_kernels() -> None:
    program = Program({})
    program.tried("cuda_graphs", "attention", "compile=default", "gc")
    assert program.requests[0].turns == ("attention", "gc", "cuda_graphs", "compile=default")


def test_the_precision_is_changed_only_with_leave() -> None:
    program = Program({})
    program.tried("autocast", "fused")
    assert program.requests[0].turns == ("fused",)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (1, "OutOfMemoryError: CUDA out of memory.", "OutOfMemoryError: CUDA out of memory."),
        (137, "", "the program was killed, as for want of memory"),
        (139, "", "the program crashed: SIGSEGV"),
    ],
)
def test_after_a_change_that_needs_too_much_memory_the_others_are_tried(code: int, error: str, words: str) -> None:
    program = Program({"gc": 0.8})

    def run(request: Request, made: object) -> Answer:
        found = program.run(request, made)
        if "fused" not in request.turns or "fused" in request.without:
            return found
        begun = ({"event": "begin", "spec": "fused"}, *([{"event": "exception", "words": error}] if error else []))
        return Answer(code, (found.events[0], *begun))

    trial = try_changes(TryOptions(order=["fused", "gc"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert [(each.spec, each.verdict, each.words) for each in trial.outcomes][:2] == [
        ("fused", "failed", words),
        ("gc", "faster", ""),
    ]
    assert [each.spec for each in trial.kept] == ["gc"]


def test_changes_that_end_the_program_together_are_not_recommended() -> None:
    program = Program({"gc": 0.9, "fused": 0.8})

    def run(request: Request, made: object) -> Answer:
        return Answer(1, ()) if len(request.base) == 2 else program.run(request, made)

    trial = try_changes(TryOptions(order=["gc", "fused"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert trial.kept == ()
    assert "end the program" in trial.notes[-1]


def test_what_new_processes_do_not_confirm_is_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    """In turns a step was shorter by a fifth, as by chance; in new processes it is not."""
    program = Program({"gc": 0.8})
    monkeypatch.setattr(program, "step_ns", lambda _specs: 1e7)
    trial = program.tried("gc")
    assert trial.kept == ()
    assert trial.notes == ("In new processes, all changes together: no difference. So none is recommended.",)


def test_a_record_that_fails_says_nothing_of_the_work() -> None:
    """The changed program may need more memory than is left beside a record; its timed runs have ended well."""
    program = Program({"fused": 0.8})

    def run(request: Request, made: object) -> Answer:
        return Answer(137, ()) if request.proved_steps and request.base else program.run(request, made)

    trial = try_changes(TryOptions(order=["fused"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert [each.spec for each in trial.kept] == ["fused"]
    assert "cannot be recorded: the program was killed" in trial.notes[0]


@pytest.mark.parametrize(("loss", "kept"), [(0.5, ["cuda_graphs"]), (0.9, [])])
def test_losses_are_compared_where_the_work_cannot_be_recorded(loss: float, kept: list[str]) -> None:
    program = Program({"cuda_graphs": 0.8}, losses={"cuda_graphs": [1.0, loss, 0.25]})

    def run(request: Request, made: object) -> Answer:
        found = program.run(request, made)
        if request.proved_steps and request.base and found.work is not None:
            record = {**found.work.processes[0], "problem": "a CUDA graph is captured"}
            return replace(found, work=replace(found.work, processes=(record,)))
        return found

    trial = try_changes(TryOptions(order=["cuda_graphs"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert [each.spec for each in trial.kept] == kept
    assert ("Losses: equal in each step" in trial.notes[0]) is bool(kept)


def test_the_work_is_compared_where_no_time_is_left_for_the_times() -> None:
    program = Program({"gc": 0.8}, losses={"gc": [1.0, 0.9, 0.25]})

    def run(request: Request, made: object) -> Answer:
        if request.timed_s and request.base:
            raise NoMoreRunsError("The budget ended.")
        return program.run(request, made)

    trial = try_changes(TryOptions(order=["gc"], budget_s=1e6), options(Path("out"), "train.py"), run)
    assert trial.kept == ()
    assert trial.notes[0] == "The budget ended."
    assert "does other work" in trial.notes[1]
