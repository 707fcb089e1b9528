"""Imports torch and its compiler once, and forks a process for each file of programs, which forks one for each program.

A training without compiled code imports the compiler, too: at the first step of an optimizer.

    fork_server.py FOLDER FILE:NAME,NAME FILE:NAME ...
"""

import os
import sys

import torch  # noqa: F401 - forked processes have it
import torch._dynamo  # noqa: F401


def run_file(file: str, folder: str, names: str) -> None:
    """Run programs of a file in forked processes, as the main module of this process."""
    sys.argv = [file, "--fork", folder, *names.split(",")]
    with open(file, encoding="utf-8") as source:
        code = compile(source.read(), file, "exec")
    main = vars(sys.modules["__main__"])
    for name in [each for each in main if not each.startswith("__")]:
        del main[name]
    main.update(__file__=file, __doc__=None)
    exec(code, main)  # noqa: S102


def fork_files() -> None:
    """Run the files of the command line one after another; return in the forked process of each program."""
    here, parent = os.path.dirname(os.path.abspath(__file__)), os.getpid()
    for argument in sys.argv[2:]:
        file, names = argument.split(":")
        pid = os.fork()
        if not pid:
            run_file(os.path.join(here, file), os.path.join(sys.argv[1], file.removesuffix(".py")), names)
            return
        os.waitpid(pid, 0)
    assert os.getpid() == parent


fork_files()
