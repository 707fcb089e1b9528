"""The program of a command, and its arguments."""

import pytest

from nsyswrap.runs.program_name import program_and_arguments


@pytest.mark.parametrize(
    ("command", "program", "arguments"),
    [
        ("python train.py --epochs 1", "train.py", "--epochs 1"),
        ("/opt/venv/bin/python3.12 -u src/train.py", "src/train.py", "-u"),
        ("python ./train.py", "train.py", ""),
        ("torchrun --nproc-per-node 2 train.py --lr 0.1", "train.py", "torchrun --nproc-per-node 2 --lr 0.1"),
        ("python -m torch.run --nnodes=2 train.py", "train.py", "-m torch.run --nnodes=2"),
        ("python -m package.train --lr 0.1", "package.train", "--lr 0.1"),
        ("python -c print(1)", "python", "-c 'print(1)'"),
        ("./bin/simulate --fast", "simulate", "--fast"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_the_program_is_the_script(command: str, program: str, arguments: str) -> None:
    """Behind an interpreter and a launcher; a module, or the first word, where there is no script."""
    assert program_and_arguments(command.split()) == (program, arguments)


def test_words_with_spaces_are_quoted() -> None:
    assert program_and_arguments(["python", "train.py", "--name", "two words"])[1] == "--name 'two words'"
