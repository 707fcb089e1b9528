"""The words in an export that name a machine, a user, a folder or a secret."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nsyswrap.base.privacy import FOLDERS, HOMES, NAMES, Identity, identity_from, neutral_host
from nsyswrap.trace import queries, schema
from nsyswrap.trace.connection import Export, opened

_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)


def identity_of(export: Export) -> Identity:
    """Return all identifying words in an export: also its working folders."""
    described = tuple(_described(export))
    return identity_from(
        variables(export),
        (value for name, value in described if name in NAMES),
        (value for name, value in described if name in FOLDERS),
    )


def report_identity(export: Export, environ: Mapping[str, str]) -> Identity:
    """Return the words that a report must not hold. Working folders stay, since they tell files apart.

    Args:
        export: The export.
        environ: The environment of this process, which may be the one that was captured; it may be empty.
    """
    described = (value for name, value in _described(export) if name in NAMES)
    return identity_from((*variables(export), *environ.items()), described, kept=HOMES)


def read_host(path: Path) -> str:
    """Return the neutral number of the host of an export; empty where the export does not name it.

    Raises:
        ExportError: The file is not a readable export.
    """
    with opened(path) as export:
        return neutral_host(next((value for name, value in export.pairs(schema.SYSTEM) if name == "Hostname"), ""))


def variables(export: Export) -> Iterator[tuple[str, str]]:
    """Yield the name and value of every variable of every environment in the export.

    nsys 2023 and 2025 store the environment in three places: one text for each process, with NUL between variables; one
    line of the description of the machine, with ";" between them; and one option of the capture for each variable.
    """
    for name, value in export.pairs(schema.SYSTEM):
        if name == schema.ENVIRONMENT_LINE:
            yield from _assignments(value.split(";"))
    for name, value in export.pairs(schema.CAPTURE_OPTIONS):
        if name.endswith(schema.ENVIRONMENT_OPTION):
            yield from (
                (variable, text.removeprefix('"').removesuffix('"')) for variable, text in _assignments([value])
            )
    if export.has(schema.STRINGS, "value"):
        for (block,) in export.rows(queries.texts_with_nul()):
            yield from _assignments(str(block).split("\x00"))


def _described(export: Export) -> Iterator[tuple[str, str]]:
    """Yield host, user and folders in the description, each under the name of the variable that would hold it."""
    for name, value in export.pairs(schema.SYSTEM):
        if name == "Hostname":
            yield "HOSTNAME", value
    for name, value in export.pairs(schema.CAPTURE_OPTIONS):
        if name.endswith(":USER_NAME"):
            yield "USER", value
        elif name.endswith(":WORKING_DIR"):
            yield "PWD", value
    for table in schema.EXPORT_OPTIONS:
        for name, value in export.pairs(table):
            if name in ("EXPORT_HOST", "EXPORT_USER"):
                yield name.removeprefix("EXPORT_"), value
            elif name.endswith("_PATH_ABS"):
                yield "PWD", value.rpartition("/")[0]


def _assignments(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((found.group(1), found.group(2)) for word in words if (found := _VARIABLE.fullmatch(word)))
