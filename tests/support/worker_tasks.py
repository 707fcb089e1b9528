"""Tasks for processes of their own: they answer, end their process, or never end."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def maker() -> Callable[[str], str]:
    """Return ``answer``, as a process loads it."""
    return answer


def answer(task: str) -> str:
    """Answer a task: ``die`` ends the process, ``die once FILE`` does so the first time, ``hang`` does not end."""
    if task.startswith("die once "):
        mark = Path(task.removeprefix("die once "))
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    elif task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif task == "hang":
        time.sleep(3600)
    elif task == "raise":
        raise ValueError(task)
    return f"answer to {task}"
