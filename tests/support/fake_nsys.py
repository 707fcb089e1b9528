"""A fake nsys: it runs the program, and fails as the real nsys was observed to fail.

The tests put it on PATH under the name nsys. ``FAKE_NSYS_FAILURE`` selects the failure:

==================  =====================================================================================
``never-starts``    ends with code 1 before it starts the program
``hangs-at-start``  does not start the program and does not end
``loses-agent``     as often as ``FAKE_NSYS_CRASHES`` says, it loses its agent and exits with 0 before it starts the
                    program, which would be started a little later by a process that is left
``no-importer``     leaves a .qdstrm, prints 'Importer error status' and exits with 0
``no-report``       exits with 0 and writes nothing
``hangs-writing``   does not end after the program has ended
``crash``           is killed by a signal after the program has ended
``disk-full``       prints the error, and exits with 1
``export-fails``    cannot export, because the report is of a newer version
``export-missing``  exits with 0 without an export
``export-hangs``    logs that it exports, and does not end
``empty``           exports a database without tables
``stop-fails``      cannot stop a recording
``stop-hangs``      does not end and prints nothing when it should stop a recording
==================  =====================================================================================

Like the real one, it starts the program with umask 0, without ignored signals, and with an empty entry at the start of
LD_LIBRARY_PATH. ``FAKE_NSYS_LOG`` is a file that gets a line when a recording is stopped. ``FAKE_NSYS_VERSION`` is its
version, ``FAKE_NSYS_RANGE`` the text of the NVTX range in its exports. A report is JSON with the arguments of the call,
and the variables whose names start with FAKE, NSYS or TMPDIR.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

VERSION = os.environ.get("FAKE_NSYS_VERSION", "2023.4.4.54")
FAILURE = os.environ.get("FAKE_NSYS_FAILURE", "")

PROFILE_HELP = """
usage: nsys profile [<args>] [application] [<application args>]

\t-c, --capture-range=

\t   Possible values are none, cudaProfilerApi, nvtx, hotkey.

\t--capture-range-end=

\t--cpuctxsw=

\t--cuda-graph-trace=<granularity>[:<launch origin>]

\t--cuda-memory-usage=

\t-d, --duration=

\t(Deprecated) --event-sampling-frequency=

\t--gpu-metrics-device=

\t--gpu-metrics-frequency=

\t--kill=

\t-o, --output=

\t-p, --nvtx-capture=

\t--python-sampling=

\t--python-sampling-frequency=

\t-s, --sample=

\t--session-new=

\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx', 'cublas', 'osrt',
\t   'cudnn' or 'none'.
\t   Select the API(s) to trace. If 'x-annotations' is selected, more is traced.

\t--wait=

\t-y, --delay=
"""

EXPORT_HELP = """
usage: nsys export [<args>] [nsys-rep-file]

\t-f, --force-overwrite=

\t-l, --lazy=

\t-o, --output=

