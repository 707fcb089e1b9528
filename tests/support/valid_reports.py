"""Reports that are checked against the JSON Schema of report.json."""

from dataclasses import replace
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from nsyswrap.model import Report
from nsyswrap.render.json_report import schema, tree

# Rows of each table that are checked; all rows of one table are made alike.
ROWS = 50


@cache
def validator() -> Any:  # noqa: ANN401 - the package has no types
    """Return what checks a report.json."""
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def valid_report(report: Report) -> Report:
    """Return a report, once its report.json is valid.

    Raises:
        jsonschema.ValidationError: It is not; the error names the place.
    """
    cut = tuple(
        replace(each, tables={name: table.head(ROWS) for name, table in each.tables.items()})
        for each in report.sections
    )
    validator().validate(tree(replace(report, sections=cut)))
    return report
