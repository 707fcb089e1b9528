"""The changes as code are valid Python, and PyTorch knows what they call."""

import ast
import gc
import inspect
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nsyswrap.rules import RULES, code_changes
from nsyswrap.rules.code import LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.idle import CPU, DATA_WAIT, LAUNCH_LESS, OF_LIBRARIES, OWN_THREADS
from nsyswrap.rules.synchronization import SMALL_COPIES

WITH_CODE = sorted(key for key, rule in RULES.items() if rule.code)
CHANGES = sorted({change for rule in RULES.values() for each in (rule, *rule.cases) for change in each.code})
LONGEST_LINE = 100


def test_a_rule_with_code_may_be_part_of_a_plan() -> None:
    assert all(RULES[key].fixed != "if fixed" for key in WITH_CODE)


def test_a_rule_without_a_change_has_none() -> None:
    assert code_changes("idle/unknown") == ()
    assert code_changes(CPU.key, CPU.advice) == ()


def test_a_change_may_follow_from_the_advice() -> None:
    """Launching less is one of two advices on CPU code between launches; the other needs a look at the program."""
    assert code_changes(CPU.key, LAUNCH_LESS.advice) == code_changes("idle/launch")
    assert code_changes("idle/off_cpu", OWN_THREADS.advice) == code_changes("host/cpu_quota")
    assert code_changes("ranks/late", DATA_WAIT.advice) == code_changes(DATA_WAIT.key)


def test_another_advice_on_a_rule_has_its_own_change() -> None:
    """Small copies to the GPU are joined, and a library is opened once; the rule's usual change would not help."""
    for rule, case in (("synchronization/in_step", SMALL_COPIES), ("idle/module_load", OF_LIBRARIES)):
        usual = code_changes(rule, RULES[rule].advice)
        assert code_changes(rule, case.advice) == case.code not in {(), code_changes(rule), usual}


def test_work_in_the_background_is_ready_when_the_step_needs_it() -> None:
    names: dict[str, Any] = {"work": str.upper, "argument": "a", "train": list, "batch": "b"}
    exec(pytorch_code("idle/file_io"), names)  # noqa: S102 - our own code
    assert names["result"] == "A"


def test_text_is_tokenized_once() -> None:
    """The data set is replaced by one that applies the function."""
    rows = SimpleNamespace(map=lambda function, **_: function({"text": ["a b"]}))
    names: dict[str, Any] = {"dataset": rows, "tokenizer": lambda texts, **_: [each.split() for each in texts]}
    exec(pytorch_code("host/tokenizer"), names)  # noqa: S102 - our own code
    assert names["dataset"] == [["a", "b"]]


@pytest.mark.parametrize("rule", WITH_CODE)
def test_a_rule_has_at_most_one_change_for_each_library_and_pytorch_comes_first(rule: str) -> None:
    libraries = [change.library for change in RULES[rule].code]
    assert libraries[0] == PYTORCH
    assert libraries == sorted(set(libraries), key=(PYTORCH, LIGHTNING, TRANSFORMERS).index)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.code[:30])
def test_the_code_is_valid_and_its_lines_are_short(change: CodeChange) -> None:
    ast.parse(change.code)
    assert max(map(len, change.code.splitlines())) <= LONGEST_LINE


def calls(code: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))


@pytest.mark.parametrize(
    "change", [one for one in CHANGES if one.library == PYTORCH], ids=lambda change: change.code[:30]
)
def test_pytorch_knows_each_function_and_each_argument(change: CodeChange) -> None:
    """Functions that begin with ``torch.`` and the two classes with many arguments are looked up in PyTorch."""
    torch = pytest.importorskip("torch")
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415
    from torch.utils.data import DataLoader  # noqa: PLC0415

    known: dict[str, Any] = {
        "torch": torch,
        "DataLoader": DataLoader,
        "DistributedDataParallel": DistributedDataParallel,
        "gc": gc,
        "os": os,
    }
    for call in calls(change.code):
        name = ast.unparse(call.func)
        if name.partition(".")[0] not in known or not name.replace(".", "").isidentifier():
            continue
        called = eval(name, known)  # noqa: S307 - our own code
        given = {each.arg for each in call.keywords}
        assert callable(called)
        if given and not inspect.isbuiltin(called):
            parameters = inspect.signature(called).parameters
            assert given <= set(parameters) or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def pytorch_code(rule: str) -> str:
    """Return the change of a rule for PyTorch."""
    return code_changes(rule)[0].code


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_the_changes_that_need_no_gpu_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave a fused optimizer, a channels-last model, one product and a checkpoint."""
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Conv2d(3, 4, 3)
    names: dict[str, Any] = {"torch": torch, "model": model, "rate": 0.1, "device": "cpu", "step": 8}
    names |= {"images": torch.rand(2, 3, 8, 8), "lefts": [torch.eye(3)] * 2, "rights": [torch.eye(3)] * 2}
    for rule in ("optimizer/many_kernels", "tensor_cores/layout", "compute/small_matrices", "host/checkpoint"):
        exec(pytorch_code(rule), names)  # noqa: S102 - our own code
    assert names["optimizer"].defaults["fused"] is True
    assert names["images"].is_contiguous(memory_format=torch.channels_last)
    assert names["model"].weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(names["products"], torch.stack([torch.eye(3)] * 2))
    assert (tmp_path / "step-8" / ".metadata").is_file()


def test_losses_are_read_once_in_100_steps(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"torch": torch, "losses": []}
    for step in range(201):
        names |= {"step": step, "loss": torch.tensor(float(step))}
        exec(pytorch_code("synchronization/in_step"), names)  # noqa: S102 - our own code
    assert [float(line) for line in capsys.readouterr().out.split()] == [0.0, 50.5, 150.5]


def test_garbage_is_collected_once_in_1000_steps() -> None:
    """The program's own collector is replaced by one that counts."""
    counted: list[str] = []
    collector = SimpleNamespace(
        **{name: lambda name=name: counted.append(name) for name in ("collect", "freeze", "disable")}
    )
    names = {"gc": collector, "loader": range(2001), "train": lambda _batch: None}
    exec(pytorch_code("idle/garbage_collection"), names)  # noqa: S102 - our own code
    assert counted == ["collect", "freeze", "disable", "collect", "collect", "collect"]


def test_batches_are_copied_ahead_in_their_order() -> None:
    """The copy of the next batch is made before the current batch is used."""
    made: list[str] = []

    class Batch:
        """A batch that notes its copy."""

        def __init__(self, number: int) -> None:
            self.number = number

        def to(self, _device: str, *, non_blocking: bool) -> "Batch":
            assert non_blocking
            made.append(f"copy {self.number}")
            return self

        def record_stream(self, _stream: object) -> None:
            """Do nothing."""

    stream = SimpleNamespace(wait_stream=lambda _other: made.append("wait"))
    cuda = SimpleNamespace(Stream=SimpleNamespace, stream=lambda _one: nullcontext(), current_stream=lambda: stream)
    names: dict[str, Any] = {"torch": SimpleNamespace(cuda=cuda), "device": "cuda"}
    exec(pytorch_code("copies/exposed"), names)  # noqa: S102 - our own code
    made.extend(f"use {batch.number}" for batch in names["on_gpu"](map(Batch, range(3))))
    assert made == ["copy 0", "wait", "copy 1", "use 0", "wait", "copy 2", "use 1", "wait", "use 2"]
