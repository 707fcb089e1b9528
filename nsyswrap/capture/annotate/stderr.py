"""What marks write: warnings on the program's stderr, and files for nsyswrap."""

import os
import sys


def warn(text: str) -> None:
    """Print a warning on stderr, unless stderr is closed."""
    try:  # noqa: SIM105 - contextlib would be one more module in each process
        sys.stderr.write(f"nsyswrap: annotate: {text}\n")
    except Exception:  # noqa: BLE001, S110 - the program may have closed stderr
        pass


def write_whole(path: str, value: object) -> None:
    """Write a file of JSON, which appears whole; print a warning where that fails."""
    import json  # noqa: PLC0415 - a process that does not import torch has hardly more modules than without marks

    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be one more module
            json.dump(value, file)
        os.replace(f"{path}.new", path)  # noqa: PTH105
    except Exception as error:  # noqa: BLE001 - a daemon of the program goes on after the run, whose folder is gone
        warn(f"cannot write to {path}: {type(error).__name__}: {error}")
