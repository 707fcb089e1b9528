"""The time of the data loader from two runs without nsys: its share, its interval, and whether the capture agrees."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hand_made import report_with
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.intervals import Window
from nsyswrap.compare.loader_counterfactual import attributed_share, failed, mean_of, saving, without_loader
from nsyswrap.loop.step_detection import Steps, find_timed_steps
from nsyswrap.model import Section
from nsyswrap.render import FORMS, render

WINDOW = Window(0, 1_000_000, "the measured steps", "steps")


def steps(lengths: Sequence[int], name: str = "step") -> Steps:
    """Return the steps of a run without nsys, one after the other; the first two are warm-up."""
    end = np.cumsum(np.array(lengths, np.int64)).tolist()
    ranges = [[1, "", f"{name} {n}", end[n] - length, end[n]] for n, length in enumerate(lengths)]
    return find_timed_steps([{"pid": 1, "ranges": ranges}])


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
    found = section.fact(label)
    assert found is not None
    assert isinstance(found.value, int | float)
    return float(found.value)


BASE = report_with(*gpu(38_000, data_wait_data=15_000, cpu_forward=3_000))
AS_IT_IS, FASTER = steps([1000] * 40), steps([600] * 40)


def test_the_share_is_what_the_mean_step_loses() -> None:
    """Steps that fill the batch cache are left out of both runs."""
    section = without_loader(BASE, AS_IT_IS, FASTER, 4)
    assert fact(section, "loader_share") == pytest.approx(0.4)
    assert fact(section, "steps_compared") == 40 - 2 - 4
    assert section.notes == (
        (
            "The data loader takes 40 % +- 1 of each step: 1.00 µs as it is, 600 ns with batches that are on the GPU "
            "already (95 % confidence, 34 and 34 steps)."
        ),
        "The capture attributes 39.5 % to the data loader, which agrees with the saving.",
    )


def test_a_smaller_saving_has_a_reason() -> None:
    note = without_loader(BASE, AS_IT_IS, steps([900] * 40), 4).notes[1]
    assert note.endswith("The saving is smaller: other work was hidden by the wait, or nsys slowed down the loader.")


def test_a_larger_saving_has_a_reason() -> None:
    base = report_with(*gpu(38_000, data_wait_data=3_800, cpu_forward=15_000))
    note = without_loader(base, AS_IT_IS, FASTER, 4).notes[1]
    assert note.endswith("The saving is larger: the loader also slows down other work.")


def test_a_loader_without_waits_takes_no_time() -> None:
    """The capture attributes nothing to it, so both agree."""
    section = without_loader(report_with(*gpu(38_000, cpu_forward=3_000)), AS_IT_IS, AS_IT_IS, 4)
    assert fact(section, "loader_share") == 0
    assert section.notes[1].endswith("which agrees with the saving.")


def test_without_a_gpu_the_cpu_time_of_phases_is_used() -> None:
    section = without_loader(report_with(phases(data=15_000, copy=0, forward=23_000)), AS_IT_IS, FASTER, 4)
    assert fact(section, "attributed_share") == pytest.approx(15 / 38)


def test_without_gpu_and_phases_nothing_is_compared() -> None:
    section = without_loader(report_with(), AS_IT_IS, FASTER, 4)
    assert attributed_share(report_with()) is None
    assert attributed_share(report_with(phases(data=0))) is None
    assert "cannot be compared" in section.notes[1]


@pytest.mark.parametrize("count", [0, 3, 13])
def test_too_few_steps_are_reported(count: int) -> None:
    """This includes a program without steps."""
    section = without_loader(BASE, steps([10] * count), steps([5] * count), 4)
    assert section.facts == ()
    assert "fewer than 10" in section.notes[0]


def test_steps_with_other_names_are_compared_in_order() -> None:
    """The second run numbers its steps differently."""
    section = without_loader(BASE, steps([10] * 40), steps([5] * 40, "batch"), 4)
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


@pytest.mark.parametrize("form", sorted({*FORMS} - {"markdown"}))
def test_every_form_of_the_report_shows_the_section(form: str) -> None:
    """Markdown does not, since it is a summary for a comment."""
    shown = render(form, report_with(without_loader(BASE, AS_IT_IS, FASTER, 4))).lower()
    assert "without the data loader" in shown or "mean_step_without_loader_ns" in shown
