"""What was read of a capture, in words."""

from nsyswrap.base.excerpt import Excerpt, StepsRead, WholeLedger

EXCERPT = Excerpt(10, 20, (0, 100), False, 12_400, 50_000, 31_000_000_000, 4_000_000_000, ())  # noqa: FBT003 - a field


def test_operations_and_steps_are_named() -> None:
    assert EXCERPT.words(StepsRead(100, 700, 2_400)) == (
        "12,400 of 50,000 GPU operations, measured steps 100 to 700 of 2,400"
    )
    assert EXCERPT.words(StepsRead(3, 3, 9)) == "12,400 of 50,000 GPU operations, measured step 3 of 9"
    assert EXCERPT.words(None) == "12,400 of 50,000 GPU operations"


def test_the_reason_names_both_amounts_of_memory() -> None:
    assert EXCERPT.reason == "reading all would take about 31.0 GB of memory, and 4.0 GB may be used (--memory)"


def test_idle_time_is_what_is_left() -> None:
    ledger = WholeLedger(0, True, 100, 200, 40, 20, 5, 5, 9)  # noqa: FBT003 - a field
    assert (ledger.window_ns, ledger.idle_ns) == (100, 30)