\t-t, --type=
"""


def main() -> int:
    """Run the command that the first argument selects."""
    match sys.argv[1:]:
        case ["--version"]:
            print(f"NVIDIA Nsight Systems version {VERSION}-234433681190v0")  # noqa: T201 - nsys prints it
        case ["profile" | "export" as command, "--help"]:
            print(PROFILE_HELP if command == "profile" else EXPORT_HELP)  # noqa: T201 - nsys prints it
        case ["profile", *arguments]:
            return profile(arguments)
        case ["export", *arguments]:
            return export(arguments)
        case ["stop", session]:
            return stop(session)
        case _:
            return 1
    return 0


def profile(arguments: list[str]) -> int:
    """Run the program in its own session, without our terminal as nsys does, and write a report."""
    flags = [argument for argument in arguments if argument.startswith("--")]
    first = next(place for place, argument in enumerate(arguments) if not argument.startswith("-"))
    output = next(flag.partition("=")[2] for flag in flags if flag.startswith("--output="))
    if FAILURE == "never-starts":
        say("Unable to launch the application")
        return 1
    if FAILURE == "hangs-at-start":
        time.sleep(600)
    if FAILURE == "loses-agent" and loses_agent():
        (Path(os.environ["TMPDIR"]) / "nvidia").mkdir()  # its session, which must be gone before the next start
        subprocess.Popen(["/bin/sh", "-c", 'sleep 1; exec "$@"', "left", *arguments[first:]], start_new_session=True)
        say("Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.")
        return 0
    os.umask(0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    own = os.environ.get("LD_LIBRARY_PATH", "")
    code = subprocess.run(
        arguments[first:],
        env={**os.environ, "LD_LIBRARY_PATH": f"{own}:/usr/local/cuda/lib"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        start_new_session=True,
        check=False,
    ).returncode
    say("Generating '/tmp/nsys-report-fa4e.qdstrm'")
    return write(output, arguments) or (128 - code if code < 0 else code)


def loses_agent() -> bool:
    """Count this start in the log, and return whether it is one of those that fail."""
    with Path(os.environ["FAKE_NSYS_LOG"]).open("a+", encoding="utf-8") as log:
        log.write("start\n")
        log.seek(0)
        return len(log.readlines()) <= int(os.environ["FAKE_NSYS_CRASHES"])


def write(output: str, arguments: list[str]) -> int:
    """Write the report, or fail as selected; an exit code other than 0 replaces that of the program."""
    if FAILURE == "hangs-writing":
        time.sleep(600)
    if FAILURE == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if FAILURE == "disk-full":
        say("FATAL ERROR: write: No space left on device")
        return 1
    if FAILURE == "no-importer":
        Path(f"{output}.qdstrm").write_text("recorded", encoding="utf-8")
        say("Importer error status: An unknown error occurred.")
        sys.exit(0)
    if FAILURE == "no-report":
        sys.exit(0)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("FAKE", "NSYS", "TMPDIR"))}
    Path(f"{output}.nsys-rep").write_text(json.dumps({"arguments": arguments, "environment": kept}), encoding="utf-8")
    sys.stdout.write("\r[1/1] [0%       ] capture.nsys-rep\r[1/1] [==50%    ] capture.nsys-rep\r[1/1] [=====100%]\n")
    say(f"Generated:\n    {output}.nsys-rep")
    return 0


def stop(session: str) -> int:
    """Log the session; `profile` writes the report."""
    if FAILURE == "stop-hangs":
        time.sleep(600)
    if FAILURE == "stop-fails":
        say("There are no active sessions.")
        return 1
    if "FAKE_NSYS_LOG" in os.environ:
        with Path(os.environ["FAKE_NSYS_LOG"]).open("a", encoding="utf-8") as log:
            log.write(f"stopped {session}\n")
    say("Generating '/tmp/nsys-report-fa4e.qdstrm'")
    return 0


def export(arguments: list[str]) -> int:
    """Export the report that the last argument names."""
    target = Path(next(flag.partition("=")[2] for flag in arguments if flag.startswith("--output=")))
    sys.stderr.write("\rProcessing 2764 events: [=6%   ]\rProcessing 2764 events: [===60%]")
    if FAILURE == "export-hangs":
        with Path(os.environ["FAKE_NSYS_LOG"]).open("a", encoding="utf-8") as log:
            log.write("exporting\n")
        time.sleep(600)
    if FAILURE == "export-fails":
        sys.stderr.write("\nERROR: protobuf: the report was made by a newer version\n")
        return 1
    if FAILURE == "export-missing":
        return 0
    import sqlite3  # noqa: PLC0415 - most calls do without it

    text = Path(arguments[-1]).read_text(encoding="utf-8")
    with sqlite3.connect(target) as database:
        if FAILURE == "empty":
            database.execute("PRAGMA user_version = 1")
            return 0
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, text TEXT, textId INTEGER)")
        database.execute("INSERT INTO StringIds VALUES (1, ?)", (os.environ.get("FAKE_NSYS_RANGE", ""),))
        database.execute("INSERT INTO NVTX_EVENTS VALUES (0, NULL, 1)")
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('report', ?)", (text,))
    database.close()
    sys.stderr.write("\rProcessing 2764 events: [=====100%]\n")
    return 0


def say(text: str) -> None:
    """Print to stdout, as nsys does, and flush."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
