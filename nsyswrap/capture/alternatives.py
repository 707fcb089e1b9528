"""Measure alternatives of operators on the GPU, after the program has ended.

A program (:mod:`nsyswrap.capture.alternatives_probe`) runs them in turns, with the Python of the profiled program. It
is never recorded. What it finds lies beside the capture as `alternatives.json`.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsyswrap.capture import alternatives_probe, product_rates_probe
from nsyswrap.capture.nvml import readers
from nsyswrap.capture.product_rates import LEFT_OUT, output_of_program

SCHEMA = "nsyswrap.alternatives/1"
FAILURE = "failure"
# For how long the program measures, and may run at most, in s.
SPEND_S, TIMEOUT_S = 18, 20
NO_GPU = "this machine has no GPU"


def measure_alternatives(
    python: Sequence[str], alternatives: Sequence[dict[str, Any]], spend_s: int = SPEND_S
) -> dict[str, Any]:
    """Return what was measured of alternatives, as `alternatives.json` has it.

    Returns:
        ``gpu``, and ``alternatives``: each as it was given, with its times or a ``reason``. Where nothing could be
        measured ``failure`` says why.
    """
    found: dict[str, Any] = {"schema": SCHEMA, "alternatives": [dict(each) for each in alternatives]}
    with readers() as gpus:
        has_gpu = bool(list(gpus))
    if not has_gpu or not python:
        return {**found, FAILURE: "the Python of the program is not known" if has_gpu else NO_GPU}
    try:
        gpu, *rows = _measured(python, alternatives, spend_s)
    except (OSError, ValueError) as error:
        return {**found, FAILURE: str(error)}
    for row in rows:
        found["alternatives"][row.pop("at")] |= row
    return {**found, **gpu}


def _measured(python: Sequence[str], alternatives: Sequence[dict[str, Any]], spend_s: int) -> list[dict[str, Any]]:
    """Run the program that measures; return the GPU, and what was measured of each alternative."""
    environ = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
        wanted = Path(folder) / "alternatives.json"
        wanted.write_text(json.dumps(alternatives), encoding="utf-8")
        # Compilers leave nothing behind, no process either.
        environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [*python, "-c", program_text(), str(wanted), str(spend_s)]
        printed = output_of_program(command, environ, TIMEOUT_S - SPEND_S + spend_s)
    found = [json.loads(line) for line in printed.splitlines()]
    if not found:
        raise ValueError("the time was over before anything was measured")
    return found


def program_text() -> str:
    """Return the program as text that needs nothing of ours: the module that it imports comes first."""
    name = product_rates_probe.__name__
    texts = (Path(str(each.__file__)).read_text(encoding="utf-8") for each in (product_rates_probe, alternatives_probe))
    imported, program = texts
    packages = [name.rsplit(".", count)[0] for count in (2, 1)]
    return (
        "import sys, types\n"
        f"sys.modules.update({{name: types.ModuleType(name) for name in {[*packages, name]!r}}})\n"
        f"exec({imported!r}, sys.modules[{name!r}].__dict__)\n{program}"
    )
