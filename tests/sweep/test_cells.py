"""The cells of a grid: their commands, environments and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made_sweeps import GPUS, WORKERS, keys_of, spec_of

from nsyswrap.base.errors import UsageError
from nsyswrap.sweep.cells import cells_of


def test_a_cell_has_its_command_and_its_environment() -> None:
    cells = {cell.label: cell for cell in cells_of(spec_of(GPUS))}
    assert len(cells) == 12
    two = cells["gpus 2, batch 16, mode ddp"]
    assert " ".join(two.command) == "torchrun --nproc-per-node 2 train.py --gpus 2 --batch-size 16"
    assert two.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert (two.gpus, two.batch, two.same_as) == (2, 16, "")
    assert cells["gpus 1, batch 16, mode ddp"].same_as == "gpus-1_batch-16_mode-dp"


def test_the_batch_of_each_gpu_is_shared_by_none() -> None:
    cells = cells_of(spec_of(GPUS.replace("all GPUs", "each GPU")))
    assert {(cell.gpus, cell.value("batch"), cell.batch) for cell in cells} >= {(2, "16", 32.0), (1, "16", 16.0)}


def test_words_are_split_and_texts_are_not() -> None:
    text = 'command = "a {x} --y={x}"\n[axes]\nx = [{name = "none", words = ""}, "b c"]'
    assert [cell.command for cell in cells_of(spec_of(text))] == [("a", "--y="), ("a", "b c", "--y=b c")]


def test_skipped_cells_are_left_out() -> None:
    assert keys_of(f"{WORKERS}[[skip]]\nworkers = 0\n")[0] == "workers-1_batch-64"
    with pytest.raises(UsageError, match="no cells"):
        keys_of(f"{WORKERS}[[skip]]\nbatch = 64\n")


def test_a_cell_is_the_same_as_one_that_exists() -> None:
    with pytest.raises(UsageError, match="no other cell"):
        keys_of(f"{WORKERS}[[same]]\nwhere = {{workers = 1}}\nas = {{workers = 1}}\n")


def test_placeholders_that_name_each_other_are_an_error() -> None:
    text = 'command = "{x} {y}"\n[axes]\nx = [{name = "a", words = "{y}"}]\ny = [{name = "b", words = "{x}"}]'
    with pytest.raises(UsageError, match="name each other"):
        keys_of(text)


@given(some.lists(some.text(min_size=1).filter(str.isprintable), min_size=1, max_size=5, unique=True))
def test_each_cell_has_a_folder_of_its_own(names: list[str]) -> None:
    """Names that differ only by characters that no folder should have get a number. A brace would be a placeholder."""
    quoted = ", ".join(f'"{name}"' for name in names if not set(name) & set('"\\{')) or '"a"'
    keys = keys_of(f'command = "a {{x}}"\n[axes]\nx = [{quoted}]')
    assert len(set(keys)) == len(keys) == quoted.count('"') // 2
    assert all("/" not in key and key.strip(".") for key in keys)
