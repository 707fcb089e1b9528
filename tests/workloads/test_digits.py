"""The digits that workloads learn: MNIST's IDX files if they exist, else drawn digits."""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
Bytes = npt.NDArray[np.uint8]
BYTES = arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.fixture(scope="module", autouse=True)
def _on_path() -> Iterator[None]:
    """Put the workloads' folder on the path, as when a program is started there."""
    sys.path.insert(0, str(WORKLOADS))
    yield
    sys.path.remove(str(WORKLOADS))


@pytest.fixture
def digits() -> ModuleType:
    """Import workloads/digits."""
    import digits  # noqa: PLC0415 - only where the path is set

    return digits


def some(count: int = 5) -> list[Bytes]:
    """Return two small pairs of images and labels."""
    random = np.random.default_rng(3)
    images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = random.integers(0, 10, count, dtype=np.uint8)
    return [images, labels, images[:2], labels[:2]]


def write_all(digits: ModuleType, folder: Path, contents: list[Bytes], form: str = "{}") -> None:
    """Write the four files, named after a pattern."""
    for name, content in zip(NAMES, contents, strict=True):
        digits.idx.write(folder / form.format(name), content)


@given(array=BYTES, compressed=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_array_comes_back_from_an_idx_file(
    digits: ModuleType, tmp_path: Path, array: Bytes, *, compressed: bool
) -> None:
    path = tmp_path / ("array.gz" if compressed else "array")
    digits.idx.write(path, array)
    back = digits.idx.read(path)
    assert back.shape == array.shape
    assert (back == array).all()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_cut_short_anywhere_is_refused(digits: ModuleType, tmp_path: Path, suffix: str) -> None:
    """It may end after any number of bytes; the error names the file."""
    whole = tmp_path / f"whole{suffix}"
    digits.idx.write(whole, np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    content = whole.read_bytes()
    part = tmp_path / f"part{suffix}"
    for length in range(len(content)):
        part.write_bytes(content[:length])
        with pytest.raises(digits.idx.IdxError, match=part.name):
            digits.idx.read(part)


@pytest.mark.parametrize("form", ["{}", "{}.gz"])
def test_mnists_own_files_are_read_where_they_are(digits: ModuleType, tmp_path: Path, form: str) -> None:
    write_all(digits, tmp_path, some(), form)
    found = digits.load(tmp_path)
    assert all((a == b).all() for a, b in zip(found[:4], some(), strict=True))
    assert found.source == tmp_path
    assert len(list(tmp_path.iterdir())) == 4


def test_digits_are_drawn_where_there_are_none(digits: ModuleType, tmp_path: Path) -> None:
    """They are drawn into their own folder and read by the same code; the second run draws nothing."""
    folder = tmp_path / "not" / "there"
    first = digits.load(folder, 50, 20)
    assert first.train_images.shape == (50, 28, 28)
    assert first.test_labels.shape == (20,)
    assert first.source == folder / digits.DRAWN
    written = (first.source / NAMES[0]).stat().st_mtime_ns
    again = digits.load(folder, 7, 7)
    assert (again.train_images == first.train_images).all()
    assert (first.source / NAMES[0]).stat().st_mtime_ns == written


def test_mnists_own_files_come_before_drawn_ones(digits: ModuleType, tmp_path: Path) -> None:
    digits.load(tmp_path, 50, 20)
    write_all(digits, tmp_path, some())
    assert digits.load(tmp_path).source == tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_set_with_a_file_missing_is_refused(digits: ModuleType, tmp_path: Path, name: str) -> None:
    """Drawing the missing file would mix two sets of data. The message names the file."""
    write_all(digits, tmp_path, some())
    (tmp_path / name).unlink()
    with pytest.raises(digits.idx.IdxError, match=f"not {name}"):
        digits.load(tmp_path)


def _load(folder: Path) -> int:
    sys.path.insert(0, str(WORKLOADS))
    import digits  # noqa: PLC0415 - in a process of its own

    return int(digits.load(folder, 3000, 100).train_images.sum())


def test_several_runs_may_draw_at_once(digits: ModuleType, tmp_path: Path) -> None:
    """All runs read the same digits, one set stays, and no other file is left."""
    with ProcessPoolExecutor(4) as pool:
        sums = set(pool.map(_load, [tmp_path] * 4))
    assert len(sums) == 1
    assert [path.name for path in tmp_path.iterdir()] == [digits.DRAWN]
    assert sorted(path.name for path in (tmp_path / digits.DRAWN).iterdir()) == sorted(NAMES)


def test_a_seed_decides_what_is_drawn(digits: ModuleType) -> None:
    first, again, other = (digits.drawing.draw(40, seed) for seed in (1, 1, 2))
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()
    assert not (first[0] == other[0]).all()


def test_drawn_digits_look_like_mnists(digits: ModuleType) -> None:
    """All ten digits are equally frequent; images are mostly black, with ink away from the edge; no two are equal."""
    images, labels = digits.drawing.draw(3000, seed=0)
    assert (np.bincount(labels, minlength=10) > 200).all()
    assert 15 < images.mean() < 60
    assert (images.max(axis=(1, 2)) > 120).all()
    assert (np.median(images, axis=(1, 2)) < 20).all()
    rim = np.ones((28, 28), dtype=bool)
    rim[2:-2, 2:-2] = False
    assert images[:, rim].mean() < 10
    assert len({image.tobytes() for image in images}) == 3000
