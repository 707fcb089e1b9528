"""Measure once on a machine what products of matrices reach on its GPU, and a copy in its memory.

A program (:mod:`nsyswrap.capture.product_rates_probe`) runs for some seconds with the Python of the profiled program,
before that program starts. The rates depend on the GPU, its power limit, the driver, and the PyTorch that brings the
libraries, so they are measured again when one of these changes.

A program (:mod:`nsyswrap.capture.link_rates_probe`) runs for some seconds with the Python of the profiled program,
after a job of several ranks has ended.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from nsyswrap.capture import link_rates_probe, product_rates_probe
from nsyswrap.capture.kept_measurement import driver_version, keep, kept, kept_at
from nsyswrap.capture.nvml import readers
from nsyswrap.capture.process import output_of
from nsyswrap.capture.profiler_cost import FAILURE
from nsyswrap.capture.recorded_run import LINK_RATES, PRODUCT_RATES
from nsyswrap.capture.run_record import program_versions

SCHEMA = "nsyswrap.product-rates/1"
RATES = "rates"
TIMEOUT_S = 60
# Variables that would change what is measured: they slow down launches, or turn TF32 off.
LEFT_OUT = ("CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE")


LINK_SCHEMA = "nsyswrap.link-rates/1"
# Variables that keep NCCL from using all links. Source: NCCL's documentation of its environment variables.
_LEFT_OUT = frozenset({
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_DISABLE", "NCCL_PROTO", "NCCL_ALGO"),
    *("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_NTHREADS", "NCCL_BUFFSIZE"),
    *("NCCL_NCHANNELS_PER_PEER", "NCCL_MAX_P2P_NCHANNELS", "NCCL_LAUNCH_MODE", "CUDA_LAUNCH_BLOCKING"),
})  # fmt: skip


def product_rates(python: Sequence[str], announce: Callable[[], object], *, kept_only: bool = False) -> dict[str, Any]:
    """Return the rates, as `run.json` keeps them: measured now, or kept from an earlier measurement.

    ``announce`` is called before a measurement. With ``kept_only`` nothing is measured: other ranks of the job use the
    same machine.

    Returns:
        ``conditions``, ``gpu``, ``multiprocessors`` and ``rates``: the lowest, the usual and the highest of each kind,
        in operations or bytes per second. Without rates ``failure`` says why, which is not kept. Empty without a GPU.
    """
    conditions, program = conditions_of(python, SCHEMA), partial(_printed, python, product_rates_probe, (), LEFT_OUT)
    return _rates_of(PRODUCT_RATES, conditions, program, announce, kept_only=kept_only)


def link_rates(
    python: Sequence[str], ranks: int, announce: Callable[[], object], *, kept_only: bool = False
) -> dict[str, Any]:
    """Return how long collectives take, as `run.json` keeps it: measured now, or kept from an earlier measurement.

    Returns:
        ``conditions``, ``gpu``, ``gpus`` and ``rates``: of each kind of collective a list of sizes in bytes, each with
        the time in ns. Without rates ``failure`` says why, which is not kept. Empty without several GPUs.
    """
    if ranks < 2:  # noqa: PLR2004 - a single rank has no links
        return {}
    conditions = {**conditions_of(python, LINK_SCHEMA), "ranks": ranks}
    program = partial(_printed, python, link_rates_probe, (str(ranks),), _LEFT_OUT)
    return _rates_of(LINK_RATES, conditions, program, announce, kept_only=kept_only)


def _rates_of(
    kind: str,
    conditions: dict[str, Any],
    measure: Callable[[], dict[str, Any]],
    announce: Callable[[], object],
    *,
    kept_only: bool,
) -> dict[str, Any]:
    """Return rates of a machine, measured now or kept in a folder of their kind, as ``product_rates`` does."""
    if not conditions["gpus"]:
        return {}
    path = kept_at(kind, {**conditions, "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "")})
    found = kept(path)
    if found.get(RATES):
        return {"conditions": conditions, **found}
    if kept_only:
        return {}
    if not conditions["torch"]:
        return {"conditions": conditions, RATES: {}, FAILURE: "the program has no PyTorch"}
    announce()
    try:
        measured = measure()
    except (OSError, ValueError) as error:
        return {"conditions": conditions, RATES: {}, FAILURE: str(error)}
    keep(path, measured)
    return {"conditions": conditions, **measured}


def conditions_of(python: Sequence[str], schema: str) -> dict[str, Any]:
    """Return what rates of a machine depend on."""
    with readers() as found:
        gpus = [{name: each.description[name] for name in ("name", "power_limit_mw")} for each in found]
    return {
        "schema": schema,
        "driver": driver_version(),
        "gpus": gpus,
        "torch": program_versions(tuple(python)).get("torch", "") if python else "",
    }


def _printed(
    python: Sequence[str], program: ModuleType, words: Sequence[str], left_out: Collection[str]
) -> dict[str, Any]:
    """Run a program that measures without some variables, and return what it printed.

    Raises:
        OSError: As ``output_of_program``.
        ValueError: It measured nothing, or what it printed cannot be read.
    """
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    text = Path(str(program.__file__)).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(output_of_program([*python, "-c", text, *words], environ, TIMEOUT_S))
    if not found[RATES]:
        raise ValueError("nothing could be measured")
    return found


def output_of_program(command: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> str:
    """Run a program that measures, and return the text that it printed.

    Raises:
        OSError: It could not be started, took too long, or printed nothing and says why.
    """
    output = output_of(command, timeout_s=timeout_s, env=environ)
    if output.code and not output.stdout:
        lines = output.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {output.code}")
    return output.stdout
