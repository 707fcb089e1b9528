"""`nsyswrap classify`: one verdict for each name, in order, with no name cut."""

import csv
import io
import json
import subprocess
import sys

import commands
import pytest
from click.testing import Result

from nsyswrap.cli.classify import WIDEST_NAME, lines, readable, text_of

HEADER = "name,verdict,precision,library,op,rule"
NVJET = "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN"


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return commands.run("classify", *arguments, input=stdin)


def test_csv_holds_the_columns_of_the_contract_in_the_order_of_the_names() -> None:
    result = run("--format", "csv", "ampere_sgemm_128x64_nn", NVJET)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        HEADER,
        "ampere_sgemm_128x64_nn,simt_eligible,fp32,cublas,gemm,blas_name",
        f"{NVJET},tensor,bf16,cublas,gemm,nvjet",
    ]


def test_a_csv_has_no_formula_and_no_escape_sequence() -> None:
    """A name comes from the profiled program, and a spreadsheet runs a cell that begins with one of these."""
    names = ["=1+1", "@x", "+y", "-z", "a\x1b[31mb"]
    rows = list(csv.reader(io.StringIO(run("--format", "csv", "--", *names).stdout)))
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'@x", "'+y", "'-z", "a\\x1b[31mb"]


def test_json_is_a_list_of_objects_with_these_columns() -> None:
    rows = json.loads(run("--format", "json", NVJET, "Kernel2").stdout)
    assert [list(row) for row in rows] == [HEADER.split(",")] * 2
    assert rows[0]["verdict"] == "tensor"
    assert rows[1] == {
        "name": "Kernel2",
        "verdict": "unknown",
        "precision": "",
        "library": "",
        "op": "",
        "rule": "unmatched",
    }


def test_text_never_cuts_a_name() -> None:
    """A long name shifts only its own line."""
    long = "void at::native::f<" + "int, " * 400 + "int>(int)"
    result = run(long, NVJET)
    assert long in result.stdout
    assert len(result.stdout.splitlines()[2]) < WIDEST_NAME + 80


def test_names_are_read_from_standard_input_one_a_line() -> None:
    """Windows line ends and empty lines are ignored."""
    result = run("--format", "csv", stdin=f"{NVJET}\r\n\n   \nvoid f<a, b>(int)\n")
    assert [row[0] for row in csv.reader(io.StringIO(result.stdout))][1:] == [NVJET, "void f<a, b>(int)"]


@pytest.mark.parametrize(("form", "shown"), [("csv", f"{HEADER}\n"), ("text", ""), ("json", "[]\n")])
def test_no_names_give_an_empty_result(form: str, shown: str) -> None:
    result = run("--format", form)
    assert (result.exit_code, result.stdout) == (0, shown)
    assert text_of([]) == ""


def test_bytes_that_are_not_utf_8_become_escapes() -> None:
    result = run("--format", "csv", stdin=b"a\xff\xfegemm_kernel\nKernel2\n")
    assert result.exit_code == 0
    assert [line.split(",")[0] for line in result.stdout.splitlines()[1:]] == [r"a\xff\xfegemm_kernel", "Kernel2"]
    assert readable("a\udcff") == r"a\xff"
    assert list(lines(b"\xc3\xa9\n")) == ["é"]


@pytest.mark.parametrize("value", ["9", "9x", "sm_90", "9.0.0", "-1.0", "", "9.00", " 9.0", "\u0669.\u0660"])
def test_an_invalid_compute_capability_is_a_usage_error(value: str) -> None:
    result = run(f"--compute-capability={value}", NVJET)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "major.minor" in result.stderr


@pytest.mark.parametrize(("value", "verdict"), [("9.0", "tensor"), ("7.5", "simt_eligible"), ("6.1", "not_eligible")])
def test_the_compute_capability_corrects_verdicts(value: str, verdict: str) -> None:
    result = run("--format", "csv", "--compute-capability", value, NVJET)
    assert result.stdout.splitlines()[1].split(",")[1] == verdict


def test_it_runs_as_a_program_with_standard_input_closed() -> None:
    program = [sys.executable, "-m", "nsyswrap", "classify", "--format", "csv"]
    done = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{HEADER}\n", "")
