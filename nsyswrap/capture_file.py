"""A capture on disk: its SQLite export, and what `profile` recorded beside it."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError, ExportError
from nsyswrap.base.privacy import Cleaner, neutral
from nsyswrap.capture.recorded_run import (
    ALTERNATIVES_TABLE,
    CAPTURE_SUFFIXES,
    COPY_RATES,
    LINK_RATES,
    PRODUCT_RATES,
    PROFILER_COST,
    XRAY_TABLE,
    recorded_alternatives,
    recorded_host,
    recorded_steps_alone,
    recorded_value,
    recorded_xray,
)
from nsyswrap.events.alternatives import read_alternatives
from nsyswrap.events.blocked_calls import name_blocked_calls
from nsyswrap.events.host_record import read_record
from nsyswrap.events.xray_record import XrayRecord, cleaned_xray, read_xray
from nsyswrap.hardware.link_rates import read_link_rates, read_rates
from nsyswrap.hardware.peak_rates import read_product_rates
from nsyswrap.hardware.profiler_cost import read_cost
from nsyswrap.hardware.steps_alone import read_steps_alone
from nsyswrap.loop.context import Settings
from nsyswrap.trace.tables import Trace

if TYPE_CHECKING:
    from nsyswrap.capture.progress import Progress


@contextmanager
def exported(capture: Path, display: "AbstractContextManager[Progress] | None" = None) -> Iterator[Path]:
    """Yield the SQLite export of a capture: the file itself, or a temporary export of what nsys recorded.

    Raises:
        ExportError: nsys cannot export it, or there is no nsys.
    """
    if capture.suffix not in CAPTURE_SUFFIXES:
        yield capture
        return
    from nsyswrap.capture.convert import export_report  # noqa: PLC0415
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - heavy; most captures are exported already
    from nsyswrap.capture.progress import silent  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
        target = Path(folder) / f"{capture.stem}.sqlite"
        try:
            with display or nullcontext(silent) as progress:
                export_report(find_nsys(), capture, target, progress)
        except (CaptureError, ExportError) as error:
            raise ExportError(error.message, hint=". ".join([*_instead(capture), error.hint])) from error
        yield target


def _instead(capture: Path) -> Iterator[str]:
    """Yield sentences on the files beside a capture that need no nsys; nothing for a capture that does not exist."""
    if not capture.is_file():
        return
    export, report = capture.with_suffix(".sqlite"), capture.with_name("report.json")
    packed = export.with_name(f"{export.name}.xz")
    if export.is_file():
        yield f"Its export needs no nsys: give {export}"
    elif packed.is_file():
        yield f"Its export needs no nsys: run 'xz -dk {packed}' and give {export}"
    if report.is_file():
        yield f"Its finished report is {report}"


def with_recorded(trace: Trace, capture: Path, settings: Settings) -> tuple[Trace, Settings]:
    """Return a trace named after its file, and the settings with what `profile` recorded beside that file."""
    host = read_record(recorded_host(capture), trace.epoch_ns)
    named = replace(trace, capture=replace(trace.capture, name=neutral(capture.name), folder=folder_of(capture)))
    return name_blocked_calls(named, host), replace(
        with_rates(settings, capture),
        profiler_cost=read_cost(recorded_value(capture, PROFILER_COST)),
        host=host,
        steps_alone=read_steps_alone(recorded_steps_alone(capture)),
        xray=xray_of(capture),
        alternatives=read_alternatives(recorded_alternatives(capture)),
    )


def with_rates(settings: Settings, capture: Path) -> Settings:
    """Return the settings with the rates of the machine that `profile` measured beside a capture."""
    return replace(
        settings,
        copy_rates=read_rates(recorded_value(capture, COPY_RATES)),
        product_rates=read_product_rates(recorded_value(capture, PRODUCT_RATES)),
        link_rates=read_link_rates(recorded_value(capture, LINK_RATES)),
    )


def folder_of(capture: Path) -> str:
    """Return the folder of a capture relative to the working folder; ``.`` where it lies elsewhere and is private."""
    folder = capture.absolute().parent
    if folder.is_relative_to(Path.cwd()):
        return str(folder.relative_to(Path.cwd()))
    return str(folder) if neutral(str(folder)) == str(folder) else "."


def xray_of(capture: Path) -> XrayRecord:
    """Return what PyTorch said of the X-ray step of a capture; nothing where there is none."""
    return read_xray(recorded_xray(capture))


def shared_xray(capture: Path, cleaner: Cleaner) -> dict[str, dict[str, object]]:
    """Return the tables of a redacted export that hold its X-ray step and the measured alternatives.

    Files are those of their package, or the name alone; of the rest, names of functions, classes, modules and operators
    are texts, and all other texts are left out.
    """
    record, measured = xray_of(capture), read_alternatives(recorded_alternatives(capture)).shared()
    found = {XRAY_TABLE: cleaned_xray(record, cleaner.symbol, cleaner.file)} if record else {}
    return found | ({ALTERNATIVES_TABLE: measured} if measured else {})
