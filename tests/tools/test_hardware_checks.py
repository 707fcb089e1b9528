"""The programs that check nsyswrap against hardware, tested on files and without the hardware."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools" / "hardware_checks"
NS = 1000


def load(name: str) -> ModuleType:
    """Import one of the programs as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def event(name: str, category: str, start: float, end: float, **args: object) -> dict[str, Any]:
    """Return an event of a Chrome trace; times are in microseconds."""
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": end - start, "args": args}


def a_kernel(start: float, end: float, blocks: float, **args: object) -> dict[str, Any]:
    """Return a kernel as Kineto writes it."""
    shape = {"block": [256, 1, 1], "registers per thread": 32, "shared memory": 0, "est. achieved occupancy %": 25}
    return event("gemm", "kernel", start, end, **{"blocks per SM": blocks, **shape, **args})


# Two steps of 10 µs. First step: data 0-4, a launch 3-5, its kernel 5-9. The kernel of the second outlasts the step.
TRACE = {
    "deviceProperties": [{"computeMajor": 9, "computeMinor": 0}],
    "traceEvents": [
        event("ProfilerStep#0", "user_annotation", 0, 10),
        event("ProfilerStep#1", "user_annotation", 10, 20),
        event("enumerate(DataLoader)#_SingleProcess.__next__", "user_annotation", 0, 4),
        event("cudaLaunchKernel", "cuda_runtime", 3, 5, correlation=7),
        event("cudaLaunchKernel", "cuda_runtime", 15, 16, correlation=8),
        event("aten::mm", "cpu_op", 2, 6),
        event("aten::mm", "cpu_op", 14, 17),
        a_kernel(5, 9, 0.5, correlation=7),
        a_kernel(18, 23, 4.0, correlation=8, **{"shared memory": 65536, "est. achieved occupancy %": 0}),
        event("Memcpy HtoD", "gpu_memcpy", 8, 9.5, correlation=9),
        event("ignored", "gpu_user_annotation", 0, 20),
        {"ph": "M", "name": "process_name", "args": {}},
    ],
}


def test_a_nanosecond_of_a_step_goes_to_the_first_role_that_holds() -> None:
    """The roles of both steps, worked out by hand, are as expected.

    In µs: kernel 4 and 2, copy 0.5 in the first step, calls 2 and 1, data 3 in the first step, operators 0 and 2, and
    the rest is other.
    """
    trace = load("torch_trace")
    events = trace.events_in(TRACE)
    steps = trace.host_steps(events)
    assert steps == [(0, 10 * NS), (10 * NS, 20 * NS)]
    assert trace.breakdown(events, steps) == {
        "kernel": 3 * NS,
        "memcpy": 0.25 * NS,
        "memset": 0,
        "runtime": 1.5 * NS,
        "dataloader": 1.5 * NS,
        "cpu_exec": 1 * NS,
        "other": 2.75 * NS,
    }


def test_the_plugins_zero_for_much_shared_memory_is_corrected() -> None:
    """With 64 KiB a block, three blocks of 256 threads fit on a multiprocessor of 2048 threads."""
    table = load("breakdown_table")
    (big,) = [each["args"] for each in TRACE["traceEvents"] if each.get("args", {}).get("shared memory") == 65536]
    assert table.unlimited_share(big, TRACE) == pytest.approx(3 * 256 / 2048)
    values = table.theirs(TRACE, on_device=False)
    assert values["achieved"] == pytest.approx(4 * 0.25 / 6)
    assert values["achieved_unlimited"] == pytest.approx((4 * 0.5 * 256 / 2048 + 2 * 0.375) / 6)


def shaped(share: float, limit: int = 8, **values: float) -> NcuLaunch:
    """Return a launch of 256 threads with 32 registers on an H100, as ncu describes it."""
    inputs = {
        "launch__block_size": 256,
        "launch__registers_per_thread": 32,
        "launch__shared_mem_per_block_static": 0,
        "launch__shared_mem_per_block_dynamic": 0,
        "launch__occupancy_limit_warps": limit,
        "launch__occupancy_limit_registers": 8,
        "launch__occupancy_limit_shared_mem": 32,
        "launch__occupancy_limit_blocks": 32,
        "sm__maximum_warps_per_active_cycle_pct": share,
    }
    return NcuLaunch("void ns::f<float>(float *)", {}, {**inputs, **values}, {"CC": "9.0"})


@pytest.mark.parametrize(("share", "limit"), [(87.5, 8), (100.0, 7)])
def test_another_occupancy_is_seen(share: float, limit: int) -> None:
    table = load("occupancy_table")
    launch = shaped(share, limit)
    row = table.compared(launch, table.limits_for(launch))
    assert not row.is_equal
    assert "Equal: 0 of 1." in table.table([row, row])


@pytest.mark.slow
def test_every_case_has_a_name_and_the_run_knows_it() -> None:
    """The cases in run.sh are all the cases of programs.py."""
    program = [sys.executable, str(FOLDER / "programs.py"), "--list"]
    there = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    script = (FOLDER / "run.sh").read_text(encoding="utf-8")
    named = script.partition("cases=${CASES:-")[2].partition("}")[0].split()
    assert sorted(there) == sorted(named)
    assert len(there) >= 8


def known_operators() -> tuple[ModuleType, list[Any]]:
    """Return measurements of operators on tensors of known sizes, on an H200 with PyTorch 2.11."""
    module = load("known_table")
    listed = json.loads((ROOT / "tests" / "data" / "known_work.json").read_text())
    return module, [module.Known(**each) for each in listed]


def test_the_work_of_real_kernels_holds_what_was_measured() -> None:
    """Names and grids of 52 operators give elements for 36 and bytes for 34; the L2 cache has 60 MiB."""
    module, known = known_operators()
    found = module.works(known)
    shown = [(each, work) for each, work in zip(known, found, strict=True) if work is not None]
    assert (len(known), len(shown), sum(work.bytes_low is not None for _, work in shown)) == (52, 36, 34)
    assert [each.case for each, work in shown if not module.is_held(each, work, 60 << 20)] == []


def test_operations_and_time_of_products_are_read_from_counters() -> None:
    """Sparse operations are a part of the dense ones; an FMA on CUDA cores counts as two."""
    tensor, sparse = (f"sm__ops_path_tensor_src_bf16_dst_fp32{end}.sum" for end in ("", "_sparsity_on"))
    names = (
        "ID",
        "Kernel Name",
        "gpu__time_duration.sum",
        tensor,
        sparse,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
    )
    rows = [
        names,
        ("", "", "us", "", "", "inst"),
        ("0", "gemm", "2.5", "1,000", "400", "8"),
        ("1", "sgemm", "1", "0", "0", "300"),
    ]
    text = "==PROF== done\n" + "\n".join(",".join(f'"{each}"' for each in row) for row in rows) + "\n"
    work = load("product_counters").work_in(text)
    assert (work.operations, work.ns, work.kernels) == (1600, 3500, 2)
