"""A capture with another step than its like is an outlier, with the part that changed."""

import pytest
from made_sums import MS, made_sums

from nsyswrap.many.capture_sums import CaptureSums
from nsyswrap.many.outliers import Outlier, StepAccount, find_outliers, usual_steps


def outliers(*every: CaptureSums) -> tuple[Outlier, ...]:
    return find_outliers([StepAccount.of(f"c{number}", sums) for number, sums in enumerate(every)])


def usual(count: int) -> list[CaptureSums]:
    """Return captures with steps of 100 to 102 ms."""
    return [made_sums(100 + number % 3) for number in range(count)]


def slow_loader() -> CaptureSums:
    """Return a capture whose step is 40 ms longer, all of it waiting for data."""
    one = made_sums(100)
    more = 400 * MS
    return made_sums(
        140, ledger={**one.ledger, "idle_ns": one.ledger["idle_ns"] + more}, idle={"idle/data_wait": 500 * MS + more}
    )


def test_a_slow_capture_is_named_with_what_changed() -> None:
    (found,) = outliers(*usual(9), slow_loader())
    assert (found.name, found.step_ns, found.usual_ns, found.among) == ("c9", 140 * MS, 101 * MS, 10)
    assert (found.part, found.part_ns) == ("idle/data_wait", round(39.5 * MS))


def test_a_fast_capture_is_one_too() -> None:
    (found,) = outliers(*usual(9), made_sums(60))
    assert found.share == pytest.approx(60 / 101)
    assert found.part_ns < 0


def test_other_programs_and_gpus_are_not_compared() -> None:
    assert outliers(*usual(9), made_sums(500, program="other.py"), made_sums(500, gpus=("NVIDIA A100",))) == ()


def test_a_slow_host_makes_no_outliers_and_hides_none() -> None:
    """All steps take 30 % longer on a second host; there, only the capture with 170 ms is an outlier."""
    slow = [made_sums(130 + number % 3, host="b") for number in range(5)]
    (found,) = outliers(*usual(9), *slow, made_sums(170, host="b"))
    assert (found.name, found.usual_ns) == ("c14", 131 * MS)
    shares = usual_steps([StepAccount.of(str(at), one) for at, one in enumerate([*usual(9), *slow])])
    assert shares["10"] > 1.25


def test_four_captures_show_nothing_usual() -> None:
    assert outliers(*usual(3), slow_loader()) == ()


def test_a_step_is_compared_with_the_median_of_its_like() -> None:
    accounts = [StepAccount.of(name, made_sums(step)) for name, step in (("a", 10), ("b", 20), ("c", 30))]
    assert usual_steps(accounts) == {"a": 0.5, "b": 1.0, "c": 1.5}
    assert usual_steps(accounts[:1]) == {}
