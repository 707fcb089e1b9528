"""Imports torch once, and forks a process for each program that a line on stdin names; prints its exit code.

A line is JSON: the ``script`` or ``module`` with its ``arguments``, its working folder ``cwd``, the file ``output`` for
what it prints, and variables to set (``environment``). With the variables of `nsyswrap try` or `verify`, the program
runs as under these commands, but shares the import of torch.
"""

import atexit
import json
import os
import random
import runpy
import sys
import traceback
from multiprocessing import util
from typing import Any

import torch
import torch._dynamo
import torch.utils.flop_counter  # forked processes have it

from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.capture.annotate import process_start
from nsyswrap.capture.annotate.monitoring import Monitor
from nsyswrap.experiments import work_record
from nsyswrap.experiments.tried import start


def _after_import(name: str, then: Any) -> None:  # noqa: ANN401 - called with a module
    if name in sys.modules:
        then(sys.modules[name])


def _observe() -> None:
    """Start what the variables of this process ask for."""
    if start.REQUEST_VARIABLE in os.environ:
        os.environ |= {process_start.OBSERVER_VARIABLE: "", process_start.STEP_TEXT_VARIABLE: STEP_TEXT.pattern}
        monitor = Monitor() if hasattr(sys, "monitoring") else None
        process_start._mark_torch(torch, start.start(_after_import), monitor)  # noqa: SLF001 - torch is imported
    elif work_record.FOLDER_VARIABLE in os.environ:
        work_record.start(_after_import)


def _run(job: dict[str, Any]) -> int:
    """Run a program in this process, and return its exit code."""
    os.chdir(job["cwd"])
    with open(job["output"], "w", encoding="utf-8") as file:  # noqa: PTH123
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    atexit._clear()  # noqa: SLF001 - those of the server's own
    atexit.register(getattr(util, "_exit_function"))  # noqa: B009 - as multiprocessing did in the server
    torch.manual_seed(work_record.SEED)
    random.seed(work_record.SEED)
    os.environ |= job["environment"]
    _observe()
    sys.argv = [job.get("script", ""), *job.get("arguments", ())]
    code: object = 0
    try:
        if "module" in job:
            sys.path[0] = job["cwd"]
            runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(job["script"])  # noqa: PTH120
            runpy.run_path(job["script"], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()  # noqa: SLF001 - as the interpreter does at its end
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0) if isinstance(code, int | None) else 1


def main() -> None:
    """Run programs until stdin ends."""
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(0)
                os.open(os.devnull, os.O_RDONLY)
                code = _run(job)
            except BaseException:  # noqa: BLE001 - of this server
                traceback.print_exc()
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
