"""Which run comes next: rounds in random order; nothing twice, wherever a sweep is stopped."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made_sweeps import GPUS, WORKERS, failed_run, made_run, spec_of

from nsyswrap.sweep.cells import cells_of
from nsyswrap.sweep.order import next_run, shuffled
from nsyswrap.sweep.results import CellRun

TWICE = f"{WORKERS}[budget]\nrepeats = 2\n"


def whole(text: str, seed: int, fails: frozenset[str] = frozenset(), stops: frozenset[int] = frozenset()) -> list[str]:
    """Return the runs of a sweep in their order, where a stop loses nothing but what was in memory."""
    done: list[CellRun] = []
    order: list[str] = []
    spec = spec_of(text)
    while (coming := next_run(spec, seed, done)) is not None:
        cell, number = coming
        order.append(f"{cell.key}/{number}")
        done.append(failed_run(cell.key) if cell.key in fails else made_run(cell.key, 10, number))
        if len(order) in stops:
            spec, done = spec_of(text), sorted(done, key=lambda run: run.cell)
    return order


@given(some.integers(0, 9), some.frozensets(some.integers(1, 10)))
def test_a_stop_changes_neither_order_nor_number(seed: int, stops: frozenset[int]) -> None:
    order = whole(TWICE, seed, stops=stops)
    assert order == whole(TWICE, seed)
    assert len(set(order)) == len(order) == 10
    assert {each.rpartition("/")[2] for each in order[:5]} == {"1"}


def test_each_round_has_an_order_of_its_own() -> None:
    cells = cells_of(spec_of(GPUS))
    orders = {tuple(cell.key for cell in shuffled(cells, seed, number)) for seed in (1, 2) for number in (1, 2, 3)}
    assert len(orders) == 6
    assert all(len(order) == 9 for order in orders), "cells that are the same as others are not run"


def test_a_cell_that_failed_is_not_repeated() -> None:
    order = whole(TWICE, 1, fails=frozenset({"workers-8_batch-64"}))
    assert len(order) == 9
    assert "workers-8_batch-64/2" not in order


@given(some.floats(0.0, 0.1))
def test_until_stable_stops_at_the_tolerance(noise: float) -> None:
    """Three runs at least, ten at most; without noise exactly three."""
    spec, done = spec_of('command = "a {x}"\n[axes]\nx = [1]\n'), list[CellRun]()
    while (coming := next_run(spec, 1, done, until_stable=True)) is not None:
        cell, number = coming
        done.append(made_run(cell.key, 10 * (1 + noise * (number % 3)), number))
    assert 3 <= len(done) <= 10
    if noise == pytest.approx(0.0, abs=1e-4):
        assert len(done) == 3
    if noise > 0.05:
        assert len(done) == 10
