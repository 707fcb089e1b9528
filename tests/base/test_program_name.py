"""The program of a command, and its arguments."""

import pytest

from nsyswrap.base.program_name import program_and_arguments, working_words


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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("train.py --seed 17 --lr 0.1", "train.py --seed * --lr 0.1"),
        ("train.py --random_seed=17", "train.py --random_seed=*"),
        ("train.py --run-name ci-4711 --epochs 3", "train.py --run-name * --epochs 3"),
        ("train.py --output-dir runs/17", "train.py --output-dir *"),
        ("train.py trainer.seed=5 model.depth=2", "train.py trainer.seed=* model.depth=2"),
        ("/var/tmp/build-17/train.py --data /dev/shm/tmpab12", "*/train.py --data *"),  # noqa: S108 - names only
        ("train.py --data=/var/tmp/job17/tiny.bin", "train.py --data=*/tiny.bin"),
        ("train.py --seed --fast", "train.py --seed --fast"),
        ("train.py --mode eager --running-mean", "train.py --mode eager --running-mean"),
        ("train.py seed 3", "train.py seed 3"),
    ],
)
def test_values_that_differ_from_run_to_run_are_left_out(command: str, expected: str) -> None:
    """Seeds, numbers and names of runs, places of results, temporary paths; all other words stay."""
    assert working_words(command.split()) == tuple(expected.split())
