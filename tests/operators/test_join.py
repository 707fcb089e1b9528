"""Kernels of measured steps take operator, shapes, module and line from their place in the X-ray step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from export_builder import MAIN, ExportBuilder
from xray_program import LAUNCHES, NVJET, OPTIMIZER, STEP_NS, context_of, operator, program, record, with_graph

from nsyswrap.events.xray_record import read_xray
from nsyswrap.loop.context import TraceContext
from nsyswrap.operators.join import JoinedKernels, find_joined, has_operators
from nsyswrap.operators.observed_calls import OperatorCall

STEPS = [LAUNCHES] * 5
CLOSURE = ["/home/someone/app/train.py", 21, "closure"]


def joined(context: TraceContext) -> JoinedKernels:
    """Return the joined kernels of the measured steps."""
    window = context.steps.measured_window()
    assert window is not None
    return find_joined(context, window)


def calls_of(builder: ExportBuilder, path: Path, said: dict[str, Any] | None = None) -> list[OperatorCall | None]:
    """Return the call of an operator of each kernel of the measured steps; None for those that are not joined."""
    found = joined(context_of(builder, path / "made.sqlite", said))
    return [found.calls[each] if each >= 0 else None for each in found.call.tolist()]


def names(calls: list[OperatorCall | None]) -> list[str | None]:
    """Return the name of each operator, without its namespace."""
    return [None if each is None else each.name.removeprefix("aten::") for each in calls]


ALL = ["embedding", "mm", "relu", "mm", "_fused_adamw_"]


def test_each_kernel_has_operator_shapes_types_module_and_line(tmp_path: Path) -> None:
    """Of the forward product: everything that PyTorch said."""
    calls = calls_of(program(STEPS), tmp_path)
    assert names(calls) == 3 * ALL
    forward = calls[1]
    assert forward is not None
    assert (forward.shapes, forward.dtypes) == ("[64, 64], [64, 64]", "bfloat16")
    assert (forward.module, forward.class_name, forward.line) == ("layers.0.linear", "torch.nn.Linear", "model.py:8")
    assert forward.work is not None
    assert forward.work.operations == 2 * 64**3


def test_a_backward_operator_has_module_and_line_of_its_forward_one(tmp_path: Path) -> None:
    """By the sequence number of its node; its thread has no line."""
    backward = calls_of(program(STEPS), tmp_path)[3]
    assert backward is not None
    assert (backward.name, backward.role) == ("aten::mm", "backward")
    assert (backward.module, backward.line) == ("layers.0.linear", "model.py:8")


@pytest.mark.parametrize(
    ("stack", "steps", "expected"),
    [
        (OPTIMIZER, ((0, "SGD"), (6, "AdamW")), "AdamW"),
        (OPTIMIZER, (), "Adam"),
        ([CLOSURE, *OPTIMIZER[1:]], ((6, "AdamW"),), ""),
        ([["own/muon.py", 9, "orthogonal"], ["own/muon.py", 31, "Muon.step"], *OPTIMIZER[2:]], ((6, "Muon"),), "Muon"),
        (OPTIMIZER[3:], ((6, "AdamW"),), ""),
    ],
    ids=["PyTorch names the step", "it does not", "a closure", "an optimizer of the program", "other lines"],
)
def test_a_line_in_the_step_of_an_optimizer_is_of_it(
    stack: list[list[object]], steps: tuple[tuple[int, str], ...], expected: str, tmp_path: Path
) -> None:
    """Its class is that of the last step that began before the operator."""
    found = record()
    found["processes"][0]["sites"][2]["stack"] = stack
    found["processes"][0]["operators"] += [operator(at, f"Optimizer.step#{name}.step") for at, name in steps]
    step = calls_of(program(STEPS), tmp_path, found)[4]
    assert step is not None
    assert (step.line, step.optimizer) == ("train.py:30", expected)


@pytest.mark.parametrize(("file", "line"), [("torch/autograd/graph.py", "train.py:30"), ("torch/functional.py", "")])
def test_what_a_backward_pass_launches_of_itself_has_the_line_that_runs_it(
    file: str, line: str, tmp_path: Path
) -> None:
    """As the sum of a gradient for a parameter, whose node has no forward operator."""
    found = record()
    found["processes"][0]["sites"][2]["stack"] = [[f"/lib/python3.12/site-packages/{file}", 869, "run"]]
    builder = program(STEPS)
    forward = builder.string("aten::mm, seq = 5, op_id = 2, sizes = [[64, 64], [64, 64]]")
    builder.rows["NVTX_EVENTS"] = [each for each in builder.rows["NVTX_EVENTS"] if each.get("textId") != forward]
    begin = len(STEPS) * STEP_NS
    builder.range("nsyswrap xray 2", begin + 390_000, begin + 430_000, domain=3)
    backward = calls_of(builder, tmp_path, found)[3]
    assert backward is not None
    assert (backward.role, backward.line) == ("backward", line)


OTHER = tuple((f"other_{name}", grid, where) for name, grid, where in LAUNCHES)


def test_each_step_takes_the_x_ray_step_that_launches_the_same(tmp_path: Path) -> None:
    """Steps of two kinds in turns, as in a GAN: with one X-ray step, those of the other kind are not joined."""
    steps = [LAUNCHES, OTHER] * 3
    found = []
    for more in ([], [OTHER]):
        path = tmp_path / str(len(more))
        path.mkdir()
        found.append(calls_of(program(steps, more=more), path))
    one, two = found
    assert {*names(one)} == {*ALL, None}
    assert names(two) == (len(steps) - 2) * ALL
    assert all(each is not None and each.dtypes == "bfloat16" for each in two)


def test_an_evaluation_between_steps_takes_the_forward_pass(tmp_path: Path) -> None:
    """Of each of its batches; a kernel of the evaluation alone is not joined."""
    evaluation = [*LAUNCHES[:3], ("accuracy", 4, MAIN), *LAUNCHES[:3]]
    calls = calls_of(program([*[LAUNCHES] * 4, evaluation, *[LAUNCHES] * 2], unmarked={4}), tmp_path)
    assert names(calls) == [*ALL, *ALL, *ALL[:3], None, *ALL[:3], *ALL, *ALL]


def test_an_x_ray_step_that_repeats_another_is_not_used(tmp_path: Path) -> None:
    """Its operators were not kept: PyTorch described none with these numbers."""
    longer = [*LAUNCHES, ("adam", 2, MAIN)]
    calls = calls_of(program([longer] * 5, xray=LAUNCHES, more=[longer], first_number=50), tmp_path)
    assert names(calls) == 3 * [*ALL, None]
    assert all(each is None or each.dtypes == "bfloat16" for each in calls)
    assert len(set(calls)) == len(ALL) + 1


def test_an_operator_with_a_number_of_its_own_in_the_backward_pass_is_recomputed(tmp_path: Path) -> None:
    """As activation checkpointing does."""
    builder = program(STEPS)
    inner = builder.string("aten::mm, op_id = 6, sizes = [[64, 64], [64, 64]]")
    again = builder.string("aten::mm, seq = 0, op_id = 6, sizes = [[64, 64], [64, 64]]")
    for row in builder.rows["NVTX_EVENTS"]:
        if row.get("textId") == inner:
            row["textId"] = again
    recomputed = calls_of(builder, tmp_path)[3]
    assert recomputed is not None
    assert recomputed.role == "recomputed"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (LAUNCHES[:2] + LAUNCHES[3:], ["embedding", "mm", "mm", "_fused_adamw_"]),
        ((*LAUNCHES[:2], ("log", 1, LAUNCHES[0][2]), *LAUNCHES[2:]), ["embedding", "mm", None, "relu", "mm", ALL[4]]),
        ((LAUNCHES[0], ("gemm", 99, LAUNCHES[1][2]), *LAUNCHES[2:]), ALL),
    ],
    ids=["lost", "added", "of another size"],
)
def test_a_step_that_differs_is_joined_all_the_same(
    step: tuple[tuple[str, int, int], ...], expected: list[str | None], tmp_path: Path
) -> None:
    """What has no counterpart is not joined, and shifts nothing."""
    assert names(calls_of(program([*STEPS[:4], step]), tmp_path))[10:] == expected


@pytest.mark.parametrize(
    ("other", "expected"), [("", ALL), ("gather", [None, None, *ALL[2:]])], ids=["the same otherwise", "another step"]
)
def test_a_product_may_take_another_kernel_for_another_size(
    other: str, expected: list[str | None], tmp_path: Path
) -> None:
    """Where all else that the thread launches is the same, the step does the same."""
    products = [("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", 8), (NVJET, 99)]
    pattern, step = ((LAUNCHES[0], (*product, MAIN), *LAUNCHES[2:]) for product in products)
    step = tuple((f"other_{each[0]}" if each[0] == other else each[0], *each[1:]) for each in step)
    found = joined(context_of(program([*[pattern] * 4, step], xray=pattern), tmp_path / "made.sqlite"))
    calls = [found.calls[each] if each >= 0 else None for each in found.call.tolist()]
    assert names(calls)[10:] == expected
    assert found.exact.tolist()[10:] == [not other, False, True, True, True]


def test_shapes_of_a_kernel_of_another_size_are_not_known(tmp_path: Path) -> None:
    """Its operator, module and line are."""
    other = (LAUNCHES[0], ("gemm", 99, LAUNCHES[1][2]), *LAUNCHES[2:])
    found = joined(context_of(program([*STEPS[:4], other]), tmp_path / "made.sqlite"))
    assert found.exact.tolist() == [True] * 11 + [False] + [True] * 3


def test_a_thread_of_another_step_is_that_which_launches_the_same(tmp_path: Path) -> None:
    """A program may start other threads in each step."""
    other = tuple((name, grid, where + (where != LAUNCHES[0][2])) for name, grid, where in LAUNCHES)
    assert names(calls_of(program([*STEPS[:4], other]), tmp_path))[10:] == ALL


def test_the_xray_step_is_part_of_no_time(tmp_path: Path) -> None:
    """Steps, window, kernels and ranges are those of the same program without it."""
    with_it, without = (
        context_of(program(STEPS, with_xray=each), tmp_path / f"{each}.sqlite") for each in (True, False)
    )
    assert with_it.steps.frame["name"].tolist() == without.steps.frame["name"].tolist()
    assert with_it.operations.end.tolist() == without.operations.end.tolist()
    assert len(with_it.trace.frames["calls"]) == len(without.trace.frames["calls"])
    assert with_it.trace.frames["ranges"]["end"].max() == 5 * STEP_NS
    assert (has_operators(with_it), has_operators(without)) == (True, False)


def test_time_in_which_two_kernels_run_belongs_to_the_first(tmp_path: Path) -> None:
    """So the sum is the compute time of the ledger."""
    builder = program(STEPS).kernel(2 * STEP_NS + 115_000, 2 * STEP_NS + 140_000, "other", stream=9)
    found = joined(context_of(builder, tmp_path / "made.sqlite"))
    assert found.own_ns.tolist()[:2] == [20_000, 15_000]


def test_without_a_record_ranges_have_the_sizes(tmp_path: Path) -> None:
    """Types, modules and lines are not known then."""
    found = joined(context_of(program(STEPS), tmp_path / "made.sqlite", {}))
    forward = found.calls[found.call[1]]
    assert (forward.name, forward.shapes, forward.dtypes, forward.line) == (
        *("aten::mm", "[64, 64], [64, 64]", "", ""),
    )
    assert forward.work is not None
    assert (forward.work.operations, forward.work.bytes) == (2 * 64**3, None)


def test_the_path_of_a_module_begins_with_its_model_where_there_are_several(tmp_path: Path) -> None:
    """Names of wrappers, such as that of torch.compile, are left out."""
    found = record()
    process = found["processes"][0]
    process["roots"] += [{"class": "app.Critic"}]
    process["modules"][2]["path"] = "_orig_mod.layers.0.linear"
    calls = joined(context_of(program(STEPS), tmp_path / "made.sqlite", found)).calls
    assert {each.module for each in calls} == {"", "Model.tokens", "Model.layers.0.linear"}


def test_processes_of_two_reports_may_have_the_same_number(tmp_path: Path) -> None:
    """Each has what PyTorch said in it; of another report, nothing is known."""
    (process,) = read_xray(record())
    context = context_of(program(STEPS), tmp_path / "made.sqlite")
    other = replace(context, settings=replace(context.settings, xray=(replace(process, report=1),)))
    assert {each.line for each in joined(context).calls} == {"", "model.py:7", "model.py:8", "train.py:30"}
    assert {each.line for each in joined(other).calls} == {""}


def test_nodes_of_a_graph_have_the_line_that_launches_it_and_no_operator(tmp_path: Path) -> None:
    """Their operators ran when the graph was captured. A range around the launch names none of them."""
    found = calls_of(with_graph(program(STEPS), len(STEPS)), tmp_path)
    of_graph = [each for each in found if each is not None and not each.name]
    assert (len(found), len(of_graph)) == (3 * 7, 3 * 2)
    assert {(each.line, each.shapes) for each in of_graph} == {("train.py:30", "")}
    assert [each.in_graph for each in of_graph] == ["gemm", "kernels"] * 3
