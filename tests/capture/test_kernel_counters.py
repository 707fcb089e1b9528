"""Runs under ncu have the right command line, requested counters and results."""

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ncu_fixtures import PACKED, PRODUCT, calls, kernel, put_on_path
from real_captures import of_captures

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.kernel_counters import (
    CounterRequest,
    Ncu,
    NcuFailedError,
    chosen_metrics,
    count_kernels,
    counting_argv,
    find_ncu,
    mangled_pattern_of,
    pattern_of,
)
from nsyswrap.sections.tensor_cores.hardware_proof import launches_in
from nsyswrap.sections.tensor_cores.name_agreement import function_of

NCU = Ncu(Path("/opt/ncu"), (2025, 3, 1, 0), "PATH")
TRUE = (sys.executable, "-c", "print('the program')")


def request(
    *kernels: str, command: tuple[str, ...] = TRUE, launches: int = 10, timeout_s: float | None = None
) -> CounterRequest:
    return CounterRequest(command, kernels, launches, timeout_s)


def test_with_opcode_counts_no_other_list_is_read() -> None:
    """Each list takes seconds."""

    def lists() -> Iterator[frozenset[str]]:
        yield frozenset({"sass__inst_executed_per_opcode", "sass__other"})
        raise AssertionError

    assert chosen_metrics(lists()) == ("sass__inst_executed_per_opcode", "gpu__time_duration.sum")


def test_without_opcode_counts_the_counters_of_the_pipe_are_used() -> None:
    have = frozenset({"sm__inst_executed_pipe_tensor_op_hmma", "sm__pipe_tensor_cycles_active", "dram__bytes"})
    assert chosen_metrics([frozenset(), have]) == (
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    )


def test_clocks_and_caches_are_not_changed() -> None:
    argv = counting_argv(NCU, request("a", launches=7), ("m.sum",), Path("x.ncu-rep"))
    text = " ".join(argv)
    assert text.startswith("/opt/ncu --export x.ncu-rep ")
    assert "--clock-control none --cache-control none" in text
    assert "--launch-count 7" in text
    assert argv[-len(TRUE) :] == TRUE


def test_every_launch_is_selected_by_full_function_names() -> None:
    pattern = pattern_of(["a::gemm", "f$1.x"])
    assert pattern == r"^(gemm|f\$1\.x)$"
    assert re.search(pattern, "gemm")
    assert not re.search(pattern, "gemm2")
    argv = counting_argv(NCU, CounterRequest(TRUE, ("a::gemm",), 10, every_launch=True), ("m",), Path("r"))
    assert argv[argv.index("--kernel-name") + 1] == "regex:^(gemm)$"
    assert argv[argv.index("--kernel-name-base") + 1] == "function"


@pytest.mark.parametrize(
    ("kernel", "mangled"),
    [
        ("nvjet_sm90_hsh_64x8", "nvjet_sm90_hsh_64x8"),
        ("kernel", "_Z6kernelI22getrf_wo_pivot_params_IdLi0EEEviiPv"),
        ("kernel", "_ZN12_GLOBAL__N_16kernelEPf"),
        ("at::native::reduce_kernel", "_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_"),
        ("at::native::scan", "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c4scanIfEEvPT_"),
        ("at::native::scan", "_ZN2at6nativeL4scanIfEEvPT_"),
        ("std::f", "_ZNSt1fEv"),
    ],
)
def test_mangled_names_are_matched_by_their_start(kernel: str, mangled: str) -> None:
    """The names come from real compilers. The pattern has no colon, because ncu would cut it there."""
    pattern = mangled_pattern_of(["other", kernel])
    assert re.search(pattern, mangled)
    assert not re.search(mangled_pattern_of([f"{kernel}2", "other"]), mangled)
    assert ":" not in pattern


@of_captures(["alexnet_data_parallel_2gpu", "bench_source", "cnn_amp", "mnist_counters_python"])
def test_every_mangled_name_of_a_real_capture_matches(name: str, captures: Callable[[str], Path]) -> None:
    """An export has mangled and demangled names; the filter is made from the demangled ones."""
    with sqlite3.connect(captures(name)) as connection:
        names = connection.execute(
            "SELECT DISTINCT d.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "JOIN StringIds d ON d.id = k.demangledName JOIN StringIds m ON m.id = k.mangledName"
        ).fetchall()
    assert len(names) >= 40
    assert [mangled for name, mangled in names if not re.search(mangled_pattern_of([function_of(name)]), mangled)] == []


