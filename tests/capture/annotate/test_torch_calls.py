# ruff: noqa: ANN401 - torch's own signatures
"""The wrappers of torch's calls, installed in this process and removed after each test."""

import contextvars
import copy
import functools
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch
from annotate_fixtures import Broken, Recorder, compiled_recording
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nsyswrap.capture.annotate import torch_calls
from nsyswrap.capture.annotate.marker import Marker
from nsyswrap.capture.annotate.torch_calls import MARK, Patches, patch

SAMPLES = TensorDataset(torch.arange(24.0).reshape(12, 2), torch.arange(12) % 2)


@pytest.fixture(params=["python", "compiled"])
def marked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """Mark the phases of this process, in Python or in compiled code; the device "meta" counts as an accelerator."""
    monkeypatch.setattr(torch_calls, "ACCELERATORS", ("cuda", "meta"))
    monkeypatch.setattr(torch_calls, "TRACED", [])  # another test of this process may have compiled something
    recorder = Recorder()
    if request.param == "compiled":
        marker = compiled_recording(request.getfixturevalue("compiled_module"), recorder)
    else:
        marker = Marker(recorder)
    patches = patch(torch, marker)
    assert isinstance(nn.Module.__call__, FunctionType) == (request.param == "python")
    yield recorder
    patches.undo()


def phases(recorder: Recorder) -> list[str]:
    """Return the ranges without steps."""
    return [line.strip() for line in recorder.lines if not line.strip().startswith(("step", "batch"))]


def trained(steps: int = 3) -> list[float]:
    """Train a small model; return its losses."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for inputs, labels in DataLoader(SAMPLES, batch_size=12 // steps, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_complete_training_loop_is_marked(marked: Recorder) -> None:
    """Creating the loader's iterator is data, too; the last wait gets no batch."""
    trained(2)
    step = ["data", "optimizer", "forward", "backward", "optimizer"]
    assert phases(marked) == ["data", *step, *step, "data"]
    assert [line for line in marked.lines if line.startswith("step")] == ["step 0", "step 1", "step 2"]


def test_losses_are_the_same_bit_for_bit() -> None:
    """Runs with marks, with a profiler that fails and without marks have the same losses."""
    plain = trained()
    for sink in (Recorder(), Broken()):
        patches = patch(torch, Marker(sink))
        assert trained() == plain
        patches.undo()
    assert trained() == plain


def test_all_calls_are_restored() -> None:
    """Inherited calls are inherited again."""
    before = {name: vars(kind).get(name) for kind, name in PATCHED}
    patches = patch(torch, Marker(Recorder()))
    trained()
    assert getattr(torch.optim.Adam.step, MARK, False)
    patches.undo()
    assert {name: vars(kind).get(name) for kind, name in PATCHED} == before
    assert not getattr(torch.optim.Adam.step, MARK, False)


PATCHED: list[tuple[Any, str]] = [
    (nn.Module, "__call__"),
    (torch.Tensor, "to"),
    (torch.Tensor, "cuda"),
    (torch.autograd, "backward"),
    (torch.optim.Optimizer, "zero_grad"),
    (DataLoader, "__iter__"),
]


def test_only_the_outermost_module_is_marked(marked: Recorder) -> None:
    nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.ReLU()))(torch.ones(1, 2))
    assert phases(marked) == ["forward"]


def test_an_inner_module_uses_its_compiled_call(marked: Recorder) -> None:
    """Torch's own __call__ does the same."""
    inner = nn.Linear(2, 2)
    inner._compiled_call_impl = lambda inputs: inputs + 1  # noqa: SLF001 - where Module.compile puts it
    assert nn.Sequential(inner)(torch.ones(1, 2)).tolist() == inner(torch.ones(1, 2)).tolist() == [[2, 2]]
    assert phases(marked) == ["forward", "forward"]


