"""Reads a report.json back to a report, checked field by field."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from nsyswrap.base.errors import ExportError
from nsyswrap.base.json_codec import DamagedError
from nsyswrap.base.text_file import read_text_file
from nsyswrap.model import Report
from nsyswrap.render.json_report import REPORT, SCHEMA

_FAMILY, _, _VERSION = SCHEMA.rpartition("/")
_AGAIN = "write it again from the capture: nsyswrap analyze CAPTURE --format json -o report.json"


def read_report(path: Path) -> Report:
    """Return the report in a report.json.

    The names of secrets and the limits and rates of GPUs are not in report.json, so they are empty.

    Raises:
        ExportError: The file cannot be read, is not JSON, is cut short or damaged, or was written by another program or
            version.
    """
    try:
        text = read_text_file(path)
    except OSError as error:
        raise ExportError(f"cannot read {path}: {error.strerror}", hint="check the name and the permissions") from error
    except UnicodeDecodeError as error:
        raise ExportError(f"{path} is not text, so it is not a report.json", hint=_AGAIN) from error
    return parse_report(text, str(path))


def parse_report(text: str, name: str) -> Report:
    """Return the report in the text of a report.json.

    Raises:
        ExportError: It is not JSON, is cut short or damaged, or was written by another program or version.
    """
    try:
        tree = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{name} is cut short or not JSON: {error}", hint=_AGAIN) from error
    _check_schema(tree, name)
    try:
        found: Report = REPORT.read(tree, "")
    except DamagedError as error:
        raise ExportError(f"{name} is damaged: {error}", hint=_AGAIN) from error
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_schema(tree: object, name: str) -> None:
    schema = tree.get("schema") if isinstance(tree, Mapping) else None
    if schema == SCHEMA:
        return
    family, _, version = schema.rpartition("/") if isinstance(schema, str) else ("", "", "")
    if family != _FAMILY:
        raise ExportError(f"{name} is not a report of nsyswrap", hint=f'its "schema" must be "{SCHEMA}"; {_AGAIN}')
    older = version.isascii() and version.isdigit() and int(version[:9]) < int(_VERSION)
    action = "analyze the capture again" if older else "update nsyswrap, or analyze the capture again"
    message = f"{name} is a report of version {version[:20]!r}, and this nsyswrap reads version {_VERSION}: {action}"
    raise ExportError(message, hint="nsyswrap analyze CAPTURE --format json -o report.json")
