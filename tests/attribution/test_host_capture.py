"""Samples of the host explain idle time in a real capture of a loop that shares its core with another process."""

import json
import lzma
from functools import cache
from pathlib import Path

import pytest

from nsyswrap.events.host_record import NO_RECORD, HostRecord, read_record
from nsyswrap.loop.context import Settings
from nsyswrap.model import Report
from nsyswrap.report import build_report
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

FOLDER = Path(__file__).resolve().parents[1] / "captures" / "host"


@cache
def loaded(folder: Path) -> tuple[Trace, HostRecord]:
    """Return the capture and its samples."""
    export = folder / "shared_core.sqlite"
    export.write_bytes(lzma.decompress((FOLDER / "shared_core.sqlite.xz").read_bytes()))
    trace = load_export(export)
    recorded = json.loads((FOLDER / "shared_core.json").read_text())
    return trace, read_record(recorded, trace.epoch_ns)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """Return the report without the samples and with them."""
    trace, host = loaded(tmp_path_factory.mktemp("host"))
    return build_report(trace), build_report(trace, "", Settings(host=host))


def test_the_samples_change_the_verdict(reports: tuple[Report, Report]) -> None:
    """Without samples the program seems to work between launches. With samples the thread waits for a core."""
    without, sampled = reports
    assert without.verdict_rule == "idle/cpu"
    assert sampled.verdict_rule == "idle/off_cpu"
    advice = next(each.advice for each in sampled.findings if each.rule == "idle/off_cpu")
    assert "Other programs use the cores" in advice


def test_idle_time_stays_the_same(reports: tuple[Report, Report]) -> None:
    """Samples change only the causes of idle time. The time without a core stays within the measured time."""
    idle = []
    for report in reports:
        section = report.section("idle")
        assert section is not None
        idle.append(section.tables["attribution"].groupby("cause")["idle_ns"].sum())
    assert idle[0].sum() == idle[1].sum()
    assert "off_cpu" not in idle[0]
    section = reports[1].section("machine")
    assert section is not None
    fact = section.fact("without_core_ns")
    assert fact is not None
    assert 0.25 * float(fact.value or 0) < idle[1]["off_cpu"] <= float(fact.value or 0)


def test_the_samples_are_those_of_the_threads_of_the_capture(tmp_path: Path) -> None:
    """The threads that launch have samples, in the time of the capture."""
    trace, host = loaded(tmp_path)
    assert host is not NO_RECORD
    launching = tables.distinct(tables.array(trace[tables.CALLS], "thread")).tolist()
    sampled = [each for each in launching if len(host.of_thread(each).at)]
    assert len(sampled) >= 2
    start = tables.array(trace[tables.KERNELS], "start")
    assert host.times[0] < start.min()
    assert host.times[-1] > start.max()
