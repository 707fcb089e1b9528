"""Run one capture as the command line does, for tests that send it signals or give it a terminal.

``python capture_driver.py RESULT OPTIONS`` reads the fields of ``CaptureOptions`` as JSON and writes the result to the
file RESULT, so that stdout and stderr belong to the profiled program.
"""

import json
import sys
from pathlib import Path

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.locate import find_nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.options import CaptureOptions


def main() -> int:
    """Capture, write the result or the error, and return the exit code of `nsyswrap profile`."""
    result_file, fields = Path(sys.argv[1]), json.loads(sys.argv[2])
    options = CaptureOptions(
        **{
            **fields,
            "command": tuple(fields["command"]),
            "folder": Path(fields["folder"]),
            "environment": tuple(tuple(pair) for pair in fields.get("environment", ())),
        }
    )
    phases: list[str] = []
    try:
        result = profile(options, find_nsys(), lambda phase, _share: phases.append(str(phase)))
    except NsyswrapError as error:
        result_file.write_text(
            json.dumps({"error": type(error).__name__, "message": error.message, "hint": error.hint, "phases": phases})
        )
        return error.exit_code
    result_file.write_text(
        json.dumps({"exit_code": result.exit_code, "wall_ns": result.wall_ns, "notes": result.notes, "phases": phases})
    )
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
