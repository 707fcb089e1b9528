"""The time of the data loader from two reports: its share, its interval, and whether the first capture agrees."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hand_made import report_with
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.capture.nsys import CaptureResult
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.cli.profile import COUNTERFACTUAL_FOLDER, KEPT_BATCHES, add_counterfactual
from nsyswrap.compare.loader_counterfactual import agreement, attributed_share, failed, mean_of, saving, without_loader
from nsyswrap.errors import CaptureError
from nsyswrap.intervals import Window
from nsyswrap.model import Report, Section, StepTimes
from nsyswrap.render import RENDERERS

WINDOW = Window(0, 1_000_000, "the measured steps", "steps")


def steps(lengths: Sequence[int], warm_up: int = 2, name: str = "step") -> Section:
    """Return a section of steps of these lengths, one after the other."""
    end = np.cumsum(np.array(lengths, np.int64))
    frame = pd.DataFrame(
        {"name": [f"{name} {n}" for n in range(len(lengths))], "start_ns": end - lengths, "end_ns": end}
    )
    frame["warm_up"] = np.arange(len(lengths)) < warm_up
    return Section("steps", "Steps", WINDOW, tables={"steps": frame})


def gpu(window: int, **idle: int) -> tuple[Section, Section]:
    """Return a ledger and idle time by cause and phase, such as ``data_wait_data=3``."""
    rows = [(*name.rsplit("_", 1), value) for name, value in idle.items()]
    attribution = pd.DataFrame(rows, columns=["cause", "phase", "idle_ns"])
    attribution["rule"] = "idle/" + attribution["cause"].astype(str)
    busy = window - sum(idle.values())
    devices = pd.DataFrame(
        {
            "device_id": [0],
            "window_ns": [window],
            "compute_ns": [busy],
            "copy_exposed_ns": [0],
            "idle_ns": [window - busy],
        }
    )
    return (
        Section("ledger", "Ledger", WINDOW, tables={"devices": devices}),
        Section("idle", "Idle", WINDOW, tables={"attribution": attribution}),
    )


def phases(**host: int) -> Section:
    """Return CPU time by phase."""
    frame = pd.DataFrame({"phase": list(host), "host_ns": list(host.values())})
    return Section("phases", "Phases", WINDOW, tables={"phases": frame})


def fact(section: Section, label: str) -> float:
    """Return the value of a fact."""
    found = section.fact(label)
    assert found is not None
    assert isinstance(found.value, int | float)
    return float(found.value)


BASE = report_with(steps([1000] * 40), *gpu(38_000, data_wait_data=15_000, cpu_forward=3_000))
SAME = report_with(steps([1000] * 40), *gpu(38_000, cpu_forward=3_000))
FASTER = report_with(steps([600] * 40), *gpu(22_800, cpu_forward=3_000))


def test_the_share_is_what_the_mean_step_loses() -> None:
    """Steps that fill the batch cache are left out of both runs."""
    section = without_loader(BASE, FASTER, 4)
    assert fact(section, "loader_share") == pytest.approx(0.4)
    assert fact(section, "steps_compared") == 40 - 2 - 4
    assert section.notes == (
        (
            "The data loader takes 40 % +- 1 of each step: 1.00 µs as it is, 600 ns with batches that are on the GPU "
            "already (95 % confidence, 34 and 34 steps)."
        ),
        "The first capture attributes 39.5 % to the data loader, which agrees with the saving.",
    )


def test_parts_of_the_mean_step_are_listed_for_both_runs() -> None:
    """Largest change first; parts that go away with the loader are marked."""
    table = without_loader(BASE, FASTER, 4).tables["parts"]
    assert table["part"].tolist()[0] == "idle: data loader wait in data"
    row = table.iloc[0]
    assert (row["base_ns"], row["without_loader_ns"], row["of_loader"]) == (395, 0, True)
    assert set(table["part"]) == {
        "idle: data loader wait in data",
        "idle: CPU outside CUDA calls in forward",
        "compute",
        "copy exposed",
    }


def test_parts_of_two_ranks_are_means_over_steps_and_gpus() -> None:
    """Two ranks take the same 38 measured steps, each on its GPU; a step of each waits 395 ns for data."""
    table = pd.concat([BASE.sections[0].tables["steps"]] * 2, ignore_index=True)
    table.loc[40:, "end_ns"] += 1
    both = []
    for each in gpu(38_000, data_wait_data=15_000, cpu_forward=3_000):
        twice = {name: pd.concat([rows, rows.assign(device_id=1)]) for name, rows in each.tables.items()}
        both.append(Section(each.key, each.title, WINDOW, tables=twice))
    two = report_with(Section("steps", "Steps", WINDOW, tables={"steps": table}), *both)
    two = dataclasses.replace(two, step=StepTimes(38, 1000))
    row = without_loader(two, FASTER, 4).tables["parts"].iloc[0]
    assert (row["part"], row["base_ns"]) == ("idle: data loader wait in data", 395)


def test_a_smaller_saving_names_the_work_that_the_wait_hid() -> None:
    slower = report_with(steps([900] * 40), *gpu(34_200, cpu_forward=14_400))
    note = without_loader(BASE, slower, 4).notes[1]
    assert "The saving is smaller" in note
    assert "idle: CPU outside CUDA calls in forward took 79 ns of a step and takes 379 ns" in note


def test_a_larger_saving_names_the_work_that_the_loader_slowed_down() -> None:
    base = report_with(steps([1000] * 40), *gpu(38_000, data_wait_data=3_800, cpu_forward=15_000))
    note = without_loader(base, FASTER, 4).notes[1]
    assert "The saving is larger" in note
    assert "idle: CPU outside CUDA calls in forward" in note


def test_a_loader_without_waits_takes_no_time() -> None:
    """The capture attributes nothing to it, so both agree."""
    base = report_with(steps([1000] * 40), *gpu(38_000, cpu_forward=3_000))
    section = without_loader(base, SAME, 4)
    assert fact(section, "loader_share") == 0
    assert section.notes[1].endswith("which agrees with the saving.")


def test_without_a_gpu_the_cpu_time_of_phases_is_used() -> None:
    base = report_with(steps([1000] * 40), phases(data=15_000, copy=0, forward=23_000))
    section = without_loader(base, report_with(steps([600] * 40), phases(data=0, forward=22_800)), 4)
    assert fact(section, "attributed_share") == pytest.approx(15 / 38)
    assert section.tables["parts"]["part"][0] == "CPU in data"


def test_without_gpu_and_phases_nothing_is_compared() -> None:
    section = without_loader(report_with(steps([1000] * 40)), report_with(steps([600] * 40)), 4)
    assert attributed_share(report_with(steps([1]))) is None
    assert attributed_share(report_with(phases(data=0))) is None
    assert "cannot be compared" in section.notes[1]
    assert "do not show why" in agreement(0.5, 0.01, 0.1, section.tables["parts"])


@pytest.mark.parametrize("count", [0, 3, 13])
def test_too_few_steps_are_reported(count: int) -> None:
    """This includes a program without steps."""
    section = without_loader(report_with(steps([10] * count)), report_with(steps([5] * count)), 4)
    assert section.facts == ()
    assert "fewer than 10" in section.notes[0]
    assert "0 and 0 comparable steps" in without_loader(report_with(), report_with(), 4).notes[0]


def test_steps_with_other_names_are_compared_in_order() -> None:
    """The second run numbers its steps differently."""
    section = without_loader(report_with(steps([10] * 40)), report_with(steps([5] * 40, name="batch")), 4)
    assert fact(section, "loader_share") == 0.5


@given(st.lists(st.integers(1, 10**9), min_size=10, max_size=300))
def test_the_mean_is_that_of_all_steps_and_its_error_is_not_negative(lengths: list[int]) -> None:
    found = mean_of(np.array(lengths, np.int64))
    assert found.value_ns == pytest.approx(np.mean(lengths))
    assert found.error_ns >= 0
    assert (found.count, found.blocks) == (len(lengths), min(20, len(lengths) // 2))


def test_the_interval_contains_the_true_share_in_95_per_cent() -> None:
    """It does so for steps that come in bursts of four."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        runs = [np.tile([1.0, 1.0, 1.0, 5.0], 50) * 1e6 + random.normal(0, 2e5, 200) for _ in range(2)]
        share, margin = saving(mean_of(runs[0].astype(np.int64)), mean_of((runs[1] * 0.6).astype(np.int64)))
        held += abs(share - 0.4) <= margin
    assert 0.92 <= held / 400 <= 1.0


