"""A worker answers messages in its own process, and says when it is gone."""

import pytest
import worker_tasks

from nsyswrap.many.worker import LostProcessError, Worker


def test_a_worker_answers_until_it_ends() -> None:
    """A killed process is a lost one; a fault in it is raised here."""
    worker = Worker(worker_tasks.maker)
    try:
        worker.send("one")
        assert worker.answer() == "answer to one"
        worker.send("raise")
        with pytest.raises(RuntimeError, match="ValueError"):
            worker.answer()
        with pytest.raises(LostProcessError):
            worker.answer()
    finally:
        worker.end(now=True)
