"""The types of the gate: shares that are checked, and words for parts and noise."""

import math

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.gate.timed_runs import GateOptions, GateOutcome, Measure, noise_words, parts_of_accounts
from nsyswrap.runs.run import Account


@pytest.mark.parametrize("find", [0.01, 0.0, -0.05, 10.1, math.nan])
def test_a_slowdown_out_of_range_is_refused(find: float) -> None:
    with pytest.raises(UsageError, match="out of range"):
        GateOptions(find=find)


def test_a_measure_knows_the_largest_slowdown_that_is_not_excluded() -> None:
    """2 % slower with noise of 10 %: 1.02 * 1.1. Never less than none."""
    assert Measure("", 100.0, 102.0, 0.1, GateOutcome.PASSES).most == pytest.approx(0.122)
    assert Measure("", 100.0, 50.0, 0.1, GateOutcome.PASSES).most == 0.0


def test_idle_time_and_waits_replace_their_rows_of_the_ledger() -> None:
    ledger = [Account("ledger", name, "", "", 0, ns) for name, ns in (("compute_ns", 3.0), ("idle_ns", 2.0))]
    assert parts_of_accounts(ledger) == {"compute": 3.0, "idle GPU": 2.0}
    waited = Account("ledger", "communication_wait_ns", "", "", 0, 1.0)
    parts = (Account("idle", "", "idle/data_wait", "data", 0, 2.0), Account("wait", "3", "idle/data_wait", "", 0, 1.0))
    found = parts_of_accounts([*ledger, waited, *parts])
    assert found == {"compute": 3.0, "idle GPU (data loader wait)": 2.0, "wait for rank 3 (data loader wait)": 1.0}


def test_noise_beyond_measure_is_no_number() -> None:
    assert noise_words(0.034) == "up to 3.4 %"
    assert noise_words(math.inf) == "more than 1,000 %"
