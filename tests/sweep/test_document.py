"""A sweep as a tree and back."""

import json
from typing import Any

import pytest
from made_sweeps import gpus_sweep, workers_sweep

from nsyswrap.base.errors import ExportError
from nsyswrap.sweep.document import measured_tree, sweep_from_tree
from nsyswrap.sweep.results import Sweep


@pytest.mark.parametrize("sweep", [workers_sweep(2), gpus_sweep()], ids=["workers", "gpus"])
def test_a_sweep_comes_back_whole(sweep: Sweep) -> None:
    assert sweep_from_tree(json.loads(json.dumps(measured_tree(sweep))), "x") == sweep


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "nsyswrap.report/3"},
        {"runs": [{}]},
        {"runs": None},
        {"seed": "x"},
        {"runs": [{**measured_tree(workers_sweep())["runs"][0], "mean_ns": -1}]},
        {"runs": [{**measured_tree(workers_sweep())["runs"][0], "ending": "well"}]},
    ],
)
def test_a_damaged_tree_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(ExportError):
        sweep_from_tree({**measured_tree(workers_sweep()), **change}, "x")
    with pytest.raises(ExportError):
        sweep_from_tree([], "x")
