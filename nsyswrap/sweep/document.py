"""A sweep as a tree of plain values, and back: what was measured, and the TOML that asked for it.

What follows from the runs is not read back. It is found again, so an older result gets the rules of today.
"""

from nsyswrap.base.errors import ExportError
from nsyswrap.base.json_codec import NUMBER, TEXT, WHOLE, Codec, DamagedError, Tree, list_of, null_or, record_of
from nsyswrap.sweep.results import CellRun, Sweep, sweep_of
from nsyswrap.sweep.spec import parse

SCHEMA = "nsyswrap.sweep/1"


def _time(value: object, place: str) -> float:
    found: float = NUMBER.read(value, place)
    if found <= 0:
        raise DamagedError(f"{place} is no time")
    return found


_TIME = null_or(Codec(NUMBER.schema, _time))
RUN = record_of(CellRun, mean_ns=_TIME, median_ns=_TIME)
"""The codec of a run."""


def measured_tree(sweep: Sweep) -> Tree:
    """Return what a sweep asked for and measured."""
    return {
        "schema": SCHEMA,
        "name": sweep.spec.name,
        "toml": sweep.spec.text,
        "seed": sweep.seed,
        "runs": list_of(RUN).write(sweep.runs),
    }


def sweep_from_tree(tree: object, source: str) -> Sweep:
    """Return the sweep of a tree.

    Raises:
        ExportError: It is no sweep of this version.
        UsageError: Its TOML does not describe a sweep.
    """
    if not isinstance(tree, dict) or tree.get("schema") != SCHEMA:
        raise ExportError(f"{source} holds no sweep of the schema {SCHEMA}", hint="give the sweep.json of a sweep")
    try:
        fields = {"toml": TEXT, "name": TEXT, "seed": WHOLE, "runs": list_of(RUN)}
        text, name, seed, runs = (codec.read(tree.get(key), key) for key, codec in fields.items())
    except DamagedError as error:
        raise ExportError(f"{source} is damaged: {error}") from error
    return sweep_of(parse(text, name), seed, runs)
