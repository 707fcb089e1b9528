"""Captures are read in several processes as in one, in their order; what does not fit in memory is read again."""

from pathlib import Path

import numpy as np
import pytest
from rank_generator import Job, exports

from nsyswrap.cli import rank_reader
from nsyswrap.cli.rank_reader import RankCapture, RankReader, Readers, Unreadable
from nsyswrap.loop.context import NO_SETTINGS
from nsyswrap.ranks.heads import Head
from nsyswrap.ranks.many import join_heads
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.report import choose_joint_window


@pytest.fixture
def sources(tmp_path: Path) -> list[RankCapture]:
    """Return the captures of three ranks; the second cannot be read."""
    paths = exports(Job([[0] * 5, [0] * 5, [200_000] * 5]), tmp_path)
    paths[1].write_bytes(b"nothing")
    return [RankCapture(path, f"rank-{rank}", rank, 3) for rank, path in enumerate(paths)]


def answers(readers: RankReader | Readers) -> tuple[list[str], list[list[RankTimes]]]:
    heads = readers.heads()
    assert isinstance(heads[1], Unreadable)
    many = join_heads([each for each in heads if isinstance(each, Head)])
    window = choose_joint_window(many.steps, NO_SETTINGS, many.extent, "")
    return [each.name for each in heads], readers.times([many.joint(0, window), None, many.joint(1, window)])


def test_several_processes_answer_as_one(sources: list[RankCapture]) -> None:
    readers = Readers(sources, NO_SETTINGS, 2)
    try:
        several = answers(readers)
    finally:
        readers.end()
    check_same(several, answers(RankReader(sources, NO_SETTINGS)))


def test_what_was_not_held_is_read_again(sources: list[RankCapture], monkeypatch: pytest.MonkeyPatch) -> None:
    held = answers(RankReader(sources, NO_SETTINGS))
    monkeypatch.setattr(rank_reader, "HELD_BYTES", 0)
    check_same(answers(RankReader(sources, NO_SETTINGS)), held)


def check_same(one: tuple[list[str], list[list[RankTimes]]], other: tuple[list[str], list[list[RankTimes]]]) -> None:
    """Check that two readers gave the same answers."""
    assert one[0] == other[0] == ["rank-0", "rank-1", "rank-2"]
    for mine, its in zip(one[1], other[1], strict=True):
        assert [each.ledger for each in mine] == [each.ledger for each in its]
        assert [each.device_id for each in mine] == [each.device_id for each in its]
        for a, b in zip(mine, its, strict=True):
            assert np.array_equal(a.at_start, b.at_start)
