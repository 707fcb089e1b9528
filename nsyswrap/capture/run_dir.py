"""The private folder of one run, and the two small shells around nsys.

The program is to see the terminal as if it ran alone, and nsys gives it pipes. So the first shell keeps our stdout and
stderr open as descriptors 8 and 9 and sends nsys's own words to a file; the second, which nsys starts, becomes the
program with 8 and 9 as its stdout and stderr. It also writes down its process id, which stays that of the program.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Descriptors of one digit: POSIX shells know no others by number.
_OUTER_SCRIPT = 'exec 8>&1 9>&2 >"$1" 2>&1; shift; exec "$@"'
_INNER_SCRIPT = (
    'echo $$ >"$1"; if [ -n "$2" ]; then TMPDIR=$2; export TMPDIR; else unset TMPDIR; fi; shift 2; '
    'exec "$@" >&8 2>&9 8>&- 9>&-'
)
# In a process namespace of its own this shell is the first process, and all others die with it: one that stops the
# recording still writes the report when nsys itself has ended.
_HOLD_SCRIPT = 'mark=$1; shift; "$@"; code=$?; while [ -e "$mark" ]; do sleep 0.1; done; exit $code'
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RunDir:
    """The private folder of one run.

    Args:
        folder: Where nsys keeps its temporary files; private to the user.
        program_tmpdir: The program's own TMPDIR; empty for none.
    """

    folder: Path
    program_tmpdir: str = ""

    @property
    def session(self) -> str:
        """The name of nsys's session, by which its recording can be stopped; no other run has the same."""
        return self.folder.name

    @property
    def out(self) -> Path:
        """The link to the folder of the result, under a name without ``%``: nsys would expand it."""
        return self.folder / "out"

    @property
    def status(self) -> Path:
        """The file that takes what nsys prints."""
        return self.folder / "nsys.log"

    @property
    def stop_status(self) -> Path:
        """The file that takes what the command prints that stops the recording."""
        return self.folder / "stop.log"

    @property
    def stopping(self) -> Path:
        """The file that is there while a command is at work that stops the recording."""
        return self.folder / "stopping"

    @property
    def pid(self) -> Path:
        """The file that takes the program's process id."""
        return self.folder / "pid"

    def outer(self, nsys: Sequence[str]) -> tuple[str, ...]:
        """Return the command that starts nsys with its words kept apart."""
        return ("/bin/sh", "-c", _OUTER_SCRIPT, "nsyswrap", str(self.status), *nsys)

    def inner(self, program: Sequence[str]) -> tuple[str, ...]:
        """Return what nsys is to start, so that the program gets the terminal back."""
        return ("sh", "-c", _INNER_SCRIPT, "nsyswrap", str(self.pid), self.program_tmpdir, *program)

    def held(self, nsys: Sequence[str]) -> tuple[str, ...]:
        """Return the first command of a process namespace: it ends after nsys and after what stops the recording."""
        return ("/bin/sh", "-c", _HOLD_SCRIPT, "nsyswrap", str(self.stopping), *nsys)

    def said(self) -> str:
        """Return all that nsys printed."""
        return "".join(_tail(path, None).decode(errors="replace") for path in (self.status, self.stop_status))

    def bars(self) -> bytes:
        """Return the last words of nsys, where its progress stands."""
        return b"\n".join(_tail(path, _TAIL_BYTES) for path in (self.status, self.stop_status))

    def file_sizes(self) -> tuple[tuple[str, int], ...]:
        """Return names and sizes of all that nsys writes, here and in the folder of the result."""
        signs = []
        for path in (*files_below(self.folder), *files_below(self.out)):
            with contextlib.suppress(OSError):
                signs.append((str(path), path.stat().st_size))
        return tuple(signs)


def files_below(folder: Path) -> list[Path]:
    """List the files below a folder, sorted. Folders may vanish meanwhile: nsys tidies up while we look."""
    return sorted(Path(place) / name for place, _folders, names in os.walk(folder) for name in names)


def quoted(said: str, lines: int = 3) -> str:
    """Return the last lines of what nsys said, ready to follow a message; empty where it said nothing."""
    text = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip() and "%" not in line]
    return f" (nsys: {' / '.join(text[-lines:])})" if text else ""


def _tail(path: Path, count: int | None) -> bytes:
    """Return the last bytes of a file, or all of it; empty where it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        if count is not None:
            file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()
    return b""
