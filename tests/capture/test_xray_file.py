"""The file of the X-ray step, from what PyTorch writes of a few operators."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.capture.xray_file import write_xray

torch = pytest.importorskip("torch")

LINES: dict[str, object] = {"pid": 7, "rank": None, "torch": "2.13", "step": 6, "reason": None, "sites": []}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what PyTorch writes of a small step, in which the program opens a range of its own."""
    path = tmp_path_factory.mktemp("traced") / "7.execution"
    weight = torch.ones(4, 2, dtype=torch.bfloat16, requires_grad=True)
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    with torch.profiler.record_function('a "range" of the program'):
        torch.cat([torch.ones(3, 4, dtype=torch.bfloat16).t(), weight], 1).sum().backward()
        torch.full((2,), float("inf"))
        torch.layer_norm(torch.ones(2, 3), [3], None, None, 1e-5)
    observer.stop()
    observer.unregister_callback()
    return path


def operators(folder: Path, path: Path) -> list[dict[str, Any]]:
    """Return the operators in the file of one process."""
    assert write_xray(folder, [(LINES, [path])])
    process = json.loads((folder / "xray.json").read_text())["processes"][0]
    assert process == LINES | {"operators": process["operators"]}
    found: list[dict[str, Any]] = process["operators"]
    return found


def test_operators_have_their_inputs_and_outputs(tmp_path: Path, traced: Path) -> None:
    """A list of tensors is a list; strides and types are those of PyTorch, and tensors that share memory show it."""
    cat = next(each for each in operators(tmp_path, traced) if each["name"] == "aten::cat")
    (first, second), dimension = cat["inputs"]
    assert dimension == 1
    assert first == {
        "shape": [4, 3],
        "strides": [1, 4],
        "dtype": "bfloat16",
        "device": "cpu",
        "storage": first["storage"],
    }
    assert (second["shape"], second["storage"] == first["storage"]) == ([4, 2], False)
    assert [each["shape"] for each in cat["outputs"]] == [[4, 5]]


def test_numbers_texts_and_missing_values_are_kept(tmp_path: Path, traced: Path) -> None:
    """An input that was not given, or is an undefined tensor, is null."""
    found = operators(tmp_path, traced)
    full = next(each for each in found if each["name"] == "aten::full")
    assert full["inputs"][:2] == [[2], "inf"]
    norm = next(each for each in found if each["name"] == "aten::native_layer_norm")
    assert norm["inputs"][1:] == [[3], None, None, 1e-05]


def test_backward_operators_have_the_sequence_number_of_their_forward(tmp_path: Path, traced: Path) -> None:
    found = operators(tmp_path, traced)
    forward = next(each for each in found if each["name"] == "aten::cat")
    backward = next(each for each in found if each["name"] == "CatBackward0")
    assert forward["sequence"] == backward["sequence"]
    assert (forward["forward_thread"], backward["forward_thread"]) == (None, forward["thread"])


def test_operators_inside_others_name_them(tmp_path: Path, traced: Path) -> None:
    """Numbers are those of the ranges; threads and the process are no operators."""
    found = {each["id"]: each for each in operators(tmp_path, traced)}
    inner = next(each for each in found.values() if each["name"] == "aten::native_layer_norm")
    assert found[inner["parent"]]["name"] == "aten::layer_norm"
    assert not any(each["name"].startswith("[pytorch|") for each in found.values())


def test_a_range_whose_name_breaks_the_file_costs_only_itself(tmp_path: Path, traced: Path) -> None:
    """PyTorch writes names as they are. The operators around it are there."""
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(traced.read_text())
    names = [each["name"] for each in operators(tmp_path, traced)]
    assert {"aten::cat", "aten::native_layer_norm"} <= set(names)
    assert not any("range" in name for name in names)


def test_a_file_that_was_written_in_part_has_what_is_whole(tmp_path: Path, traced: Path) -> None:
    part = tmp_path / "part"
    text = traced.read_text()
    part.write_text(text[: len(text) // 2])
    assert 0 < len(operators(tmp_path, part)) < len(operators(tmp_path, traced))


def test_without_strides_there_is_the_rest(tmp_path: Path) -> None:
    """As PyTorch before 2.6 writes a node; one of another schema is left out."""
    inputs = '{"values": [[2, 3, 0, 6, 4, "cpu"], [1, 2]], "shapes": [[2, 3], [[], []]], '
    inputs += '"types": ["Tensor(float)", "GenericList[Int,Int]"]}'
    attributes = '[{"name": "rf_id", "value": 5}, {"name": "seq_id", "value": -1}, {"name": "tid", "value": 1}, '
    attributes += '{"name": "fw_tid", "value": 0}]'
    rest = f'"ctrl_deps": 1, "inputs": {inputs}, "outputs": {{"values": [], "shapes": [], "types": []}}'
    node = f'{{"id": 4, "name": "aten::view", {rest}, "attrs": {attributes}}}'
    path = tmp_path / "7.execution"
    path.write_text(f'{{"nodes": [{{"id": 3, "name": "aten::add", "inputs": []}}, {node}]}}')
    (found,) = operators(tmp_path, path)
    tensor = {"shape": [2, 3], "strides": None, "dtype": "float32", "storage": 3, "device": "cpu"}
    assert (found["name"], found["inputs"]) == ("aten::view", [tensor, [1, 2]])


def test_a_process_without_operators_says_why(tmp_path: Path) -> None:
    """The file is readable by its owner only."""
    lines = LINES | {"reason": "the program uses a profiler of PyTorch"}
    assert write_xray(tmp_path, [(lines, [tmp_path / "7.execution"])])
    path = tmp_path / "xray.json"
    assert json.loads(path.read_text()) == {"schema": "nsyswrap.xray/1", "processes": [lines | {"operators": []}]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
