"""Running tools to their end, and finding descendant processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from capture_fixtures import living, marker, python, until

from nsyswrap.capture import process as process_module
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.process_tree import (
    adopting_orphans,
    children_by_parent,
    descendants,
    is_alive,
    kill_all,
    outer_pid,
    shell_code,
    wait_for,
    with_variable,
)
from nsyswrap.capture.signals import StopRequest, signals_as_errors

__all__ = ["marker"]

NOBODY = frozenset[int]()


def test_both_streams_and_the_code_are_collected() -> None:
    """The streams are separate."""
    output = output_of(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=10)
    assert output == Output(3, "out\n", "err\n")
    assert output.text == "out\nerr\n"


def test_bytes_that_are_not_text_are_replaced() -> None:
    """Tools print file names in any encoding."""
    assert output_of(["printf", r"a\377b"], timeout_s=10).stdout == "a�b"


def test_more_output_than_a_pipe_holds_does_not_block() -> None:
    """Both pipes are read at the same time."""
    program = "import sys; sys.stderr.write('e' * 300000); sys.stdout.write('o' * 300000)"
    output = output_of(python(program), timeout_s=20)
    assert (len(output.stdout), len(output.stderr)) == (300000, 300000)


def test_standard_input_is_empty() -> None:
    """A tool cannot read the user's terminal."""
    assert output_of(["cat"], timeout_s=10) == Output(0, "", "")


def test_standard_error_is_passed_on_at_once() -> None:
    """Progress needs it before the tool has ended."""
    pieces: list[tuple[bytes, float]] = []
    program = "import sys, time; sys.stderr.write('a'); sys.stderr.flush(); time.sleep(0.4); sys.stderr.write('b')"
    output_of(python(program), timeout_s=10, on_stderr=lambda piece: pieces.append((piece, time.monotonic())))
    assert [piece for piece, _ in pieces] == [b"a", b"b"]
    assert pieces[1][1] - pieces[0][1] > 0.2


def test_the_tool_gets_its_folder_and_environment(tmp_path: Path) -> None:
    """No variable is added."""
    output = output_of(["/bin/sh", "-c", "pwd; echo $ONLY"], timeout_s=10, cwd=tmp_path, env={"ONLY": "this"})
    assert output.stdout == f"{tmp_path}\nthis\n"


def test_a_time_out_names_the_tool_and_ends_its_children(marker: str) -> None:
    """No process of a hanging tool is left."""
    with pytest.raises(TimeoutError, match=r"sh ran longer than 0\.3 s"):
        output_of(
            ["sh", "-c", 'sleep 60 & exec "$@"', "sh", *python("import time; time.sleep(60)", marker)], timeout_s=0.3
        )
    until(lambda: not living(marker), "the tool gone")


def test_a_time_out_ends_children_in_other_sessions_too(marker: str) -> None:
    """Like the agent of nsys, and the program under ncu."""
    inner = f"import subprocess, time; subprocess.Popen({python('import time; time.sleep(60)', marker)!r}, "
    with pytest.raises(TimeoutError):
        output_of(python(f"{inner}start_new_session=True); time.sleep(60)", marker), timeout_s=1.0)
    until(lambda: not living(marker), "the tool and its child gone")


@pytest.mark.parametrize("session", ["", "setsid"])
def test_a_process_that_a_tool_leaves_does_not_hold_its_output(marker: str, session: str) -> None:
    """A crashed nsys leaves its agent, which keeps the pipes open; one in another session goes on."""
    left = f'{session} "$@" & echo done; exit 3'
    began = time.monotonic()
    output = output_of(["sh", "-c", left, "sh", *python("import time; time.sleep(60)", marker)], timeout_s=60)
    assert output == Output(3, "done\n", "")
    assert time.monotonic() - began < 30
    until(lambda: bool(living(marker)) is bool(session), "the end of the tool's session")


def test_an_error_while_reading_ends_the_tool(marker: str) -> None:
    """The error may come from the caller."""

    def fail(_piece: bytes) -> None:
        raise KeyboardInterrupt

    program = "import sys, time; sys.stderr.write('x'); sys.stderr.flush(); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        output_of(python(program, marker), timeout_s=30, on_stderr=fail)
    until(lambda: not living(marker), "the tool gone")


