"""``python -m nsyswrap`` and the console script."""

import os
import sys

INTERRUPTED = 130


def open_standard_streams() -> None:
    """Open ``/dev/null`` for each standard stream that was closed at the start, also for child processes.

    ``sys.stdout`` stays closed, so that a command reports an error instead of losing its result. The open ones write
    everything or raise an error, but messages on stderr are dropped where they cannot be shown.
    """
    from nsyswrap.cli.streams import complete  # noqa: PLC0415 - Ctrl-C may come while it is loaded

    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null != descriptor:
                os.close(null)
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the system's signature
            if name != "stdout":
                # It stays open when another stream takes its place.
                stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
    if sys.stdout is not None:
        sys.stdout = complete(sys.stdout, is_result=True)
    sys.stderr = complete(sys.stderr, is_result=False)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        open_standard_streams()
        # Ctrl-C may come while these are loaded.
        from nsyswrap.cli import cli  # noqa: PLC0415
        from nsyswrap.cli.memory_settings import tune_collector, tune_heap  # noqa: PLC0415

        tune_collector()
        tune_heap()
        cli(prog_name="nsyswrap")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
