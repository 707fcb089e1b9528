"""A redacted export keeps the numbers in NVTX payloads of NCCL and removes everything else from payloads."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import MAIN, ExportBuilder, global_id
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.trace.payloads import NCCL_FIELDS, NCCL_REDUCTION, NCCL_REDUCTIONS, nccl_payload
from nsyswrap.trace.redact import redact

SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for
CALL = {"NCCL communicator ID": 1668595470337049045, "Message size [bytes]": 33566720, "Reduction operation": "Sum"}
OTHER_PROCESS = global_id(77, 77)


def payloads(path: Path) -> list[str | None]:
    """Return the payload of each NVTX event that is not the name of a domain, in order of start."""
    with closing(sqlite3.connect(path)) as database:
        query = "select jsonText from NVTX_EVENTS where eventType <> 75 order by start"
        return [text for (text,) in database.execute(query)]


def kept(builder: ExportBuilder, folder: Path) -> list[str | None]:
    """Return the payloads of an export after redaction."""
    redact(builder.write(folder / "whole.sqlite"), folder / "shared.sqlite")
    return payloads(folder / "shared.sqlite")


def collective(payload: str, domain: int = 2, thread: int = MAIN) -> ExportBuilder:
    """Build an export of one call of NCCL with a payload."""
    return (
        ExportBuilder().domain("NCCL", 2).range("ncclAllReduce", 1, 2, jsonText=payload, domain=domain, thread=thread)
    )


def test_nccl_keeps_all_payloads_of_a_real_capture(captures: Callable[[str], Path], tmp_path: Path) -> None:
    """All 388 payloads of two ranks stay the same, byte for byte."""
    path = captures("ddp_2gpu_slow_links")
    redact(path, tmp_path / "shared.sqlite")
    whole = payloads(path)
    assert sum(text is not None and "NCCL communicator ID" in text for text in whole) == 388
    assert payloads(tmp_path / "shared.sqlite") == whole


def test_a_call_of_nccl_keeps_its_numbers(tmp_path: Path) -> None:
    (text,) = kept(collective(json.dumps(CALL)), tmp_path)
    assert json.loads(text or "") == CALL


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(CALL | {"Host": SECRET}),
        json.dumps(CALL | {SECRET: 1}),
        json.dumps(CALL | {"Rank": SECRET}),
        json.dumps(CALL | {"Rank": [SECRET]}),
        json.dumps(CALL | {"Rank": {SECRET: 1}}),
        json.dumps(CALL | {"Config": {"NCCL communicator ID": SECRET}}),
        json.dumps(CALL)[:-1] + f', "Rank": "{SECRET}"}}',
    ],
)
def test_what_is_no_number_of_nccl_goes(tmp_path: Path, payload: str) -> None:
    (text,) = kept(collective(payload), tmp_path)
    assert json.loads(text or "") == CALL
    assert SECRET.encode() in (tmp_path / "whole.sqlite").read_bytes()
    assert SECRET.encode() not in (tmp_path / "shared.sqlite").read_bytes()


@pytest.mark.parametrize(
    "payload",
    [
        SECRET,
        "",
        "null",
        "7",
        json.dumps(SECRET),
        json.dumps([CALL]),
        json.dumps({"Reduction operation": SECRET}),
        json.dumps({"Rank": 1 << 31}),
        json.dumps({"NCCL communicator ID": -1}),
        json.dumps({"NCCL communicator ID": 1 << 64}),
        json.dumps({"Rank": 1.5}),
        json.dumps({"Rank": True}),
        json.dumps({"Rank": None}),
        '{"Rank": NaN}',
        '{"Rank": ' + "9" * 5000 + "}",
        "[" * 100_000,
    ],
)
def test_a_payload_without_a_number_of_nccl_is_gone(tmp_path: Path, payload: str) -> None:
    assert kept(collective(payload), tmp_path) == [None]
    assert SECRET.encode() not in (tmp_path / "shared.sqlite").read_bytes()


@pytest.mark.parametrize("columns", [{"domain": 3}, {"domain": 0}, {"thread": OTHER_PROCESS}])
def test_another_domain_keeps_no_payload(tmp_path: Path, columns: dict[str, int]) -> None:
    """Domain numbers are valid in one process only: number 2 may be a domain of the program in another process."""
    builder = collective(json.dumps(CALL), **columns)
    builder.domain("mine", 3).domain("mine", 2, thread=OTHER_PROCESS)
    assert kept(builder, tmp_path) == [None]


def test_a_domain_may_be_named_by_a_registered_text(tmp_path: Path) -> None:
    builder = ExportBuilder().range("NCCL", 0, None, kind=75, domain=2)
    builder.range("ncclAllReduce", 1, 2, jsonText=json.dumps(CALL), domain=2)
    (text,) = kept(builder, tmp_path)
    assert json.loads(text or "") == CALL


@pytest.mark.parametrize("thread", [MAIN, global_id(1, 9)])
def test_threads_of_one_process_share_a_domain(tmp_path: Path, thread: int) -> None:
    (text,) = kept(collective(json.dumps(CALL), thread=thread), tmp_path)
    assert (text is not None) == (thread >> 24 == MAIN >> 24)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*NCCL_FIELDS, NCCL_REDUCTION]) | st.text()
VALUES = JSON | st.sampled_from(sorted(NCCL_REDUCTIONS))


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_only_known_words_and_numbers_pass(fields: dict[str, object]) -> None:
    text = nccl_payload(json.dumps(fields).encode())
    for name, value in json.loads(text or "{}").items():
        assert fields[name] == value
        assert name in NCCL_FIELDS or name == NCCL_REDUCTION
        assert type(value) is int or value in NCCL_REDUCTIONS