def test_the_first_launch_of_each_instance_is_selected_by_mangled_name() -> None:
    argv = counting_argv(NCU, request("gemm"), ("m",), Path("r"))
    assert argv[argv.index("--kernel-name-base") + 1] == "mangled"
    assert argv[argv.index("--kernel-id") + 1] == f"::regex:{mangled_pattern_of(['gemm'])}:1"


def test_names_that_are_not_plain_identifiers_are_left_out() -> None:
    assert pattern_of(["good", "a:b", "x(", ""]) == "^(good)$"
    assert mangled_pattern_of(["a:b", "x(", "a::<b>::c", ""]) == "^()"


@pytest.mark.parametrize("pattern", [pattern_of, mangled_pattern_of])
def test_the_pattern_is_shorter_than_linux_allows(pattern: Callable[[list[str]], str]) -> None:
    assert 90_000 < len(pattern([f"kernel_{number:0100}" for number in range(2000)])) < 128 * 1024


def test_each_instance_of_a_template_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With only the name of the function, ncu would measure only the first instance."""
    instances = [PACKED.replace("Gelu", other) for other in ("Gelu", "Relu", "Gelu")]
    put_on_path(tmp_path, monkeypatch, *(kernel(name, {"HFMA2": 1}) for name in instances))
    wanted = request("at::native::vectorized_elementwise_kernel")
    assert len(launches_in(count_kernels(find_ncu(), wanted).csv)) == 2
    monkeypatch.setenv("FAKE_NCU_FAILURE", "by-function")
    assert len(launches_in(count_kernels(find_ncu(), wanted).csv)) == 1
    every = CounterRequest(TRUE, wanted.kernels, 10, every_launch=True)
    assert len(launches_in(count_kernels(find_ncu(), every).csv)) == 3


def test_the_counters_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters of single opcodes are returned too, in base units."""
    log = put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, {"HGMMA.64x32x16.F32": 64}))
    counted = count_kernels(find_ncu(), request(PRODUCT))
    assert counted.exit_code == 0
    assert "the program" in counted.output
    assert "64 (HGMMA.64x32x16.F32: 64)" in counted.csv
    assert "--print-units base --print-metric-instances details --rename-kernels off" in " ".join(calls(log)[-1])


def test_an_old_ncu_prints_only_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, gmma=640, pipe=42.5), failure="old")
    counted = count_kernels(find_ncu(), request(PRODUCT))
    assert "sm__inst_executed_pipe_tensor_op_gmma.sum" in counted.csv
    assert '"640"' in counted.csv


def test_a_failing_program_keeps_its_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, {"HGMMA": 1}))
    counted = count_kernels(find_ncu(), request(PRODUCT, command=(sys.executable, "-c", "raise SystemExit(3)")))
    assert counted.exit_code == 3
    assert "HGMMA" in counted.csv


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("no-permission", "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("no-kernels", "saw none of the 1 chosen kernels", "--capture"),
        ("import-fails", "measured nothing", "ncu --query-metrics"),
        ("no-gpu", "no GPU", "nvidia-smi"),
        ("query-silent", "measured nothing", "ncu --query-metrics"),
    ],
)
def test_each_failure_has_one_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, message: str, hint: str
) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, {"HGMMA": 1}), failure=kind)
    with pytest.raises(NcuFailedError, match=message) as caught:
        count_kernels(find_ncu(), request(PRODUCT))
    assert hint in caught.value.hint


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, failure="hangs")
    with pytest.raises(CaptureError, match=r"longer than 0\.5 s under ncu"):
        count_kernels(find_ncu(), request(PRODUCT, timeout_s=0.5))


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, kernel(PRODUCT, {"HGMMA": 1}))
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    count_kernels(find_ncu(), request(PRODUCT))
    assert list(place.iterdir()) == []
