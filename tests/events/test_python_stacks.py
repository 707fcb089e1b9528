"""The line of a sampled stack: the program's own lines come before those of libraries, and paths are shortened."""

import pytest

from nsyswrap.events.python_stacks import find_lines
from nsyswrap.model import Capture, Session
from nsyswrap.trace.tables import SPECS, Frame, Trace

TORCH = "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/conv.py"
THREADING = "/usr/lib/python3.12/threading.py"
SCRIPT = "/srv/app/train.py"


def trace(*stacks: tuple[Frame, ...]) -> Trace:
    """Make a trace of empty tables with these stacks."""
    return Trace(
        capture=Capture("x.sqlite", 1),
        session=Session(),
        gpus=(),
        frames={spec.name: spec.empty() for spec in SPECS},
        strings={},
        copy_kinds={},
        memory_kinds={},
        absent=frozenset(),
        event_counts={},
        stacks=stacks,
    )


def stack(*files: str) -> tuple[Frame, ...]:
    """Return a stack with one frame for each file, innermost first; lines count from 1."""
    return tuple(Frame(f"f{line}", file, line) for line, file in enumerate(files, 1))


def own(*files: str) -> str:
    """Return the file of a stack's line, as it is shown."""
    return find_lines(trace(stack(*files))).own[0].file


def test_the_innermost_line_of_the_program_is_shown() -> None:
    found = find_lines(trace(stack(TORCH, "/srv/app/models/net.py", SCRIPT)))
    assert found.own == (Frame("f2", "models/net.py", 2),)
    assert found.innermost == (Frame("f1", "torch/nn/modules/conv.py", 1),)


@pytest.mark.parametrize(
    "library",
    [
        TORCH,
        THREADING,
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/srv/venv/lib64/python3.13/site-packages/x/y.py",
        "/srv/site-packages/nvtx/nvtx.py",
        "lib/python3.12/site-packages/torch/nn/a.py",
        "<frozen importlib._bootstrap>",
    ],
)
def test_a_library_is_not_the_program(library: str) -> None:
    assert own(library, SCRIPT) == "train.py"


@pytest.mark.parametrize("file", ["/srv/lib/python_tools/a.py", "/srv/mylib/python3.12/a.py", "python.py"])
def test_a_folder_with_a_similar_name_is_not_a_library(file: str) -> None:
    assert find_lines(trace(stack(file, THREADING))).own[0].line == 1


def test_code_without_a_file_comes_before_a_library() -> None:
    """``python -c`` and the code that dataclasses generate have no file. A real file comes first."""
    assert own(TORCH, "<string>") == "<string>"
    assert own("<string>", SCRIPT) == "train.py"


def test_the_line_of_a_stack_of_libraries_is_its_innermost_frame() -> None:
    assert own(THREADING, TORCH) == "threading.py"


def test_files_are_shown_below_the_folder_of_the_script() -> None:
    """The script is the file in which most stacks begin."""
    stacks = [stack("/srv/app/models/net.py", SCRIPT), stack("/srv/app/data/read.py", SCRIPT), stack("/srv/other/x.py")]
    files = [frame.file for frame in find_lines(trace(*stacks)).own]
    assert files == ["models/net.py", "data/read.py", "other/x.py"]
