"""The join on captures of H100 runs."""

import lzma
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from real_captures import CAPTURES, RealContext

from nsyswrap.base.intervals import Spans
from nsyswrap.capture_file import with_recorded
from nsyswrap.loop.context import NO_SETTINGS, TraceContext, find_context
from nsyswrap.loop.injected_ranges import plain_names
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.operators.join import JoinedKernels, find_joined
from nsyswrap.operators.observed_calls import RECOMPUTED
from nsyswrap.operators.peak import find_rates
from nsyswrap.report import report_of
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import array, coded

# Operations of the products of a step, by hand. gpt: 2 x 2,048 tokens x 35,168,768 weights x 3, attention of 1.07e9
# operations in three layers, fused (3.5 times) in two of them, and the checkpointed block again up to its last product.
OPERATIONS = {
    "gpt": 6 * 2048 * 35_168_768 + (2 * 3.5 + 3 + 1) * 2**30 + 2 * 2048 * 512 * 4096,
    "conv": 173_899_776_000,
}


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TraceContext]:
    """Return the context of a capture with an X-ray step, by name."""
    folder = tmp_path_factory.mktemp("xray")

    @cache
    def read(name: str) -> TraceContext:
        path = folder / f"{name}.sqlite"
        path.write_bytes(lzma.decompress((CAPTURES / "xray" / f"{name}.sqlite.xz").read_bytes()))
        trace, settings = with_recorded(load_export(path), path, NO_SETTINGS)
        return find_context(trace, settings)

    return read


@pytest.fixture(scope="module", params=("gpt", "conv", "compiled"))
def context(request: pytest.FixtureRequest, contexts: Callable[[str], TraceContext]) -> TraceContext:
    return contexts(request.param)


def joined_in(context: TraceContext) -> JoinedKernels:
    """Return the joined kernels of the measured steps."""
    window = context.steps.measured_window()
    assert window is not None
    return find_joined(context, window)


def share(joined: JoinedKernels, attribute: str) -> float:
    """Return the share of the time of kernels whose operator has something."""
    known = np.append([bool(getattr(each, attribute)) for each in joined.calls], False)[joined.call].astype(bool)
    return float(joined.own_ns[known].sum() / joined.own_ns.sum())


def test_all_kernels_have_an_operator_and_nearly_all_a_line(context: TraceContext) -> None:
    """Those without a line are sums and products with operators of Python, where their recorder has missed the line."""
    joined = joined_in(context)
    assert share(joined, "name") == 1.0
    assert joined.exact.all()
    assert share(joined, "line") >= 0.98


@pytest.mark.parametrize(
    ("name", "optimizer", "expected"), [("gpt", "AdamW", 0.245), ("conv", "SGD", 0.042), ("compiled", "AdamW", 0.3135)]
)
def test_the_optimizer_owns_its_kernels(
    name: str, optimizer: str, expected: float, contexts: Callable[[str], TraceContext]
) -> None:
    """All in the phase of the optimizer; with those in a module and of lines outside, each has one owner."""
    context = contexts(name)
    joined = joined_in(context)
    assert {each.optimizer for each in joined.calls} == {"", optimizer}
    assert share(joined, "optimizer") == pytest.approx(expected, abs=0.0006)
    its = np.array([bool(each.optimizer) for each in joined.calls])[joined.call]
    phases = {context.phases.name(int(each)) for each in context.phase_of_operations[joined.rows[its]]}
    assert phases == {"optimizer"}


def test_the_accounts_of_a_kernel_add_up_to_its_time(context: TraceContext) -> None:
    """And none is negative."""
    joined = joined_in(context)
    accounts = find_rates(context, joined).accounts
    assert (accounts >= 0).all()
    assert np.allclose(accounts.sum(axis=0), joined.own_ns)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_a_step_are_those_of_its_formula(name: str, contexts: Callable[[str], TraceContext]) -> None:
    """To the operation: each call of an operator counts once, however many kernels it takes."""
    context = contexts(name)
    rates = find_rates(context, joined_in(context))
    assert np.nansum(rates.operations[rates.is_product]) == pytest.approx(2 * OPERATIONS[name], rel=1e-12)


