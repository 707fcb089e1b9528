"""A real Dask cluster of two processes answers as this machine does; errors name what it lacks."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import worker_tasks
from local_cluster import local_cluster
from made_steps import made_loop

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.cli.capture_reader import CaptureTask, read_capture
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.many import dask_cluster
from nsyswrap.many.dask_cluster import answers, checked
from nsyswrap.many.kept_results import source_digest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Return a cluster of two worker processes on this machine, which find this source and these tests."""
    pytest.importorskip("distributed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}")
        with local_cluster() as address:
            yield address


@pytest.mark.slow
def test_a_cluster_answers_as_this_process_does(cluster: str, tmp_path: Path) -> None:
    """It also answers a task whose worker was killed. Two captures, one of them broken."""
    good, bad = made_loop().write(tmp_path / "good.sqlite"), tmp_path / "bad.sqlite"
    bad.write_bytes(b"nothing")
    tasks = [CaptureTask(path, None, ReadOptions()) for path in (good, bad)]
    assert dict(answers(cluster, read_capture, tasks, 200)) == dict(enumerate(map(read_capture, tasks)))
    lost = [f"die once {tmp_path / 'mark'}", "other"]
    assert dict(answers(cluster, worker_tasks.answer, lost, 200)) == {0: f"answer to {lost[0]}", 1: "answer to other"}
    with pytest.raises(ExportError, match="ValueError"):
        list(answers(cluster, worker_tasks.answer, ["raise"], 200))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError) as caught:
        list(answers("tcp://127.0.0.1:1", worker_tasks.answer, ["a"], 1))
    assert "nsyswrap[dask]" in caught.value.hint


def test_a_worker_with_another_source_is_refused() -> None:
    assert checked(source_digest(), worker_tasks.answer, "a") == "answer to a"
    with pytest.raises(UsageError, match="another nsyswrap"):
        checked("other", worker_tasks.answer, "a")


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "CONNECT_LIMIT_S", 0.5)
    with pytest.raises(ExportError, match=r"tcp://127\.0\.0\.1:9"):
        list(answers("tcp://127.0.0.1:9", worker_tasks.answer, ["a"], 1))


@pytest.mark.thorough
def test_a_cluster_without_workers_is_named_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The limit for an answer is an hour; that for workers is ten seconds, here half a second.

    The cluster is given by the address of its scheduler, or by the file that the scheduler wrote.
    """
    pytest.importorskip("distributed")
    assert dask_cluster.WORKERS_LIMIT_S == 10
    monkeypatch.setattr(dask_cluster, "WORKERS_LIMIT_S", 0.5)
    file = tmp_path / "scheduler.json"
    with local_cluster(workers=0) as address:
        file.write_text(json.dumps({"address": address}))
        for cluster in (address, str(file)):
            with pytest.raises(ExportError, match="has no workers after") as caught:
                list(answers(cluster, worker_tasks.answer, ["a"], 3600))
            assert caught.value.hint.startswith("start workers")
