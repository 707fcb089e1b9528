"""How long nsys has written nothing: its only sign of life while it makes a report."""

import time

from nsyswrap.capture.run_dir import RunDir


class Growth:
    """Watches the files of a run."""

    def __init__(self, run_dir: RunDir) -> None:
        """Begin to watch."""
        self._run_dir = run_dir
        self._sizes = run_dir.file_sizes()
        self._changed = time.monotonic()

    def quiet_s(self) -> float:
        """Return the seconds for which no file has appeared, gone or changed its size."""
        sizes = self._run_dir.file_sizes()
        if sizes != self._sizes:
            self._sizes, self._changed = sizes, time.monotonic()
        return time.monotonic() - self._changed
