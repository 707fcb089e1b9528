"""Blocks cover long arrays without leaving out or repeating a row."""

from collections.abc import Callable
from itertools import chain

import pytest
from real_captures import RealReport, of_captures

import nsyswrap.trace.tables
from nsyswrap.base import intervals
from nsyswrap.loop import range_nesting
from nsyswrap.render import render
from nsyswrap.report import build_report
from nsyswrap.trace.tables import BLOCK, Trace, blocks


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_blocks_cover_each_row_once_and_in_order(length: int) -> None:
    found = list(blocks(length))
    assert list(chain.from_iterable(range(block.start, block.stop) for block in found)) == list(range(length))
    assert all(0 < block.stop - block.start <= BLOCK for block in found)


@of_captures(["cnn_amp_autograd_ranges", "alexnet_data_parallel_2gpu"])
def test_the_size_of_a_block_changes_no_number(
    name: str, real_trace: Callable[[str], Trace], real_report: RealReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for everything that is computed in blocks: operations and launches, causes, summaries, projections."""
    whole = render("json", real_report(name))
    monkeypatch.setattr(nsyswrap.trace.tables, "BLOCK", 101)
    monkeypatch.setattr(range_nesting, "BLOCK", 101)
    monkeypatch.setattr(intervals, "BLOCK", 101)
    assert render("json", build_report(real_trace(name))) == whole
