"""The Dask engine: captures are read by the workers of a cluster. Dask is imported when a cluster is given.

Workers need nsyswrap of the same source and a disk with the captures at the same path. Dask runs the task of a lost
worker again on another one.
"""

import queue
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base import units
from nsyswrap.base.errors import ExportError, NsyswrapError, UsageError
from nsyswrap.many.kept_results import source_digest
from nsyswrap.many.processes import LOST, Answer, Lost

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_LIMIT_S = 30
# Workers that run are known to the scheduler in a second or two.
WORKERS_LIMIT_S = 10
END_LIMIT_S = 10
_HINT = "check that the scheduler runs and that this machine reaches it"
_INSTALL = "install the same nsyswrap on each worker: pip install 'nsyswrap[dask]'"


def answers(
    cluster: str, function: Callable[[Any], str], tasks: Sequence[object], limit_s: float
) -> Generator[Answer, None, None]:
    """Yield the number of each task and its answer, as they come; or why there is none.

    Args:
        cluster: The address of its scheduler, or the file that the scheduler wrote it to.
        function: A function of a module; answers a task.
        tasks: What can be pickled.
        limit_s: Longest time without any answer.

    Raises:
        UsageError: Dask is not installed here, or a worker has another nsyswrap.
        ExportError: The scheduler cannot be reached, has no workers, or no answer came in time.
    """
    with _connected(cluster) as client:
        try:
            client.wait_for_workers(1, timeout=WORKERS_LIMIT_S)
        except TimeoutError as error:
            hint = "start workers: dask worker ADDRESS"
            raise ExportError(f"the Dask cluster has no workers after {WORKERS_LIMIT_S} s", hint=hint) from error
        done: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
        futures = [client.submit(checked, source_digest(), function, task, pure=False) for task in tasks]
        try:
            for number, future in enumerate(futures):
                future.add_done_callback(lambda one, number=number: done.put((number, one)))
            for _ in futures:
                number, future = _next(done, client, limit_s)
                yield number, _answer(future, limit_s)
                future.release()
        finally:
            client.cancel([each for each in futures if not each.done()], force=True)


def checked(digest: str, function: Callable[[Any], str], task: object) -> str:
    """Answer a task on a worker.

    Raises:
        UsageError: The worker has another nsyswrap, so its answers may differ.
    """
    if source_digest() != digest:
        raise UsageError("a worker has another nsyswrap than this machine", hint=_INSTALL)
    return function(task)


@contextmanager
def _connected(cluster: str) -> "Iterator[Client]":
    try:
        from distributed import Client  # noqa: PLC0415 - an extra; loaded when a cluster is given
    except ImportError as error:
        raise UsageError(
            "a Dask cluster needs the package distributed, which is not installed",
            hint="pip install 'nsyswrap[dask]', or leave out --scheduler",
        ) from error
    place = {"scheduler_file" if Path(cluster).is_file() else "address": cluster}
    try:
        client = Client(**place, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ExportError(f"cannot connect to the Dask scheduler {cluster}: {error}", hint=_HINT) from error
    try:
        yield client
    finally:
        client.close(timeout=END_LIMIT_S)


def _next(done: "queue.SimpleQueue[tuple[int, Future]]", client: "Client", limit_s: float) -> "tuple[int, Future]":
    """Return the next task that ended.

    Raises:
        ExportError: None ended in time, or the scheduler is gone.
    """
    deadline = time.monotonic() + limit_s
    while (left := deadline - time.monotonic()) > 0:
        try:
            return done.get(timeout=min(left, 1.0))
        except queue.Empty:
            if client.status in {"closed", "closing"}:
                raise ExportError("the Dask scheduler ended", hint=_HINT) from None
    count = len(client.scheduler_info()["workers"])
    hint = "start workers" if not count else "give more time with --limit"
    raise ExportError(
        f"no answer in {limit_s:g} s from the Dask cluster, which has {units.counted(count, 'worker')}", hint=hint
    )


def _answer(future: "Future", limit_s: float) -> str | Lost:
    """Return the answer of a task that ended.

    Raises:
        NsyswrapError: The worker has another nsyswrap, or none, or the scheduler is gone.
    """
    from distributed import KilledWorker  # noqa: PLC0415 - as above

    try:
        return str(future.result(timeout=limit_s))
    except KilledWorker:
        return Lost(LOST)
    except NsyswrapError:
        raise
    except ImportError as error:
        raise UsageError(f"a worker cannot read captures: {error}", hint=_INSTALL) from error
    except Exception as error:
        raise ExportError(f"a task of the Dask cluster ended: {type(error).__name__}: {error}", hint=_HINT) from error
