"""The flags of one nsys, read from its help: they differ between versions, so none is assumed."""

import re
from dataclasses import dataclass

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.process import output_of

_HELP_TIMEOUT_S = 60

# A flag is at the start of its own line: `-t, --trace=`, `--wait=`, `(Experimental) --nic-metrics=`.
_FLAG = re.compile(r"^\s*(?:\([A-Za-z]+\)\s+)?(?:-\w,\s*)?(--[a-z][a-z0-9-]*)", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The flags that one nsys knows.

    Args:
        traces: Values of ``nsys profile --trace``.
        profile_flags: Flags of ``nsys profile``, with their dashes.
        export_flags: Flags of ``nsys export``, with their dashes.
    """

    traces: frozenset[str]
    profile_flags: frozenset[str]
    export_flags: frozenset[str]


def capabilities_of(nsys: Nsys) -> Capabilities:
    """Return the flags of an nsys.

    Raises:
        CaptureError: nsys does not print its help.
    """
    profile_help, export_help = (_help(nsys, command) for command in ("profile", "export"))
    return Capabilities(traces_in(profile_help), flags_in(profile_help), flags_in(export_help))


def flags_in(help_text: str) -> frozenset[str]:
    """Return the flags in the help text of a command of nsys."""
    return frozenset(_FLAG.findall(help_text))


def traces_in(profile_help: str) -> frozenset[str]:
    """Return the values of ``--trace`` in the help text of ``nsys profile``."""
    match = re.search(
        r"^\s*-t,\s*--trace=.*?Possible values are(.*?)\.\s", profile_help, flags=re.MULTILINE | re.DOTALL
    )
    return frozenset(re.findall(r"'([a-z0-9-]+)'", match[1])) if match else frozenset()


def _help(nsys: Nsys, command: str) -> str:
    try:
        output = output_of([nsys.path, command, "--help"], timeout_s=_HELP_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise CaptureError(f"{nsys.path} {command} --help fails: {error}", hint="Run 'nsyswrap doctor'") from error
    if not flags_in(output.text):
        raise CaptureError(f"{nsys.path} {command} --help names no flags", hint="Run 'nsyswrap doctor'")
    return output.text
