"""Which programs record their own steps, by their command and their text."""

from pathlib import Path

import pytest
from capture_fixtures import executable, options

from nsyswrap.capture.arming import arming, program_text
from nsyswrap.capture.options import DEFAULT_TRACES

TRAINING = "optimizer = torch.optim.SGD(model.parameters())"


def written(folder: Path, text: str = TRAINING, name: str = "train.py") -> Path:
    """Write a program, and return its folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --epochs 3",
        "/usr/bin/python3.12 -u train.py",
        "./train.py",
        "torchrun --nproc-per-node 2 train.py",
        "python -m torch.distributed.run --standalone train.py",
        "accelerate launch --num_processes 2 train.py",
        "deepspeed --num_gpus 2 train.py",
        "srun -n 2 python train.py",
        "mpirun -np 2 python -m train",
        "torchrun -m train",
        "python -m torch.distributed.run -m train",
    ],
)
def test_the_text_of_a_python_program_is_found(tmp_path: Path, command: str) -> None:
    """Also behind launchers, and where it is run as a module or a folder."""
    assert program_text(command.split(), written(tmp_path)) == TRAINING


def test_the_text_of_a_package_is_its_main_module(tmp_path: Path) -> None:
    written(tmp_path, name="project/train/__main__.py")
    assert program_text(["python", "-m", "project.train"], tmp_path) == TRAINING


@pytest.mark.parametrize("command", ["bash train.sh", "python -m pytest", "python -c train.py", "python gone.py", "x"])
def test_other_programs_have_no_text(tmp_path: Path, command: str) -> None:
    assert program_text(command.split(), written(tmp_path)) is None
    assert not arming(options(tmp_path, *command.split(), annotate=True, cwd=tmp_path)).is_armed


@pytest.mark.parametrize(
    ("text", "is_armed"),
    [
        (TRAINING, True),
        ("loss.backward()", True),
        ("trainer = Trainer(max_epochs=3)", True),
        ("model.fit(data)", True),
        ("model.generate(prompt)", False),
        ("optimistic = True", False),
        (f"{TRAINING}\ntorch.cuda.cudart().cudaProfilerStart()", False),
        (f"{TRAINING}\nprofiler.start()", False),
    ],
)
def test_a_program_that_shows_a_training_loop_records_its_steps(tmp_path: Path, text: str, *, is_armed: bool) -> None:
    """One that starts a profiler itself does not."""
    found = arming(options(tmp_path, "python", "train.py", annotate=True, cwd=written(tmp_path, text)))
    assert found.is_armed is is_armed
    assert bool(found.note) == ("rofiler" in text)


@pytest.mark.parametrize(
    ("text", "monitors", "is_armed"),
    [
        ('torch.cuda.nvtx.range_push(f"batch {batch}")', True, True),
        ('with nvtx.annotate("Step %d" % number):', True, True),
        ('nvtx.push_range(message=f"iteration {each}")', True, True),
        ('with torch.cuda.nvtx.range("step {}", number):', True, True),
        ("    with common.batch(number):", True, True),
        ("with pool.batches(number):", True, False),
        ('torch.cuda.nvtx.range_push(f"batch {batch}")', False, False),
        ('torch.cuda.nvtx.range_push("forward")', True, False),
        ('nvtx.annotate("forward")  # in each step', True, False),
    ],
)
@pytest.mark.parametrize("command", ["./python3 train.py", "./launch train.py"])
def test_a_program_that_marks_its_steps_records_them_where_its_python_can_show_them(  # noqa: PLR0913
    tmp_path: Path, text: str, command: str, monkeypatch: pytest.MonkeyPatch, *, monitors: bool, is_armed: bool
) -> None:
    """That is the Python of the command, or of the launcher in it."""
    monkeypatch.chdir(tmp_path)
    python = executable(tmp_path / "python3", f"#!/bin/sh\nexit {int(not monitors)}\n")
    executable(tmp_path / "launch", f"#!{python} -s\n")
    found = arming(options(tmp_path, *command.split(), annotate=True, cwd=written(tmp_path, text)))
    assert found.is_armed is is_armed


@pytest.mark.parametrize(
    "given",
    [
        {"annotate": False},
        {"duration_s": 3.0},
        {"delay_s": 3.0},
        {"capture_range": "cudaProfilerApi"},
        {"steps": "all"},
        {"traces": ("cuda",)},
        {"nsys_args": ("--capture-range=hotkey",)},
    ],
)
def test_options_that_say_what_to_record_come_first(tmp_path: Path, given: dict[str, object]) -> None:
    fields = {"annotate": True, "traces": DEFAULT_TRACES, **given}
    assert not arming(options(tmp_path, "python", "train.py", cwd=written(tmp_path), **fields)).is_armed


def test_chosen_steps_need_no_text(tmp_path: Path) -> None:
    assert arming(options(tmp_path, "bash", "train.sh", annotate=True, steps="30")).is_armed