def test_a_second_run_that_failed_is_reported() -> None:
    assert failed(BASE, "it ended").notes == ("The time of the data loader is unknown: it ended.",)


@pytest.mark.parametrize("form", sorted(RENDERERS.keys() - {"markdown"}))
def test_every_form_of_the_report_shows_the_section(form: str) -> None:
    """Markdown does not, since it is a summary for a comment."""
    assert "data loader wait in data" in RENDERERS[form](report_with(without_loader(BASE, FASTER, 4)))


def options(folder: Path) -> CaptureOptions:
    """Return the options of a first run."""
    return CaptureOptions(command=("true",), folder=folder, annotate=True)


def result_of(code: int) -> Callable[[CaptureOptions], CaptureResult]:
    """Return a capture function that ends with a code."""

    def run(wanted: CaptureOptions) -> CaptureResult:
        assert (wanted.folder.name, wanted.cached_batches) == (COUNTERFACTUAL_FOLDER, KEPT_BATCHES)
        assert wanted.output_to_stderr
        return dataclasses.replace(EMPTY, exit_code=code, folder=wanted.folder)

    return run


EMPTY = CaptureResult(Path(), Path(), Path(), 0, 0, (), None, ())  # type: ignore[arg-type]


def test_the_second_run_is_the_first_without_its_loaders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is in the report and on stderr."""
    report = add_counterfactual(BASE, options(tmp_path), "data", result_of(0), lambda _path: FASTER, code=0)
    assert report.sections[-1].key == "counterfactual"
    assert "nsyswrap: The data loader takes 40 %" in capsys.readouterr().err


def test_without_the_option_there_is_no_second_run(tmp_path: Path) -> None:
    def never(_options: CaptureOptions) -> CaptureResult:
        raise AssertionError

    assert add_counterfactual(BASE, options(tmp_path), None, never, lambda _path: FASTER, code=0) is BASE


def test_a_program_that_failed_is_not_run_again(tmp_path: Path) -> None:
    def never(_options: CaptureOptions) -> CaptureResult:
        raise AssertionError

    report = add_counterfactual(BASE, options(tmp_path), "data", never, lambda _path: FASTER, code=3)
    assert report.sections[-1].notes == ("The time of the data loader is unknown: the program ended with exit code 3.",)


def test_a_second_run_that_fails_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    """The program may fail, or the capture."""

    def unread(_path: Path) -> Report:
        raise CaptureError("nothing was recorded")

    for report, reason in (
        (add_counterfactual(BASE, options(tmp_path), "data", result_of(3), unread, code=0), "ended with exit code 3"),
        (add_counterfactual(BASE, options(tmp_path), "data", result_of(0), unread, code=0), "nothing was recorded"),
    ):
        assert reason in report.sections[-1].notes[0]
        assert report.sections[:-1] == BASE.sections
