"""Where the numbers come from: command, versions, GPUs, window."""

from dataclasses import replace

import hand_made

import nsyswrap
from nsyswrap.model import Gpu
from nsyswrap.render import page_provenance

FULL = hand_made.full_report()


def rows(**session: object) -> dict[str, str]:
    """Return the lines of the full report with another session."""
    changed = replace(FULL, session=replace(FULL.session, **session))  # type: ignore[arg-type]
    return {row.label: row.value for row in page_provenance.provenance(changed)}


def test_the_command_is_one_to_type_again() -> None:
    assert rows()["command"] == "python train.py --batch-size 64 --run-name 'a b'"
    assert next(page_provenance.provenance(FULL)).code


def test_versions_of_everything_are_said() -> None:
    said = rows()
    assert (said["nsyswrap"], said["nsys"], said["driver"]) == (nsyswrap.__version__, "2025.3.2.0", "580.159.04")


def test_what_the_export_does_not_say_is_unknown_or_left_out() -> None:
    said = rows(command=(), started_utc="", duration_ns=0, driver_version="", secrets=())
    assert said["driver"] == "unknown"
    assert {"command", "started", "length of the capture", "secrets"}.isdisjoint(said)


def test_the_window_has_its_ends_and_its_source() -> None:
    assert "1.200000 s to 3.200000 s since capture start: the measured steps" in rows()["window"]


def test_gpus_of_one_kind_are_counted() -> None:
    two = replace(FULL, gpus=(*FULL.gpus, replace(FULL.gpus[0], device_id=1), Gpu(2, "NVIDIA A100")))
    assert page_provenance.gpus(two) == "NVIDIA A100, 2 \u00d7 NVIDIA H200"
    assert page_provenance.gpus(hand_made.no_gpu_report()) == "no GPU work recorded"
    assert page_provenance.gpus(replace(FULL, gpus=())) == "GPU unknown"


def test_a_gpu_has_its_make() -> None:
    assert rows()["GPU 0"] == "NVIDIA H200, compute capability 9.0, 132 SMs, 140 GiB"
