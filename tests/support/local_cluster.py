"""A Dask cluster in processes of its own: prints the address of its scheduler, and ends when its input is closed."""

import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

START_LIMIT_S, END_LIMIT_S = 120, 60


def main() -> None:
    """Run a scheduler and so many workers until the input is closed."""
    from distributed import LocalCluster  # noqa: PLC0415 - only in its own process

    with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        print(cluster.scheduler_address, flush=True)  # noqa: T201 - its answer
        sys.stdin.read()


@contextmanager
def local_cluster(workers: int = 2) -> Iterator[str]:
    """Yield the address of the scheduler of a new cluster.

    Raises:
        TimeoutError: It did not start in time.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, __file__, str(workers)], text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                if not ready.select(START_LIMIT_S):
                    raise TimeoutError("the cluster did not start")
            yield process.stdout.readline().strip()
            process.stdin.close()
            process.wait(END_LIMIT_S)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
