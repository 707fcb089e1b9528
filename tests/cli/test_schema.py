"""`nsyswrap schema` prints the JSON Schema of report.json."""

import json
from pathlib import Path

import commands

from nsyswrap.render.json_report import SCHEMA


def test_the_schema_is_printed_or_written(tmp_path: Path) -> None:
    printed = commands.run("schema")
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["properties"]["schema"] == {"const": SCHEMA}
    target = tmp_path / "report.schema.json"
    assert commands.run("schema", "-o", target).exit_code == 0
    assert target.read_text(encoding="utf-8") == printed.stdout
    again = commands.run("schema", "-o", target)
    assert again.exit_code != 0
    assert "--force" in again.stderr
