"""Ncu is found, its counters are listed, and each of its failures has one remedy."""

from pathlib import Path

import pytest
from ncu_fixtures import fake_ncu, put_on_path

from nsyswrap.capture.kernel_counters import Ncu, NcuFailedError, NcuNotFoundError, counter_lists, failure, find_ncu

OPCODES = "sass__inst_executed_per_opcode"


def test_the_variable_takes_precedence_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch)
    named = fake_ncu(tmp_path / "named", "2024.1.0.0")
    found = find_ncu({"NSYSWRAP_NCU": str(named), "PATH": str(tmp_path / "ncu-bin")}, tmp_path)
    assert (found.path, found.version_text, found.source) == (named, "2024.1.0.0", "NSYSWRAP_NCU")


@pytest.mark.parametrize("content", [None, "#!/bin/sh\necho hello\n", "#!/bin/sh\nexit 1\n"])
def test_a_variable_that_names_no_ncu_is_an_error(tmp_path: Path, content: str | None) -> None:
    """No other ncu is used instead."""
    named = tmp_path / "ncu"
    if content is not None:
        named.write_text(content)
        named.chmod(0o755)
    with pytest.raises(NcuNotFoundError, match="NSYSWRAP_NCU is") as caught:
        find_ncu({"NSYSWRAP_NCU": str(named), "PATH": ""}, tmp_path)
    assert caught.value.hint == "Correct NSYSWRAP_NCU, or unset it"


@pytest.mark.parametrize("place", ["usr/local/cuda-13.0/bin/ncu", "usr/local/cuda/nsight-compute-2025.3.1/ncu"])
def test_the_ncu_of_a_cuda_toolkit_is_found(tmp_path: Path, place: str) -> None:
    fake_ncu(tmp_path / place)
    assert find_ncu({"PATH": ""}, tmp_path).source == "the CUDA toolkit"


def test_no_ncu_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(NcuNotFoundError, match="there is no ncu") as caught:
        find_ncu({"PATH": str(tmp_path)}, tmp_path)
    assert "NSYSWRAP_NCU" in caught.value.hint


def test_counter_lists_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes seconds, so the second list is read only when it is needed."""
    log = put_on_path(tmp_path, monkeypatch)
    first = next(counter_lists(find_ncu()))
    assert OPCODES in first
    assert log.read_text().count("--query-metrics-collection") == 1


def test_the_last_list_holds_hardware_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, failure="old")
    *_, last = counter_lists(find_ncu())
    assert "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2" in last
    assert OPCODES not in last


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access ...", "ERR_NVGPUCTRPERM"),
        ("==ERROR== No devices found", "no GPU"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "cannot access"),
        ("==ERROR== The driver resource was unavailable. Ensure that no other tool (like DCGM) ...", "cannot access"),
        ("==ERROR== something new", "measured nothing .ncu: ==ERROR== something new"),
        ("", "measured nothing$"),
    ],
)
def test_the_output_of_ncu_determines_the_error(output: str, message: str) -> None:
    error = failure(Ncu(Path("/ncu"), (2025, 3, 1, 0), "PATH"), output)
    with pytest.raises(NcuFailedError, match=message):
        raise error
    assert error.hint
