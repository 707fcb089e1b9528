"""Each experiment makes its change and undoes it: afterwards the program is as it was."""

import ast
import copy
import gc
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from nsyswrap.experiments.changes import experiments  # noqa: E402
from nsyswrap.experiments.tried.experiment import Experiment, NotApplicableError, parts_of, spec_of  # noqa: E402
from nsyswrap.experiments.tried.program import Alive, TriedProgram  # noqa: E402
from nsyswrap.rules import RULES  # noqa: E402


@pytest.fixture
def program() -> Iterator[TriedProgram]:
    """Return a program with one model and one optimizer, which has stepped."""
    found = TriedProgram(torch)
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    found.models.add(model)
    found.optimizers.add(optimizer)
    found.keeps_gradients = True
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    yield found  # noqa: PT022 - the model lives as long


def switched(program: TriedProgram, key: str, value: str = "") -> Any:  # noqa: ANN401 - what undoes it
    """Make the change of an experiment."""
    switch = experiments()[key].switch
    assert switch is not None
    return switch(program, value)


@pytest.mark.parametrize("each", experiments().values(), ids=experiments())
def test_an_experiment_says_what_it_does(each: Experiment) -> None:
    assert each.alters in {"nothing", "random numbers", "rounding", "mathematics"}
    assert each.lines["PyTorch"]
    assert (each.switch is None) != (each.prepare is None)
    for text in each.lines.values():
        ast.parse(textwrap.indent(text.format(value="8"), " ").join(("def f():\n", "\n")))


def test_rules_name_each_experiment_and_no_other() -> None:
    assert {name for rule in RULES.values() for name in rule.tried_with} == set(experiments())


@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_an_optimizer_gets_its_form_and_its_state_back(program: TriedProgram, form: str) -> None:
    """Its update with the form is that without it, except for rounding."""
    optimizer, model = program.optimizers[0], program.models[0]
    before = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
    twin = copy.deepcopy(model)
    twin_optimizer = torch.optim.AdamW(twin.parameters())
    twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    undo = switched(program, form)
    assert optimizer.param_groups[0][form]
    for stepped, parameters in ((optimizer, model), (twin_optimizer, twin)):
        stepped.zero_grad()
        parameters(torch.ones(2, 3)).square().sum().backward()
        stepped.step()
    undo()
    torch.testing.assert_close(model.state_dict(), twin.state_dict())
    assert {key: value for key, value in optimizer.param_groups[0].items() if key != "params"} == before
    assert "_step_supports_amp_scaling" not in vars(optimizer)


@pytest.mark.parametrize("key", ["tf32", "attention"])
def test_a_setting_that_a_captured_graph_ignores_does_not_apply(
    key: str, program: TriedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", type("Graph", (), {"replay": lambda _self: None}))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(TriedProgram, "uses_gpu", property(lambda _self: True))
    program.calls_attention = True
    assert experiments()[key].values(program)
    program.observe()
    torch.cuda.CUDAGraph().replay()
    program.leave()
    with pytest.raises(NotApplicableError, match="graphs keep"):
        experiments()[key].values(program)


def test_cudnn_measures_although_the_program_forbids_it(program: TriedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch keeps the first algorithm of each shape, so the change must not come later than the program's own."""
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "benchmark", False)
    monkeypatch.setattr(type(cudnn), "benchmark", vars(type(cudnn))["benchmark"])
    experiment = experiments()["cudnn_benchmark"]
    assert not experiment.is_in_turns
    assert experiment.prepare is not None
    experiment.prepare(program, "")
    cudnn.benchmark = False
    assert cudnn.benchmark


def test_an_optimizer_without_a_form_is_left_alone(program: TriedProgram) -> None:
    optimizer = torch.optim.LBFGS(program.models[0].parameters())
    program.optimizers = Alive()
    program.optimizers.add(optimizer)
    with pytest.raises(NotApplicableError, match="no optimizer of the program has a fused form"):
        experiments()["fused"].values(program)


def test_gradients_become_none_until_it_is_undone(program: TriedProgram) -> None:
    optimizer, weight = program.optimizers[0], program.models[0].weight
    undo = switched(program, "zero_grad")
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad is None
    undo()
    program.models[0](torch.ones(2, 3)).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad is not None


def test_collections_are_off_until_it_is_undone(program: TriedProgram) -> None:
    undo = switched(program, "gc")
    try:
        assert not gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        undo()
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def test_the_number_of_threads_is_set_again(program: TriedProgram) -> None:
    before = torch.get_num_threads()
    undo = switched(program, "threads", "1")
    assert torch.get_num_threads() == 1
    undo()
    assert torch.get_num_threads() == before


def test_a_model_calls_compiled_code_until_it_is_undone(program: TriedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a mode is compiled once, whatever the number of turns."""
    made = list[str]()

    def compiled(call: object, mode: str) -> object:
        made.append(mode)
        return call

    monkeypatch.setattr(torch, "compile", compiled)
    model = program.models[0]
    for _ in range(2):
        undo = switched(program, "compile", "default")
        assert vars(model)["_compiled_call_impl"] is not None
        undo()
        assert vars(model)["_compiled_call_impl"] is None
    assert made == ["default"]


@pytest.mark.slow
def test_a_module_of_torch_itself_is_compiled(program: TriedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of nn.Linear, unlike that of a program's own class, is left out where torch sees it first."""
    graphs = list[Any]()
    compiled = torch.compile

    def keep(graph: Any, _inputs: object) -> Any:  # noqa: ANN401 - a backend
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda call, mode: compiled(call, backend=keep) if mode else None)
    switched(program, "compile", "default")
    program.models[0](torch.ones(2, 3))
    assert len(graphs) == 1


def test_the_text_of_an_experiment_holds_its_value() -> None:
    assert spec_of("compile", "default") == "compile=default"
    assert spec_of("gc", "") == "gc"
    assert [parts_of(each) for each in ("compile=default", "gc")] == [("compile", "default"), ("gc", "")]
