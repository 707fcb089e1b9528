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


def test_the_plugins_steps_last_until_their_operations_end() -> None:
    trace = load("torch_trace")
    assert trace.device_steps(trace.events_in(TRACE)) == [(0, 10 * NS), (10 * NS, 23 * NS)]


def test_utilization_and_sm_efficiency() -> None:
    """Kernels run for 6 of 20 µs inside the steps; the first kernel has blocks for half of the multiprocessors."""
    trace = load("torch_trace")
    events = trace.events_in(TRACE)
    span = (0, 20 * NS)
    assert trace.utilization(events, span) == pytest.approx(0.3)
    assert trace.sm_efficiency(events, span) == pytest.approx((4 * 0.5 + 2 * 1) / 20)
    assert trace.achieved_occupancy(events, span, {0: 0.25, 1: 1.0}) == pytest.approx((4 * 0.25 + 2) / 6)


def test_the_plugins_zero_for_much_shared_memory_is_corrected() -> None:
    """With 64 KiB a block, three blocks of 256 threads fit on a multiprocessor of 2048 threads."""
    table = load("breakdown_table")
    (big,) = [each["args"] for each in TRACE["traceEvents"] if each.get("args", {}).get("shared memory") == 65536]
    assert table.unlimited_share(big, TRACE) == pytest.approx(3 * 256 / 2048)
    values = table.theirs(TRACE, on_device=False)
    assert values["achieved"] == pytest.approx(4 * 0.25 / 6)
    assert values["achieved_unlimited"] == pytest.approx((4 * 0.5 * 256 / 2048 + 2 * 0.375) / 6)


@pytest.mark.slow
def test_both_breakdowns_stand_side_by_side(tmp_path: Path) -> None:
    roles = {"kernel": 4e6, "memcpy": 0, "memset": 0, "communication": 0, "runtime": 1e6, "dataloader": 0}
    report = {
        "sections": {
            "step_breakdown": {
                "tables": {
                    "mean": [{"role": r, "mean_ns": n} for r, n in {**roles, "cpu_exec": 4e6, "other": 1e6}.items()]
                },
                "facts": {"gpu_utilization_share": {"value": 0.4}},
            },
            "occupancy": {
                "facts": {
                    "sm_efficiency_estimate_share": {"value": 0.2},
                    "achieved_estimate_share": {"value": 0.3},
                }
            },
        }
    }
    files = (tmp_path / "report.json", tmp_path / "trace.json")
    for file, content in zip(files, (report, TRACE), strict=True):
        file.write_text(json.dumps(content))
    program = [sys.executable, *(str(each) for each in (FOLDER / "breakdown_table.py", *files))]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[2].startswith("| kernel | 4.000 ms, 40.0% | 0.003 ms, 30.0% |")
    assert "| utilization | 40.00% | 30.00% |" in done.stdout
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


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


def test_equal_occupancy_is_equal() -> None:
    table = load("occupancy_table")
    launch = shaped(100.0)
    row = table.compared(launch, table.limits_for(launch))
    assert row.ours[:2] == (8, 8)
    assert (row.our_share, row.is_equal, row.function) == (1.0, True, "f")


@pytest.mark.parametrize(("share", "limit"), [(87.5, 8), (100.0, 7)])
def test_another_occupancy_is_seen(share: float, limit: int) -> None:
    table = load("occupancy_table")
    launch = shaped(share, limit)
    row = table.compared(launch, table.limits_for(launch))
    assert not row.is_equal
    assert "Equal: 0 of 1." in table.table([row, row])


def test_a_file_without_occupancy_fails(tmp_path: Path) -> None:
    """A file without anything to compare does not count as equal."""
    page = tmp_path / "raw.csv"
    page.write_text('"ID","Kernel Name","CC"\n"","",""\n"0","f","9.0"\n')
    assert load("occupancy_table").main([str(page)]) == 1


def test_programs_stand_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second table lists kernels with a wrong name or none, if they take enough time to matter."""
    kernels = [
        {"name": "a|b", "share": 0.5, "outcome": "differs", "verdict": "tensor", "reason": "no matrix instruction"},
        {"name": "c", "share": 0.0005, "outcome": "differs", "verdict": "tensor", "reason": "too small to matter"},
        {"name": "d", "share": 0.4995, "outcome": "agrees", "verdict": "tensor", "reason": "as it should be"},
    ]
    result = {
        "kernel_ns": 2_000_000,
        "measured_share": 0.75,
        "tensor_share_low": 0.5,
        "tensor_share_high": 0.5,
        "named_share_low": 0.5,
        "named_share_high": 0.6,
        "shares": {"agrees": 0.4995, "differs": 0.5005},
        "launches": 12,
        "kernels": kernels,
    }
    (tmp_path / "verify_encoder.json").write_text(json.dumps(result))
    load("verify_table").main([str(tmp_path / "verify_encoder.json"), str(tmp_path / "verify_gone.json")])
    out = capsys.readouterr().out
    assert "| encoder | 2.00 ms | 75.0% | 50.0% | 50.0% to 60.0% | 49.95% | 50.05% | 0.00% | 12 |" in out
    assert "| encoder | 50.00% | differs | tensor | no matrix instruction | `a/b` |" in out
    assert "too small" not in out
    assert "as it should be" not in out

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- verify_table -->\nold\n<!-- /verify_table -->\nafter\n")
    for _ in range(2):
        load("verify_table").main(["--into", str(page), str(tmp_path / "verify_encoder.json")])
    text = page.read_text()
    assert text.startswith("before\n<!-- verify_table -->\n\n| program |")
    assert text.endswith("`a/b` |\n\n<!-- /verify_table -->\nafter\n")
    assert (text.count("| program |"), "old" in text) == (2, False)
    page.write_text("no marks\n")
    with pytest.raises(SystemExit):
        load("verify_table").main(["--into", str(page)])


@pytest.mark.slow
def test_every_case_has_a_name_and_the_run_knows_it() -> None:
    """The cases in run.sh are all the cases of programs.py."""
    program = [sys.executable, str(FOLDER / "programs.py"), "--list"]
    there = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    script = (FOLDER / "run.sh").read_text(encoding="utf-8")
    named = script.partition("cases=${CASES:-")[2].partition("}")[0].split()
    assert sorted(there) == sorted(named)
    assert len(there) >= 8


def test_the_script_is_one_that_bash_reads() -> None:
    assert subprocess.run(["bash", "-n", FOLDER / "run.sh"], check=False).returncode == 0


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


def test_a_wrong_number_of_elements_would_show() -> None:
    """With 4 elements a thread instead of 8, as in older versions, the measurements lie outside the bounds."""
    module, known = known_operators()
    older = [each for each in known if "vectorized_elementwise_kernel<(int)4" in each.kernel]
    doubled = [
        (each, module.launch_work(module.element_work(each.kernel, newer=True), each.blocks // 2, 128))
        for each in older
    ]
    assert len(older) == 14
    assert not any(module.is_held(each, work, 0) for each, work in doubled if each.blocks > 1)


def test_known_operators_are_a_table() -> None:
    module, known = known_operators()
    lines = module.table(known[:1], module.works(known)[:1]).splitlines()
    assert lines[2:] == ["| `add_fp32` | 805.3 | 536.9 to 805.3 | 785.8 | 185.7 |"]


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
