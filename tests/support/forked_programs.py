"""Runs programs in processes that are forked after one import of torch: see ``program_server.py``."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_ROOT = Path(__file__).resolve().parents[2]


class ForkedPrograms:
    """The server of such processes.

    Args:
        environment: Variables to set for it and its programs.
    """

    def __init__(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        words = [sys.executable, str(Path(__file__).with_name("program_server.py"))]
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        variables = {**os.environ, "PYTHONPATH": path, **environment}
        self._server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)

    def run(self, **job: object) -> int:
        """Run a program, and return its exit code; that of a signal is negative."""
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the server has no pipes")
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def close(self) -> None:
        """Let the server end."""
        self._server.communicate()
