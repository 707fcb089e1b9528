"""The steps timed alone lie beside a capture, and in the table of a redacted export."""

import json
from pathlib import Path

from export_builder import ExportBuilder

from nsyswrap.capture.recorded_run import LINK_RATES, SCHEMA, recorded_steps_alone, shared_record
from nsyswrap.hardware.steps_alone import read_steps_alone


def test_steps_alone_are_read_beside_a_capture_and_shared(tmp_path: Path) -> None:
    """The shared ones are numbers alone: no other text of the file gets in."""
    export = ExportBuilder().kernel(0, 10).write(tmp_path / "capture.sqlite")
    process = {"pid": 7, "rank": None, "first_step": 3, "host_ns": [9, 9], "gpu_ns": None, "data_ns": None, "by": "x"}
    (tmp_path / "steps_alone.json").write_text(json.dumps({"version": 1, "processes": [process]}), encoding="utf-8")
    (timed,) = read_steps_alone(recorded_steps_alone(export)).processes
    assert (timed.pid, timed.lengths.tolist()) == (7, [9, 9])
    (shared,) = shared_record(export).values()
    assert read_steps_alone(shared["steps_alone"]).processes[0].lengths.tolist() == [9, 9]
    assert "by" not in json.dumps(shared)


def test_times_of_collectives_are_shared_without_their_conditions(tmp_path: Path) -> None:
    """They are in run.json, and in a redacted export without the machine's other properties."""
    rates = {"AllReduce": [[1e6, 2e4], [4e6, 5e4]]}
    measured = {"gpu": "NVIDIA H200", "gpus": 2, "rates": rates, "conditions": {"driver": "580"}}
    (tmp_path / "run.json").write_text(json.dumps({"schema": SCHEMA, LINK_RATES: measured}))
    (tmp_path / "capture.sqlite").touch()
    (shared,) = shared_record(tmp_path / "capture.sqlite").values()
    assert json.loads(json.dumps(shared[LINK_RATES])) == {"gpu": "NVIDIA H200", "gpus": 2, "rates": rates}
