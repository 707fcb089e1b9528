"""Warnings of marks, on the program's stderr."""

import sys


def warn(text: str) -> None:
    """Print a warning on stderr, unless stderr is closed."""
    try:  # noqa: SIM105 - contextlib would be one more module in each process
        sys.stderr.write(f"nsyswrap: annotate: {text}\n")
    except Exception:  # noqa: BLE001, S110 - the program may have closed stderr
        pass