def test_a_signal_while_a_tool_is_started_ends_it(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives when the tool runs, and before its process is known."""

    def started(argv: Sequence[str], *places: None) -> subprocess.Popen[bytes]:
        process = start(argv, *places)
        until(lambda: living(marker), "the tool")
        signal.raise_signal(signal.SIGTERM)
        return process

    start = process_module._started  # noqa: SLF001 - what the signal interrupts
    monkeypatch.setattr(process_module, "_started", started)
    with signals_as_errors(), pytest.raises(StopRequest) as stopped:
        output_of(python("import time; time.sleep(600)", marker), timeout_s=60)
    assert stopped.value.number == signal.SIGTERM
    assert living(marker) == []


def test_descendants_are_found_with_parents_first(marker: str) -> None:
    """They may be in other sessions, and several generations deep."""
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]])"
    with subprocess.Popen(python(inner, marker), start_new_session=True) as process:
        until(lambda: len(living(marker)) == 2, "child and grandchild")
        below = descendants(os.getpid())
        grandchild = next(pid for pid in living(marker) if pid != process.pid)
        assert below.index(process.pid) < below.index(grandchild)
        assert grandchild in descendants(process.pid)
        assert kill_all(process.pid, NOBODY)
        process.wait()


def test_excluded_processes_and_their_descendants_are_left_out(marker: str) -> None:
    """Earlier processes must not be ended."""
    with subprocess.Popen(["sh", "-c", "sleep 60; true", marker]) as process:
        until(lambda: descendants(process.pid), "the shell's child")
        assert process.pid not in descendants(os.getpid(), frozenset({process.pid}))
        assert not set(descendants(process.pid)) & set(descendants(os.getpid(), frozenset({process.pid})))
        assert kill_all(os.getpid(), frozenset({process.pid} | set(children_by_parent().get(os.getpid(), ()))))
        assert is_alive(process.pid)
        kill_all(process.pid, NOBODY)
        process.kill()


def test_orphans_become_our_children_while_we_adopt(marker: str) -> None:
    """Then they can be ended and waited for."""
    program = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]])"
    )
    with adopting_orphans():
        subprocess.run(python(program, marker), check=True, start_new_session=True)
        (orphan,) = living(marker)
        assert orphan in children_by_parent()[os.getpid()]
        os.kill(orphan, signal.SIGTERM)
        until(lambda: not is_alive(orphan), "the orphan's end")
        assert wait_for(orphan) == 143


def test_a_zombie_is_not_alive() -> None:
    """A zombie has ended and only keeps its exit code."""
    process = subprocess.Popen(["true"])
    until(lambda: not is_alive(process.pid), "the end")
    assert process.pid not in descendants(os.getpid())
    assert wait_for(process.pid) == 0
    assert wait_for(process.pid) is None
    process.returncode = 0


def test_processes_are_found_by_a_variable() -> None:
    """The whole value counts, and processes that have ended are left out."""
    with subprocess.Popen(["sleep", "60"], env={"PLACE": "/srv/one", "OTHER": "PLACE=/srv/two"}) as process:
        until(lambda: Path(f"/proc/{process.pid}/environ").read_bytes().startswith(b"PLACE="), "the start of sleep")
        candidates = [os.getpid(), process.pid, 2**22 + 1]
        assert with_variable("PLACE", "/srv/one", candidates) == [process.pid]
        assert with_variable("PLACE", "/srv/o", candidates) == []
        assert with_variable("PLACE", "/srv/two", candidates) == []
        process.kill()


def test_names_with_brackets_and_spaces_are_parsed(tmp_path: Path) -> None:
    """The kernel writes the program's name in brackets in the middle of the line."""
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to(sys.executable)
    with subprocess.Popen([odd, "-c", "import time; time.sleep(60)"], executable=str(odd)) as process:
        assert process.pid in descendants(os.getpid())
        process.kill()


@pytest.mark.parametrize(("code", "shell"), [(0, 0), (3, 3), (-2, 130), (-9, 137), (-15, 143)])
def test_exit_codes_are_those_of_a_shell(code: int, shell: int) -> None:
    """A signal n gives 128 + n."""
    assert shell_code(code) == shell


def test_a_process_is_found_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """GVisor does not list ids by namespace."""
    monkeypatch.setattr(
        "nsyswrap.capture.process_tree.status_fields", lambda path: {"Pid": path.split("/")[2]} if "1" in path else {}
    )
    assert outer_pid(17, [71, 17]) == 17
    assert outer_pid(18, [71, 17]) is None
