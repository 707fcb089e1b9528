"""The private folder of one run, and the shell scripts around nsys and the program.

The program should see the terminal as if it ran alone, but nsys gives it pipes. So an outer shell keeps our stdout and
stderr open as two more descriptors, redirects nsys's own output to a file, and becomes nsys. nsys starts an inner
shell, which writes its process id to a file, restores what is changed for nsys (:mod:`nsyswrap.capture.inherited`), and
becomes the program, with those two descriptors as stdout and stderr.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.inherited import Inherited

# $1 is the file for nsys's output; the two numbers are descriptors that keep our stdout and stderr.
_OUTER_SCRIPT = 'exec {0}>&1 {1}>&2 >"$1" 2>&1; shift; exec "$@"'
# $1 is the file for the process id, $2 to $5 what nsys changed and is restored: TMPDIR, the umask, the signals that are
# ignored, and whether LD_LIBRARY_PATH was set. Where it was not, nsys's value begins with an empty entry, which is the
# working folder.
_INNER_SCRIPT = (
    'echo $$ >"$1"; if [ -n "$2" ]; then TMPDIR=$2; export TMPDIR; else unset TMPDIR; fi; '
    '[ -z "$3" ] || umask "$3"; [ -z "$4" ] || trap "" $4; [ -n "$5" ] || LD_LIBRARY_PATH=${{LD_LIBRARY_PATH#:}}; '
    'shift 5; exec "$@" >&{0} 2>&{1} {0}>&- {1}>&-'
)
# In a new process namespace this shell is the first process, and all others die with it. So it waits for the command
# that stops the recording, which writes the report and may end after nsys, and for the program if nsys is killed; its
# exit code is then unknown.
_NAMESPACE_INIT_SCRIPT = (
    'mark=$1 pid=$2; shift 2; runs() { [ -s "$pid" ] && kill -s 0 "$(cat "$pid")" 2>&-; }; "$@"; code=$?; '
    f'if runs; then code={CaptureError.exit_code}; fi; while [ -e "$mark" ] || runs; do sleep 0.1; done; exit $code'
)
_TAIL_BYTES = 4096
TEMPORARY_PREFIX = "nsyswrap-"


@dataclass(frozen=True, slots=True)
class RunDir:
    """The private folder of one run."""

    folder: Path
    inherited: Inherited = field(default_factory=Inherited)

    @property
    def session(self) -> str:
        """Return the unique name of nsys's session, with which its recording can be stopped."""
        return self.folder.name

    @property
    def out(self) -> Path:
        """Return the path of a link to the result folder, without ``%``, which nsys would expand."""
        return self.folder / "out"

    @property
    def status(self) -> Path:
        """Return the file with nsys's output."""
        return self.folder / "nsys.log"

    @property
    def stop_status(self) -> Path:
        """Return the file with the output of the command that stops the recording."""
        return self.folder / "stop.log"

    @property
    def stopping(self) -> Path:
        """Return the file that exists while the command that stops the recording runs."""
        return self.folder / "stopping"

    @property
    def pid(self) -> Path:
        """Return the file with the program's process id."""
        return self.folder / "pid"

    def outer(self, nsys: Sequence[str]) -> tuple[str, ...]:
        """Return the command that starts nsys with its output redirected to a file."""
        script = _OUTER_SCRIPT.format(*self.inherited.free_descriptors())
        return (*self.inherited.shell, "-c", script, "nsyswrap", str(self.status), *nsys)

    def inner(self, program: Sequence[str]) -> tuple[str, ...]:
        """Return the command that nsys starts: the program, connected to the terminal, as its user started it."""
        script = _INNER_SCRIPT.format(*self.inherited.free_descriptors())
        given = self.inherited
        return (*given.unblocker, *given.shell, "-c", script, "nsyswrap", str(self.pid), *given.words(), *program)

    def namespace_init(self, nsys: Sequence[str]) -> tuple[str, ...]:
        """Return the first command of a process namespace; it ends after nsys, the program and the stop command."""
        return ("/bin/sh", "-c", _NAMESPACE_INIT_SCRIPT, "nsyswrap", str(self.stopping), str(self.pid), *nsys)

    def nsys_output(self) -> str:
        """Return everything that nsys printed."""
        return "".join(_tail(path, None).decode(errors="replace") for path in (self.status, self.stop_status))

    def progress_output(self) -> bytes:
        """Return the end of nsys's output, which holds its progress bars."""
        return b"\n".join(_tail(path, _TAIL_BYTES) for path in (self.status, self.stop_status))

    def file_sizes(self) -> tuple[tuple[str, int], ...]:
        """Return paths and sizes of all files that nsys writes, in this folder and in the result folder."""
        sizes = []
        for path in (*files_below(self.folder), *files_below(self.out)):
            with contextlib.suppress(OSError):
                sizes.append((str(path), path.stat().st_size))
        return tuple(sizes)


def files_below(folder: Path) -> list[Path]:
    """Return the sorted files below a folder; nsys may remove folders meanwhile."""
    return sorted(Path(place) / name for place, _folders, names in os.walk(folder) for name in names)


def quoted_output(output: str, program: str = "nsys") -> str:
    """Return the last lines of a program's output in brackets, to append to a message; empty if there are none."""
    text = [line.strip() for line in output.replace("\r", "\n").splitlines() if line.strip() and "%" not in line]
    return f" ({program}: {' / '.join(text[-3:])})" if text else ""


def _tail(path: Path, count: int | None) -> bytes:
    """Return the last bytes of a file, or all of it for None; empty if it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        if count is not None:
            file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()
    return b""


@contextlib.contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder for this user only. nsys puts sockets in it, so its name is short and has no ``%``.

    Raises:
        CaptureError: It cannot be created.
    """
    place = str(parent) if parent is not None else "TMPDIR"
    try:
        place = str(parent) if parent is not None else tempfile.gettempdir()
        if parent is None and "%" in place:
            place = "/tmp"  # noqa: S108 - the folder below it is made exclusively and for its owner only
        # Absolute, because nsys would treat a name that begins with dashes as an option.
        name = tempfile.mkdtemp(prefix=f".{TEMPORARY_PREFIX}" if parent else TEMPORARY_PREFIX, dir=place)
        folder = Path(name).absolute()
    except OSError as error:
        hint = "Give another folder with -o" if parent else "Set TMPDIR to a folder that is writable and has space"
        raise CaptureError(f"no temporary folder can be created in {place}: {error.strerror}", hint=hint) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
