"""The numbers that a report shows large, and what each is a share of."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.model import Fact, Report, Section, StepTimes
from nsyswrap.render import key_numbers

FULL = hand_made.full_report()
TWO = hand_made.two_gpu_report()


def recorded(report: Report) -> Report:
    """Return a report without what is known of the program alone."""
    return replace(report, sections=tuple(each for each in report.sections if each.key != "program"))


def with_facts(report: Report, key: str, *facts: Fact) -> Report:
    sections = tuple(replace(one, facts=facts) if one.key == key else one for one in report.sections)
    return replace(report, sections=sections)


def test_key_numbers_name_what_they_are_shares_of() -> None:
    shown = {one.label: (one.value, one.note) for one in key_numbers.key_numbers(recorded(FULL))}
    assert shown == {
        "GPU busy": ("61.4 %", "of steps 3 to 20, as recorded"),
        "GPU idle": ("38.6 %", "of steps 3 to 20, as recorded"),
        "tensor-core share": ("41.0 to 58.2 %", "of kernel time in steps 3 to 20, as recorded"),
        "median step": ("111 ms", "over steps 3 to 20, as recorded"),
    }


def test_key_numbers_of_several_gpus_are_their_mean() -> None:
    busy = key_numbers.key_numbers(recorded(TWO))[0]
    assert busy.note.endswith("mean of 2 GPUs")
    assert busy.value == "77.4 %"


def test_a_measured_counter_stands_beside_the_share_by_name() -> None:
    facts = (Fact("share_low", 0.1, "share"), Fact("share_high", 0.2, "share"), Fact("counter_share", 0.15, "share"))
    tensor = key_numbers.key_numbers(with_facts(FULL, "tensor_cores", *facts))[2]
    assert tensor.note == "of kernel time in steps 3 to 20, as recorded; by counter 15.0 %"


def test_a_share_that_is_not_known_is_not_zero() -> None:
    facts = (Fact("share_low", None, "share"), Fact("share_high", None, "share"))
    assert key_numbers.key_numbers(with_facts(FULL, "tensor_cores", *facts))[2].value == "not measured"


@pytest.mark.parametrize(
    ("count", "note"), [(17, "over steps 3 to 20, as recorded"), (8, "over the 17 steps of all processes, as recorded")]
)
def test_the_median_of_the_steps_of_several_processes_says_so(count: int, note: str) -> None:
    """The window names the steps that each process takes; the median is of the steps of all of them."""
    facts = (Fact("measured_steps", 17, "count"), Fact("median_ns", 5.0e7, "ns"))
    report = replace(with_facts(FULL, "steps", *facts), step=StepTimes(count, 50_000_000))
    assert key_numbers.key_numbers(report)[-1].note == note


def test_the_numbers_are_those_of_the_program_where_it_is_known() -> None:
    """Of a step of 80 ms alone, the GPU is idle for 20."""
    rows = [(0, None, "GPU kernels", "", 60), (0, None, "idle: CPU", "idle/cpu", 20)]
    accounts = pd.DataFrame(rows, columns=["device_id", "rank", "account", "rule", "ns"])
    program = Section("program", "The program", FULL.window, tables={"step": accounts})
    alone = replace(FULL.step, alone=Interval(70_000_000, 80_000_000, 90_000_000), alone_source="this_process")
    report = replace(FULL, sections=(*recorded(FULL).sections, program), step=alone)
    shown = {one.label: (one.value, one.note) for one in key_numbers.key_numbers(report)}
    assert shown["GPU idle"] == ("25.0 %", "of a step")
    assert shown["median step"] == ("80.0 ms", "alone, without nsys")
