"""Imports torch once, and forks a process for each program that a line on stdin names; prints its exit code.

A line is JSON: the script, its working folder, the folder of its records (empty for none), the rounding error of its
sums, and the file for what it prints. Programs run as with `nsyswrap verify`, but share the import of torch.
"""

import atexit
import json
import os
import random
import runpy
import sys
import traceback
from typing import Any

import torch
import torch._dynamo
import torch.utils.flop_counter  # forked processes have it

from nsyswrap.experiments import work_record


def _after_import(name: str, then: Any) -> None:  # noqa: ANN401 - called with a module
    if name in sys.modules:
        then(sys.modules[name])


def _run(job: dict[str, Any]) -> int:
    """Run a program in this process, and return its exit code."""
    os.chdir(job["cwd"])
    with open(job["output"], "w", encoding="utf-8") as file:  # noqa: PTH123
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    atexit._clear()  # noqa: SLF001 - those of the server's own
    torch.manual_seed(work_record.SEED)
    random.seed(work_record.SEED)
    if job["folder"]:
        os.environ[work_record.FOLDER_VARIABLE] = job["folder"]
        os.environ[work_record.ROUNDOFF_VARIABLE] = repr(job["roundoff"])
        work_record.start(_after_import)
    sys.argv = [job["script"]]
    sys.path[0] = os.path.dirname(job["script"])  # noqa: PTH120
    code: object = 0
    try:
        runpy.run_path(job["script"], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()  # noqa: SLF001 - as the interpreter does at its end
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0) if isinstance(code, int | None) else 1


def main() -> None:
    """Run programs until stdin ends."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(0)
                os.open(os.devnull, os.O_RDONLY)
                code = _run(job)
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
