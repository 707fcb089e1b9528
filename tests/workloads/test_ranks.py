"""The programs of several ranks: with each fault they train on a CPU, with gloo."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "workloads" / "ranks"
LIMIT_S = 240
# Imports torch once, then trains with each program in two processes; each program has a file for its rendezvous.
PAIR = """
import importlib, os, sys
import torch
from torch import distributed
programs = sys.argv[2:]
modules = {each: importlib.import_module(each.split()[0]) for each in programs}
torch.set_num_threads(1)
child = os.fork()
rank = 0 if child else 1
os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
start = distributed.init_process_group
for number, each in enumerate(programs):
    place = f"file://{sys.argv[1]}/{number}"
    distributed.init_process_group = lambda kind: start(kind, init_method=place, rank=rank, world_size=2)
    modules[each].main([*each.split()[1:], "--steps", "3"])
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_each_program_trains(tmp_path: Path) -> None:
    """Data-parallel, sharded, tensor-parallel and pipeline programs print the time of a step for both ranks.

    They do so with their faults, too, and in turns.
    """
    of = {
        **dict.fromkeys(("uneven_input", "statistics", "uneven_in_turn"), "one_late_rank"),
        **dict.fromkeys(("none", "each_microbatch", "unused_parameters", "small_buckets"), "data_parallel"),
        "gathers_in_turn": "sharded",
        "few_microbatches": "pipeline",
        "uneven_stages": "pipeline",
    }
    # First those whose loaders fork, because the others leave threads.
    programs = [*(f"{program} --fault {fault}" for fault, program in of.items()), "tensor_parallel"]
    turns = [f"rank_turns uneven_input sharded --turns 1 --out {tmp_path}/turns.json"]
    done = subprocess.run(
        [sys.executable, "-c", PAIR, str(tmp_path), *programs[:3], *turns, *programs[3:]],
        cwd=FOLDER,
        env={**os.environ, "PYTHONPATH": f"{FOLDER}:{ROOT / 'tools'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-800:]
    ranks = re.findall(r"^rank ([01]): [\d.]+ ms a step(?:, loss [\d.]+)?$", done.stdout, re.MULTILINE)
    assert sorted(ranks) == ["0"] * len(programs) + ["1"] * len(programs)
    took = json.loads((tmp_path / "turns.json").read_text())["ms"]
    assert [len(took[name]) for name in ("uneven_input", "sharded")] == [1, 1]