def test_kernels_of_a_graph_have_pass_module_line_and_the_operation_of_their_name(
    contexts: Callable[[str], TraceContext],
) -> None:
    """Its operators were captured before; those of head, loss and optimizer are known."""
    context = contexts("graphed")
    joined = joined_in(context)
    in_graph = [each for each in joined.calls if each.in_graph]
    assert {(each.name, each.module, each.line) for each in in_graph} == {("", "blocks", "graphed.py:24")}
    assert {each.role: each.in_graph for each in in_graph if each.in_graph == "gemm"}.keys() == {"", "backward"}
    assert {each.in_graph for each in in_graph} >= {"gemm", "norm", "elementwise", "reduction"}
    nodes = array(context.trace[tables.KERNELS], "graph_node_id")[context.operations.row[joined.rows]] != 0
    assert (np.array([bool(each.in_graph) for each in joined.calls])[joined.call] == nodes).all()
    assert share(joined, "in_graph") == pytest.approx(0.788, abs=0.0005)
    assert share(joined, "name") == pytest.approx(0.212, abs=0.0005)
    assert share(joined, "line") == 1.0


def test_what_a_backward_pass_adds_up_has_the_line_that_runs_it(contexts: Callable[[str], TraceContext]) -> None:
    """The gradient of the input, which the program never clears."""
    (added,) = (each for each in joined_in(contexts("graphed")).calls if each.name == "aten::add_")
    assert (added.role, added.line, added.module) == ("backward", "graphed.py:37", "")


def test_the_checkpointed_block_is_computed_again(contexts: Callable[[str], TraceContext]) -> None:
    """Its operators are known as such; without a checkpoint, none is."""
    joined, other = (joined_in(contexts(name)) for name in ("gpt", "conv"))
    again = Counter(
        each.name for each in joined.calls if each.role == RECOMPUTED and each.work and each.work.is_product
    )
    assert again == {"aten::addmm": 3, "aten::_cudnn_attention_forward": 1}
    assert not any(each.role == RECOMPUTED for each in other.calls)


def test_kernels_of_a_compiled_model_have_their_fused_operators(contexts: Callable[[str], TraceContext]) -> None:
    """And the module that was compiled."""
    context = contexts("compiled")
    joined = joined_in(context)
    fused = [each for each in joined.calls if "native_layer_norm" in each.name]
    assert {each.module for each in fused} == {"OptimizedModule"}  # recorded before the model was named
    assert any(each.name == "_to_copy + add + embedding + native_layer_norm" for each in fused)


def test_places_and_ranges_say_the_same(real_context: RealContext) -> None:
    """Where ranges name the operator of each launch, it is that of its place in the last step."""
    context = real_context("cnn_amp_autograd_ranges")
    joined, ranges, calls = joined_in(context), context.trace[tables.RANGES], context.trace[tables.CALLS]
    call = context.operations.call[joined.rows]
    innermost = np.full(len(call), -1)
    spans = array(calls, "start")[call], array(calls, "end")[call]
    threads = coded(calls, "thread").only(call)
    for which, rows in RangeNesting(ranges).enclosing(threads, lambda some: Spans(*(each[some] for each in spans))):
        innermost[which] = rows
    names, codes = plain_names(ranges), ranges["text"].cat.codes.to_numpy()[innermost]
    assert [joined.calls[each].name for each in joined.call] == [names[code] for code in codes]


def test_the_tables_add_up_to_the_ledger_and_the_step(context: TraceContext) -> None:
    """Operators, kernels and modules to the compute time of the ledger, the ledger of the peak to the step."""
    report = report_of(context)
    operators, ledger = report.section("operators"), report.section("ledger")
    assert operators is not None
    assert ledger is not None
    compute = ledger.tables["devices"]["compute_ns"].sum()
    found = operators.tables
    assert compute == found["operators"]["total_ns"].sum() == found["kernels"]["total_ns"].sum()
    assert compute == found["modules"]["self_ns"].sum()
    parts = found["modules"][["forward_ns", "backward_ns", "recomputed_ns"]].sum(axis=1)
    assert (parts == found["modules"]["total_ns"]).all()
    assert found["peak"]["ns"].sum() == round(report.window.length_ns / 2)
    assert found["peak"]["share"].sum() == pytest.approx(1)
    used = operators.fact("mfu_share"), operators.fact("hfu_share")
    assert all(each is not None and isinstance(each.value, float) for each in used)


def test_a_redacted_export_names_no_folders(contexts: Callable[[str], TraceContext]) -> None:
    """Files of the program have their name, those of packages their place in them."""
    files = {frame[0] for each in contexts("gpt").settings.xray for site in each.sites for frame in site.stack}
    assert files
    assert not any(each.startswith("/") for each in files)
