"""What a capture with a hidden environment may hold."""

import os
from pathlib import Path

import pytest
from capture_fixtures import executable
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.capture.isolate import KEPT_VARIABLES, kept_environment, namespace_prefix
from nsyswrap.capture.process import output_of
from nsyswrap.errors import CaptureError
from nsyswrap.privacy import looks_secret


def test_what_programs_need_is_kept() -> None:
    """To start, to find their libraries, and to compute as asked."""
    needed = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": "/lib",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONPATH": "/src",
        "VIRTUAL_ENV": "/venv",
        "OMP_NUM_THREADS": "4",
        "TORCH_COMPILE_DEBUG": "1",
        "RANK": "0",
    }
    assert kept_environment(needed) == needed


def test_what_programs_do_not_need_is_dropped() -> None:
    """Users, sessions, proxies with their passwords, and all that nobody thought of."""
    assert (
        kept_environment({"USER": "x", "LOGNAME": "x", "http_proxy": "http://u:p@h", "SSH_CLIENT": "", "FOO": "1"})
        == {}
    )


@pytest.mark.parametrize("name", ["CUDA_API_KEY", "TORCH_HUB_TOKEN", "NVIDIA_SECRET", "PYTHON_KEYRING_PASSWORD"])
def test_a_secret_is_dropped_though_its_name_begins_well(name: str) -> None:
    """The list keeps families of names, and a secret may be born into one."""
    assert kept_environment({name: "x"}) == {}


def test_the_list_is_sorted_and_names_no_user() -> None:
    """It stands in the documentation."""
    assert list(KEPT_VARIABLES) == sorted(KEPT_VARIABLES)
    assert not {"USER", "LOGNAME", "HOSTNAME"} & set(KEPT_VARIABLES)


@given(st.dictionaries(st.text(), st.text()))
def test_nothing_is_added_and_no_secret_is_kept(environ: dict[str, str]) -> None:
    """Whatever the environment."""
    kept = kept_environment(environ)
    assert kept.items() <= environ.items()
    assert not any(looks_secret(name) for name in kept)


@pytest.fixture
def prefix() -> tuple[str, ...]:
    """The start of a command in a namespace, on a machine whose kernel and container allow one."""
    try:
        return namespace_prefix()
    except CaptureError as error:
        pytest.skip(error.message)


def test_a_program_in_a_namespace_sees_itself_alone(prefix: tuple[str, ...]) -> None:
    """No process of the machine has a number in there."""
    script = "echo $$; set -- /proc/[0-9]*; echo $#"
    output = output_of([*prefix, "sh", "-c", script], timeout_s=20)
    assert output.stdout == "1\n1\n"


def test_the_user_stays_the_same(prefix: tuple[str, ...]) -> None:
    """Files that the program writes belong to whom they always belong."""
    assert output_of([*prefix, "id", "-u"], timeout_s=20).stdout == f"{os.geteuid()}\n"


@pytest.mark.parametrize(
    ("script", "reason"), [("#!/bin/sh\necho 'unshare failed: not permitted' >&2; exit 1\n", "not permitted"), ("", "")]
)
def test_where_it_is_not_allowed_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    """Refused by the kernel, or without the tool; the hint names the other way to hide things."""
    if script:
        executable(tmp_path / "unshare", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CaptureError, match="cannot be hidden from the capture here") as caught:
        namespace_prefix()
    assert reason in caught.value.message
    assert "nsyswrap redact" in caught.value.hint
