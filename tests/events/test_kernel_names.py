"""The classified names of a trace: one for each name on each GPU, the same for all readers."""

import numpy as np
import pytest
from export_builder import ExportBuilder, trace_of
from real_captures import RealContext, every_capture

from nsyswrap.events.kernel_names import find_kernel_names
from nsyswrap.events.operations import find_operations
from nsyswrap.hardware.kernel_names.classify import Verdict, classify
from nsyswrap.hardware.kernel_names.user_rules import NameRule
from nsyswrap.trace import tables

NO_TENSOR_CORES = (
    ("NVIDIA GeForce GTX 1650", 7, 5),
    ("NVIDIA GeForce GTX 1660 Ti", 7, 5),
    ("NVIDIA GeForce GTX 1080 Ti", 6, 1),
    ("Tesla P100-PCIE-16GB", 6, 0),
)
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_nn"


def test_a_name_is_classified_on_each_gpu() -> None:
    """One name has a verdict of its own on a GPU without tensor cores for its type; a copy has none."""
    made = ExportBuilder().gpu(0).gpu(1, "Tesla T4", computeMajor=7, computeMinor=5)
    made.kernel(10, 20, GEMM).kernel(10, 20, GEMM, device=1).kernel(30, 40, GEMM).copy(50, 60, 64)
    trace = trace_of(made)
    operations = find_operations(trace)
    names = find_kernel_names(trace, operations)
    by_device = {int(each): names.of(np.flatnonzero(operations.device_id == each)[:1])[0] for each in (0, 1)}
    assert {device: each.verdict for device, each in by_device.items()} == {0: Verdict.TENSOR, 1: Verdict.SIMT_ELIGIBLE}
    assert set(names.capability) == {(7, 5), (9, 0)}
    assert names.code.tolist().count(-1) == 1


@pytest.mark.parametrize(("name", "major", "minor"), NO_TENSOR_CORES)
def test_nothing_is_eligible_on_a_gpu_without_tensor_cores(name: str, major: int, minor: int) -> None:
    """Turing chips of the GTX 16 series have the compute capability of those with tensor cores."""
    made = ExportBuilder().gpu(0, name, computeMajor=major, computeMinor=minor)
    trace = trace_of(made.kernel(10, 20, GEMM).kernel(30, 40, "volta_sgemm_128x64_nn").kernel(50, 60, "mul_mat_q<8>"))
    kinds = find_kernel_names(trace, find_operations(trace)).kinds
    assert {each.verdict for each in kinds} == {Verdict.NOT_ELIGIBLE}


def test_gpus_with_large_ids_stay_apart() -> None:
    """Ids of GPUs may be any number of 32 bits."""
    made = ExportBuilder().gpu(1).kernel(10, 20, GEMM, device=1).kernel(10, 20, "other", device=1)
    trace = trace_of(made.kernel(30, 40, GEMM, device=1 + (1 << 16)))
    operations = find_operations(trace)
    names = find_kernel_names(trace, operations)
    found = {each: names.capability[code] for each, code in zip(operations.device_id, names.code, strict=True)}
    assert found == {1: (9, 0), 1 + (1 << 16): None}


def test_rules_from_files_come_first() -> None:
    trace = trace_of(ExportBuilder().gpu().kernel(10, 20, "mine"))
    rule = NameRule("mine", is_prefix=False, verdict=Verdict.TENSOR, precision="bf16")
    (kind,) = find_kernel_names(trace, find_operations(trace), (rule,)).kinds
    assert (kind.verdict, kind.precision) == (Verdict.TENSOR, "bf16")


@every_capture
def test_each_kernel_of_a_real_capture_has_the_class_of_its_name(real_context: RealContext, name: str) -> None:
    context = real_context(name)
    operations, names = context.operations, context.kernel_names
    rows = operations.from_table(tables.KERNELS)
    assert ((names.code >= 0) == np.isin(np.arange(len(names.code)), rows)).all()
    able = {gpu.device_id: gpu.compute_capability for gpu in context.trace.gpus}
    shown = rows[:: max(len(rows) // 200, 1)]
    texts = context.trace[tables.KERNELS]["name_id"].to_numpy()[operations.row[shown]]
    expected = [
        classify(context.trace.text(int(text)), able.get(int(device)))
        for text, device in zip(texts, operations.device_id[shown], strict=True)
    ]
    assert names.of(shown) == expected
