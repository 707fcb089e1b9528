"""Time jobs of workloads/ranks in turn with their fixes, in the same processes and without nsys.

Start it with torchrun: ``torchrun --nproc-per-node 2 tools/rank_turns.py --out DIR/turns.json CASE ...``. In each turn,
all cases train for some steps, one after another; every second turn in the reverse order. The file has the milliseconds
of a step of each case and turn. With ``turns.json`` beside its captures, ``judge_ranks.py`` takes what a fix saves from
there. Environment variables of a case are the caller's to set.
"""

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAID = re.compile(r": ([\d.]+) ms a step")


def main(arguments: list[str] | None = None) -> None:
    """Train as one rank; rank 0 writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="CASE", help="cases, with their fixes")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file")
    parser.add_argument("--steps", type=int, default=30, help="steps of each case and turn (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="at most so many turns (%(default)s)")
    parser.add_argument("--seconds", type=float, default=120, help="nothing begins later (%(default)s)")
    chosen = parser.parse_args(arguments)
    until, took = time.monotonic() + chosen.seconds, {name: list[float]() for name in chosen.names}
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    sys.path.insert(0, str(ROOT / "workloads" / "ranks"))
    torch, group = importlib.import_module("torch"), importlib.import_module("group")
    with group.joined() as place:
        more = torch.zeros(1, device=place.device)
        for turn in range(chosen.turns):
            for name in chosen.names if turn % 2 == 0 else chosen.names[::-1]:
                more.fill_(time.monotonic() < until)
                torch.distributed.broadcast(more, 0)
                if more.item():
                    took[name].append(ms_of_a_step(name, chosen.steps, place))
                    gc.collect()
                    torch.cuda.empty_cache()
        if place.rank == 0:
            chosen.out.write_text(json.dumps({"steps": chosen.steps, "ms": took}))


def ms_of_a_step(name: str, steps: int, place: Any) -> float:  # noqa: ANN401 - a place of workloads/ranks/group.py
    """Train one case; return the milliseconds of a step."""
    from rank_cases import CASES  # noqa: PLC0415 - torchrun runs this file as a script

    case = CASES[name]
    program, said = importlib.import_module(case.program), io.StringIO()
    if case.program == "one_late_rank":
        has_fault = case.fault in program.OF_ALL or (
            place.rank == 0 if case.fault in program.OF_RANK_0 else place.is_last
        )
        with tempfile.TemporaryDirectory() as folder:
            took, _ = program.train(case.fault if has_fault else "none", steps, place.device, Path(folder))
        found = 1e3 * float(took)
    else:
        with contextlib.redirect_stdout(said):
            program.train(place, case.fault, steps)
        found = float(SAID.findall(said.getvalue())[-1])
    print(f"rank {place.rank}, {name}: {found:.2f} ms a step\n", end="", flush=True)
    return found


if __name__ == "__main__":
    main()
