"""The comparison of two folders of reports: names of version 1, lists of differences, reasons and exit codes."""

import copy
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

OLD: dict[str, Any] = {
    "schema": "nsyswrap.report/1",
    "verdict": "The GPU is idle.",
    "sections": {
        "ledger": {
            "facts": {},
            "tables": {
                "devices": [
                    {
                        "device_id": 0,
                        "window_ns": 100,
                        "compute_ns": 40,
                        "communication_exposed_ns": 10,
                        "copy_exposed_ns": 5,
                        "fill_exposed_ns": 5,
                        "idle_ns": 40,
                    }
                ]
            },
        },
        "idle": {
            "facts": {},
            "tables": {
                "causes": [
                    {"device_id": 0, "cause": "input_wait", "phase": "data", "idle_ns": 20, "gap_count": 2},
                    {"device_id": 0, "cause": "host", "phase": "forward", "idle_ns": 15, "gap_count": 2},
                    {"device_id": 0, "cause": "host", "phase": "backward", "idle_ns": 5, "gap_count": 1},
                ]
            },
        },
        "steps": {"facts": {"steady_steps": {"value": 4}, "median_ns": {"value": 25.0}}, "tables": {}},
        "tensor_cores": {"facts": {"kernel_ns": {"value": 40}, "share_low": {"value": 0.5}}, "tables": {}},
        "copies": {
            "facts": {},
            "tables": {
                "summary": [
                    {
                        "kind": "Fill",
                        "source_memory": "",
                        "target_memory": "Device",
                        "count": 1,
                        "total_ns": 5,
                        "bytes": 8,
                    }
                ]
            },
        },
    },
    "findings": [
        {"rule": "idle/input_wait", "device_id": 0, "cost_ns": 20, "gain_low_ns": 5, "gain_high_ns": 20},
        {"rule": "idle/host", "device_id": 0, "cost_ns": 20, "gain_low_ns": 0, "gain_high_ns": 1},
    ],
}


def converted() -> dict[str, Any]:
    """Return the same report as version 2 writes it."""
    new = copy.deepcopy(OLD)
    new["schema"] = "nsyswrap.report/2"
    sections = new["sections"]
    (row,) = sections["ledger"]["tables"]["devices"]
    row["communication_wait_ns"], row["communication_transfer_ns"] = 4, 6
    row["memset_exposed_ns"] = row.pop("fill_exposed_ns")
    del row["communication_exposed_ns"]
    names = {"input_wait": "data_wait", "host": "cpu"}
    rows = sections["idle"]["tables"].pop("causes")
    attribution = [{**row, "cause": names[row["cause"]], "rule": f"idle/{names[row['cause']]}"} for row in rows]
    sections["idle"]["tables"]["attribution"] = attribution
    sections["steps"]["facts"]["measured_steps"] = sections["steps"]["facts"].pop("steady_steps")
    sections["copies"]["tables"]["summary"][0]["kind"] = "Memset"
    new["findings"] = [
        {
            "rule": f"idle/{names[each['rule'].removeprefix('idle/')]}",
            "device_id": 0,
            "lost_ns": each["cost_ns"],
            "saving_low_ns": each["gain_low_ns"],
            "saving_high_ns": each["gain_high_ns"],
        }
        for each in new["findings"]
    ]
    return new


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    """Import the tool with its folder on the path, as when it is started."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("report_differences")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder with a report of version 1 and one with the same report of version 2."""
    old, new = tmp_path / "old", tmp_path / "new"
    (new / "net").mkdir(parents=True)
    old.mkdir()
    (old / "net.json").write_text(json.dumps(OLD))
    (new / "net" / "report.json").write_text(json.dumps(converted()))
    return old, new


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the report of version 2 in place."""
    path = folder / "net" / "report.json"
    report = json.loads(path.read_text())
    edit(report)
    path.write_text(json.dumps(report))


def test_new_names_alone_are_no_difference(
    tool: ModuleType, folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Renamed columns, causes, facts and tables agree; communication is compared as wait and transfer together."""
    assert tool.main([str(each) for each in folders]) == 0
    assert "1 captures, 0 differences." in capsys.readouterr().out


def set_value(report: Any, path: str, value: float) -> None:  # noqa: ANN401 - JSON
    """Set a value of a report by its path, as `sections/steps/facts/median_ns/value`; numbers are list positions."""
    *way, last = path.split("/")
    for name in way:
        report = report[int(name) if name.isdigit() else name]
    report[last] = value


