"""The planted faults: programs that state what they show, and run the same steps with and without their fault."""

import importlib
import importlib.util
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fault_programs import constants, find_programs

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
SHARED = {
    *("held_out", "language_models", "__init__", "training", "samples", "batches", "models", "compiling"),
    *("ranks", "trainer_loop", "lightning_loop", "disk", "texts", "control_group", "servers"),
}
NAMES = sorted(path.stem for path in (WORKLOADS / "faults").glob("*.py") if path.stem not in SHARED)
OF_SEVERAL = {each.name: each for each in find_programs(WORKLOADS / "faults") if each.module}
STEPS = 3
# These programs start processes, in which a test's replacements have no effect.
IN_PROCESSES = {"exposed_communication", "one_bucket", "one_shard"}
# The only ranges that they may have apart from steps and the usual phases.
OWN_PHASES = {"log", "look", "tidy", "validate"}
# The modules of the libraries whose models or loops the programs run; the loop of transformers uses accelerate.
MODULES = {
    "transformers": ("transformers", "accelerate"),
    "Lightning": ("lightning",),
    "accelerate": ("accelerate",),
    "timm": ("timm",),
    "torchvision": ("torchvision",),
}
# Libraries that a program needs in addition.
NEEDS = dict.fromkeys(("tokenized_in_the_step", "candidates_tokenized"), ("transformers",))
USUAL_PHASES = {"data", "copy", "forward", "backward", "optimizer"}


def constants_of(name: str) -> dict[str, Any]:
    """Return the constants that describe a program."""
    return {"LIBRARY": "", **constants(WORKLOADS / "faults" / f"{name}.py")}


def missing_libraries(name: str) -> list[str]:
    """Return the libraries that a program needs and that are not installed."""
    library = OF_SEVERAL[name].library if name in OF_SEVERAL else str(constants_of(name)["LIBRARY"])
    needed = (*MODULES.get(library, ()), *NEEDS.get(name, ()))
    return [module for module in needed if importlib.util.find_spec(module) is None]


def skip_without_library(name: str) -> None:
    """Skip the test if a program runs the loop of a library that is not installed."""
    if missing := missing_libraries(name):
        pytest.skip(f"not installed: {', '.join(missing)}")


def run_or_skip(program: ModuleType, arguments: list[str]) -> None:
    """Run a program; skip the test if it needs a control group and none can be made."""
    try:
        program.main(arguments)
    except SystemExit as error:
        if str(error).startswith(importlib.import_module("faults.control_group").NOT_POSSIBLE):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("name", NAMES)
def test_a_program_plants_one_fault_and_fixes_it(name: str) -> None:
    """A program expects one rule with the fault, and none without it."""
    expects = constants_of(name)["EXPECTS"]
    assert set(expects) == {"", "--fixed"}
    assert len(expects[""]) == 1
    assert "/" in expects[""][0]
    assert expects["--fixed"] == ()


def test_each_program_has_a_shape_of_its_own() -> None:
    """The shape is one phrase for a table. The tests know the modules of each library."""
    shapes = [str(constants_of(name)["SHAPE"]) for name in NAMES] + [each.shape for each in OF_SEVERAL.values()]
    assert len(set(shapes)) == len(shapes)
    assert not [shape for shape in shapes if not shape or "|" in shape or shape.endswith(".")]
    libraries = {constants_of(name)["LIBRARY"] for name in NAMES} | {each.library for each in OF_SEVERAL.values()}
    assert libraries == {"", *MODULES}


@pytest.mark.usefixtures("shared")
@pytest.mark.filterwarnings("ignore:::lightning", "ignore:::transformers", "ignore:::torch")
@pytest.mark.parametrize("name", [*(name for name in NAMES if name not in IN_PROCESSES), *OF_SEVERAL])
def test_both_forms_do_the_same_steps(
    name: str, events: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small steps on a CPU are in order, each with its phases inside, and the program prints a result at the end."""
    skip_without_library(name)
    for variable in ("CUDA_VISIBLE_DEVICES", "USE_PYTORCH_KERNEL_CACHE"):
        monkeypatch.setenv(variable, "1")
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    program = importlib.import_module(f"faults.{OF_SEVERAL[name].module if name in OF_SEVERAL else name}")
    opened = {}
    for form in ("", "--fixed"):
        if state := sys.modules.get("accelerate.state"):  # one process has one precision
            state.AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - its own tests use it
        events.clear()
        words = [name] if name in OF_SEVERAL else []
        run_or_skip(program, [*words, *form.split(), "--steps", str(STEPS), "--device", "cpu"])
        assert capsys.readouterr().out.count("\n") == 1
        steps = [each for each in events if each[1:].startswith("batch ")]
        assert steps == [f"{sign}batch {number}" for number in range(STEPS) for sign in "+-"]
        phases = {each[1:] for each in events} - {each[1:] for each in steps}
        assert phases
        assert phases <= USUAL_PHASES | OWN_PHASES
        opened[form] = phases
    assert opened[""] == opened["--fixed"]


# Starts programs by their names, one after another, as `python -m faults.NAME` does. All share the import of torch,
# which takes longest: processes that a program would spawn are forked, if what spawning hands over can be pickled.
BY_NAME = """
import pickle, runpy, sys
import torch._dynamo
from torch import multiprocessing
start = multiprocessing.start_processes
def forked(work, arguments, nprocs):
    pickle.dumps((work, arguments))
    start(work, arguments, nprocs=nprocs, start_method="fork")
multiprocessing.spawn = forked
names = sys.argv[1:]
for name in names:
    sys.argv[1:] = ["--steps", "2", "--device", "cpu"]
    print(name, flush=True)
    runpy.run_module(f"faults.{name}", run_name="__main__", alter_sys=True)
    sys.stdout.flush()
"""


# Last, because a process that has trained must not be forked.
ALONE = "uneven_steps"


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    """Return what programs print without a GPU, in sorted lines: those that start two processes, and one without."""
    names = [*(name for name in sorted(IN_PROCESSES) if not missing_libraries(name)), ALONE]
    command = [sys.executable, "-c", BY_NAME, *names]
    done = subprocess.run(command, cwd=WORKLOADS, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    starts = [*(lines.index(name) for name in names), len(lines)]
    return {name: sorted(lines[start + 1 : end]) for name, (start, end) in zip(names, pairwise(starts), strict=True)}


def test_a_program_starts_by_its_name_in_the_folder_of_workloads(printed: dict[str, list[str]]) -> None:
    assert [line.split(" ")[0] for line in printed[ALONE]] == ["loss"]


@pytest.mark.parametrize("name", sorted(IN_PROCESSES))
def test_two_processes_share_the_training_where_there_is_no_gpu(name: str, printed: dict[str, list[str]]) -> None:
    skip_without_library(name)
    assert [line.split(":")[0] for line in printed[name]] == ["rank 0", "rank 1"]


@pytest.mark.usefixtures("shared")
def test_what_a_fault_changes_is_the_time_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A program prints the same numbers with and without the fault, if both use the same precision."""
    for name in (
        *("few_workers", "loading_in_the_training_process", "pageable_copies", "synchronization", "small_grids"),
        *("columns_one_by_one", "features_to_host", "growing_history", "hashed_experts", "one_token_at_a_time"),
    ):
        program = importlib.import_module(f"faults.{name}")
        said = []
        for form in ([], ["--fixed"]):
            program.main([*form, "--steps", "2", "--device", "cpu"])
            said.append(capsys.readouterr().out.split(" ")[1])
        assert said[0] == said[1], name