def test_a_replacement_of_the_call_by_another_tool_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds for inner modules."""
    seen: list[type] = []
    own = nn.Module.__call__

    def replacement(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        seen.append(type(module))
        return own(module, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "__call__", replacement)
    recorder = Recorder()
    patches = patch(torch, Marker(recorder))
    nn.Sequential(nn.ReLU(), nn.GELU())(torch.ones(1))
    patches.undo()
    assert (seen, phases(recorder)) == ([nn.Sequential, nn.ReLU, nn.GELU], ["forward"])


def test_an_exception_closes_its_range_and_is_raised(marked: Recorder) -> None:
    class Failing(nn.Module):  # type: ignore[misc]
        def forward(self) -> None:
            raise ValueError("the program's own")

    with pytest.raises(ValueError, match="the program's own"):
        Failing()()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.backward(torch.ones(1))
    assert phases(marked) == ["forward", "backward"]
    assert marked.depth == 1  # the step


COPIES: dict[str, tuple[Callable[[torch.Tensor], object], bool]] = {
    "name": (lambda x: x.to("meta"), True),
    "device": (lambda x: x.to(torch.device("meta")), True),
    "keyword": (lambda x: x.to(device="meta", dtype=torch.float64), True),
    "other tensor": (lambda x: x.to(torch.empty(1, device="meta")), True),
    "not blocking": (lambda x: x.to("meta", non_blocking=True), True),
    "back": (lambda _: torch.empty(1, device="meta").to("meta"), False),
    "type": (lambda x: x.to(torch.float64), False),
    "cpu": (lambda x: x.to("cpu"), False),
    "nothing": (lambda x: x.to(dtype=torch.float16), False),
    "other on the cpu": (lambda x: x.to(torch.ones(1)), False),
}


@pytest.mark.parametrize("name", COPIES)
def test_only_copies_from_the_host_to_an_accelerator_are_marked(name: str, marked: Recorder) -> None:
    call, is_copy = COPIES[name]
    call(torch.ones(1))
    assert phases(marked) == (["copy"] if is_copy else [])


def test_modules_on_a_thread_with_a_copied_context_are_marked_too(marked: Recorder) -> None:
    """`asyncio.to_thread` copies the context of the caller, whose forward pass is over."""
    module, context = nn.Sequential(nn.ReLU()), []

    def forward() -> None:
        module(torch.ones(1))
        context.append(contextvars.copy_context())

    forward()
    thread = threading.Thread(target=context[0].run, args=(forward,))
    thread.start()
    thread.join()
    forward()
    assert phases(marked) == ["forward"] * 3


def test_a_device_that_was_seen_before_is_still_an_accelerator_or_not(marked: Recorder) -> None:
    for target in ("meta", "cpu", torch.device("meta"), torch.device("cpu")) * 2:
        torch.ones(1).to(target)
    assert phases(marked) == ["copy"] * 4


def test_a_device_number_means_an_accelerator(marked: Recorder) -> None:
    """The call `cuda()` means an accelerator too. Without a GPU it fails and closes its range."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(1).to(0)
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(1).cuda()
    assert (phases(marked), marked.depth) == (["copy", "copy"], 0)


def test_moving_a_module_is_not_a_copy_of_a_batch(marked: Recorder) -> None:
    assert next(nn.Linear(2, 2).to("meta").parameters()).device.type == "meta"
    assert phases(marked) == []


def test_a_scaler_s_step_is_one_range_and_one_step(marked: Recorder) -> None:
    """It works in the same way on a CPU and a GPU."""
    scaler, weight = torch.amp.GradScaler("cpu"), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert phases(marked) == ["backward", "optimizer", "optimizer"] * 2
    assert [line for line in marked.lines if line.startswith("step")] == ["step 0", "step 1"]


class Own(torch.optim.Optimizer):  # type: ignore[misc]
    """An optimizer of the program."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> Any:
        """Return the result of the closure."""
        return closure and closure()


class Derived(Own):
    """An optimizer that inherits its step."""


@pytest.mark.parametrize("kind", [Own, Derived, torch.optim.LBFGS])
def test_optimizers_of_any_class_are_marked_once(kind: type, marked: Recorder) -> None:
    """Closures run inside the step."""
    weight = nn.Parameter(torch.ones(1))
    fresh: Any = type("Fresh", (kind,), {})  # torch puts a hook around the marked step into the class
    optimizer = fresh([weight])

    def closure() -> torch.Tensor:
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) is not None
    assert phases(marked)[:2] == ["optimizer", "backward"]
    assert phases(marked).count("optimizer") == 1


def test_hooks_schedulers_copies_and_pickles_of_optimizers_work(marked: Recorder) -> None:
    """Other tools use these on an optimizer's step."""
    weight, seen = nn.Parameter(torch.ones(1)), []
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_post_hook(lambda *_: seen.append("hook"))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    copy.deepcopy(torch.optim.SGD([weight], lr=0.1)).step()
    pickle.loads(pickle.dumps(torch.optim.SGD([weight], lr=0.1))).step()  # noqa: S301 - made here
    assert (seen, phases(marked)) == (["hook"], ["optimizer"] * 3)