@pytest.mark.parametrize(
    ("path", "difference"),
    [
        ("sections/ledger/tables/devices/0/idle_ns", ("ledger/idle_ns", "GPU 0", 40, 39)),
        ("sections/ledger/tables/devices/0/communication_wait_ns", ("ledger/communication_ns", "GPU 0", 10, 11)),
        ("sections/tensor_cores/facts/share_low/value", ("tensor_cores/share_low", "", 0.5, 0.6)),
        ("sections/steps/facts/measured_steps/value", ("steps/count", "", 4, 3)),
        ("sections/copies/tables/summary/0/bytes", ("copies/bytes", "Memset Device", 8, 9)),
        ("findings/0/saving_low_ns", ("findings/saving_low_ns", "idle/data_wait GPU 0", 5, 6)),
    ],
    ids=["ledger", "communication", "tensor cores", "steps", "copies", "findings"],
)
def test_a_number_that_differs_is_listed_and_fails(
    tool: ModuleType, folders: tuple[Path, Path], path: str, difference: tuple[str, str, float, float]
) -> None:
    """Its field can be allowed, by name or by pattern."""
    field, item, old, new = difference
    wait_ns = 5  # with 6 ns of transfer
    change(folders[1], lambda report: set_value(report, path, wait_ns if "wait" in path else new))
    found = tool.differences(tool.reports(folders[0]), tool.reports(folders[1]))
    assert [(each.field, each.capture, each.item, each.old, each.new) for each in found] == [
        (field, "net", item, old, new)
    ]
    names = [str(each) for each in folders]
    assert tool.main(names) == 1
    assert tool.main([*names, "--expect", field]) == 0
    assert tool.main([*names, "--expect", f"{field.partition('/')[0]}/*"]) == 0
    assert tool.main([*names, "--expect", "phases/*"]) == 1


def test_idle_time_is_compared_by_cause_and_in_all(tool: ModuleType, folders: tuple[Path, Path]) -> None:
    """The phases of a cause are added up, so idle time that moves to another phase is not a difference of the cause."""

    def move(report: dict[str, Any]) -> None:
        rows = report["sections"]["idle"]["tables"]["attribution"]
        rows[1]["phase"] = "backward"
        rows[0]["idle_ns"] -= 3
        rows.append({**rows[0], "cause": "lock", "rule": "idle/lock", "idle_ns": 3})

    change(folders[1], move)
    found = tool.differences(tool.reports(folders[0]), tool.reports(folders[1]))
    assert [(each.field, each.item, each.old, each.new) for each in found] == [
        ("idle/cause_ns", "GPU 0 data_wait", 20, 17),
        ("idle/cause_ns", "GPU 0 lock", None, 3),
    ]


def test_a_finding_of_one_side_is_a_difference(tool: ModuleType, folders: tuple[Path, Path]) -> None:
    change(folders[1], lambda report: report["findings"].pop())
    found = tool.differences(tool.reports(folders[0]), tool.reports(folders[1]))
    assert {(each.field, each.item, each.new) for each in found} == {
        (f"findings/{name}", "idle/cpu GPU 0", None) for name in ("lost_ns", "saving_low_ns", "saving_high_ns")
    }


def test_a_verdict_in_other_words_is_listed_and_does_not_fail(
    tool: ModuleType, folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    change(folders[1], lambda report: report.update(verdict="The GPU is idle | 40 %."))
    assert tool.main([str(each) for each in folders]) == 0
    assert "| net |  | The GPU is idle. | The GPU is idle / 40 %. |  |" in capsys.readouterr().out


def test_a_share_may_differ_by_rounding(tool: ModuleType, folders: tuple[Path, Path]) -> None:
    fact = "share_low"
    change(folders[1], lambda report: report["sections"]["tensor_cores"]["facts"][fact].update(value=0.5 + 1e-12))
    assert tool.main([str(each) for each in folders]) == 0


def test_a_capture_of_one_folder_is_a_difference(tool: ModuleType, folders: tuple[Path, Path]) -> None:
    """A folder without any capture of the other fails, even if all differences are expected."""
    old, new = folders
    (old / "more-mended.json").write_text(json.dumps(OLD))
    found = tool.differences(tool.reports(old), tool.reports(new))
    assert [(each.field, each.capture, each.old, each.new) for each in found] == [
        ("capture", "more-fixed", "there", None)
    ]
    assert tool.main([str(old), str(new), "--expect", "capture"]) == 0
    (new / "net" / "report.json").unlink()
    assert tool.main([str(old), str(new), "--expect", "capture"]) == 1


def test_reasons_on_the_page_are_kept(tool: ModuleType, folders: tuple[Path, Path], tmp_path: Path) -> None:
    """A reason may have several lines. The reason for a field that agrees again is dropped."""
    change(folders[1], lambda report: report["findings"][0].update(lost_ns=21))
    page = tmp_path / "page.md"
    command = [*(str(each) for each in folders), "-o", str(page)]
    tool.main(command)
    assert "| net | idle/data_wait GPU 0 | 20 | 21 | +1 |" in page.read_text()
    page.write_text(
        page.read_text().replace("Reason:", "Reason: a gap is now\ncounted once.") + "\n## x/y\n\nReason: z\n"
    )
    tool.main(command)
    text = page.read_text()
    assert "## findings/lost_ns\n\nReason: a gap is now\ncounted once.\n\n| capture" in text
    assert "x/y" not in text


def test_what_is_not_a_report_is_an_error(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"schema": "other/1"}')
    with pytest.raises(ValueError, match=r"a\.json: not a report\.json of version 1 or 2"):
        tool.reports(tmp_path)
