"""Captures with a hidden environment: the variables that are kept, and the process namespace."""

from pathlib import Path

import pytest
from capture_fixtures import executable
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.named_secrets import looks_secret
from nsyswrap.capture.inherited import kept_environment, namespace_prefix
from nsyswrap.capture.process import output_of


def test_variables_that_programs_need_are_kept() -> None:
    """Programs need them to start, to find libraries and to compute."""
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
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "2",
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }
    assert kept_environment(needed) == needed


def test_variables_that_programs_do_not_need_are_dropped() -> None:
    """Variables of users and sessions, proxies with passwords, and unknown variables are dropped."""
    assert (
        kept_environment(
            {"USER": "x", "LOGNAME": "x", "http_proxy": "http://u:p@h", "SSH_CLIENT": "", "SLURM_JOB_USER": "x"}
        )
        == {}
    )


@pytest.mark.parametrize("name", ["CUDA_API_KEY", "TORCH_HUB_TOKEN", "NVIDIA_SECRET", "PYTHON_KEYRING_PASSWORD"])
def test_a_secret_is_dropped_even_if_its_prefix_is_allowed(name: str) -> None:
    """The list allows whole prefixes, and a secret may have such a prefix."""
    assert kept_environment({name: "x"}) == {}


@given(st.dictionaries(st.text(), st.text()))
def test_nothing_is_added_and_no_secret_is_kept(environ: dict[str, str]) -> None:
    """This holds for any environment."""
    kept = kept_environment(environ)
    assert kept.items() <= environ.items()
    assert not any(looks_secret(name) for name in kept)


@pytest.fixture
def prefix() -> tuple[str, ...]:
    """Return the prefix for a new namespace; skip the test where the kernel or the container forbids one."""
    try:
        return namespace_prefix()
    except CaptureError as error:
        pytest.skip(error.message)


def test_a_program_in_a_namespace_sees_only_itself(prefix: tuple[str, ...]) -> None:
    """Other processes of the machine have no id in it."""
    script = "echo $$; set -- /proc/[0-9]*; echo $#"
    output = output_of([*prefix, "sh", "-c", script], timeout_s=20)
    assert output.stdout == "1\n1\n"


@pytest.mark.parametrize(
    ("script", "reason"), [("#!/bin/sh\necho 'unshare failed: not permitted' >&2; exit 1\n", "not permitted"), ("", "")]
)
def test_a_forbidden_namespace_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    """The kernel may refuse it or the tool may be missing; the hint names another way to hide data."""
    if script:
        executable(tmp_path / "unshare", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CaptureError, match="this machine cannot hide processes") as caught:
        namespace_prefix()
    assert reason in caught.value.message
    assert "nsyswrap redact" in caught.value.hint