def test_the_call_of_a_module_is_bound_and_described_like_torchs_own(marked: Recorder) -> None:
    module = nn.Linear(2, 2)
    bound: Any = module.__call__
    assert bound.__self__ is module
    assert bound(torch.ones(1, 2)).shape == (1, 2)
    assert list(inspect.signature(nn.Module.__call__).parameters) == ["self", "args", "kwargs"]
    with pytest.raises(TypeError):
        nn.Module.__call__()
    assert phases(marked) == ["forward"]


def test_a_wrapper_of_another_tool_is_not_exchanged() -> None:
    """It has a copy of our mark, since ``functools.wraps`` copies all attributes."""

    class Owner:
        def call(self) -> str:
            return "own"

    def marked_as(text: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
        return lambda call: lambda owner: f"{text} {call(owner)}"

    patches = Patches(lambda _code: None)
    patches.replace(Owner, "call", marked_as("first"))
    first = Owner.call
    second = patches.exchange(Owner, "call", first, marked_as("second"))
    assert Owner.call is second
    assert Owner().call() == "second own"
    tool = functools.wraps(Owner.call)(lambda _: "of the tool")
    assert getattr(tool, MARK)
    setattr(Owner, "call", tool)  # noqa: B010 - as a tool does
    assert patches.exchange(Owner, "call", second, marked_as("third")) is None
    assert Owner().call() == "of the tool"
    patches.undo()
    assert Owner().call() == "own"


def test_another_tool_may_wrap_a_marked_call(marked: Recorder) -> None:
    """What it has saved and calls is the marked call, with inputs by name."""
    own = nn.Module.__call__

    def wrapper(module: nn.Module, **inputs: torch.Tensor) -> Any:
        return own(module, **inputs)

    with pytest.MonkeyPatch.context() as patch_of_the_tool:  # its end comes before that of the marks
        patch_of_the_tool.setattr(nn.Module, "__call__", wrapper)
        nn.ReLU()(input=torch.ones(1))
    assert phases(marked) == ["forward"]


@pytest.mark.parametrize(
    "call", ["Tensor.to", "Tensor.cuda", "nn.Module.__call__", "autograd.backward", "nn.Module.to"]
)
def test_a_call_can_be_pickled(call: str, marked: Recorder) -> None:
    """Worker processes get functions by name."""
    found: Any = torch
    for name in call.split("."):
        found = getattr(found, name)
    assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301 - made here
    assert marked.lines == []


def test_tracing_scripting_and_symbolic_tracing_work(marked: Recorder) -> None:
    """The graphs are those of the unmarked module."""
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    inputs = torch.ones(1, 2)
    expected = module(inputs)
    graph = torch.fx.symbolic_trace(module)
    assert torch.equal(graph(inputs), expected)
    assert len(list(graph.graph.nodes)) == 4
    assert phases(marked)


def test_a_tensor_subclass_gets_the_same_function(marked: Recorder) -> None:
    """__torch_function__ of a subclass gets the attribute of Tensor, as without marks, and nothing else."""
    calls: list[Any] = []

    class Logged(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.ones(1).as_subclass(Logged).to(torch.float64)
    assert calls == [torch.Tensor.to]
    assert phases(marked) == []


class Endless(IterableDataset[int]):  # type: ignore[misc]
    """A data set of three numbers."""

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers."""
        return iter(range(3))


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_an_iterable_data_set_are_marked(workers: int, marked: Recorder) -> None:
    batches = [int(batch) for batch in DataLoader(Endless(), batch_size=None, num_workers=workers)]
    assert (batches, phases(marked)) == ([0, 1, 2], ["data"] * 5)


def test_a_call_that_this_torch_lacks_gives_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are marked."""
    patches = Patches(lambda _code: None)
    patches.replace(nn.Module, "no_such_call", lambda call: call)
    patches.undo()
    assert "Module.no_such_call is not marked: AttributeError" in capsys.readouterr().err
