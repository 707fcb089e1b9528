"""Handwritten digits in MNIST's form: the real ones where their files are, else drawn ones of the same shape.

MNIST's four files are read from a folder, plain or with `.gz`. Where the folder has none of them, 60 000 and 10 000
digits are drawn once, written beside as IDX files, and read back by the same code.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from digits import drawing, idx

SIDE = 28
CLASSES = 10
TRAIN_COUNT = 60_000
TEST_COUNT = 10_000

# Names under which MNIST is distributed: with a dash, as first published, or with a dot. The order is the order of the
# arrays in `Digits`.
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# The number changes with the drawing code, so that older digits are not used as new ones.
DRAWN = "drawn-1"


class Digits(NamedTuple):
    """Images and labels for training, and others for testing.

    Attributes:
        train_images: uint8 [n, 28, 28], white ink on black.
        train_labels: uint8 [n], each 0 to 9.
        test_images: uint8 [m, 28, 28].
        test_labels: uint8 [m].
        source: The folder they were read from.
    """

    train_images: npt.NDArray[np.uint8]
    train_labels: npt.NDArray[np.uint8]
    test_images: npt.NDArray[np.uint8]
    test_labels: npt.NDArray[np.uint8]
    source: Path


def load(folder: Path, train_count: int = TRAIN_COUNT, test_count: int = TEST_COUNT) -> Digits:
    """Read the digits in a folder; draw them first where it has none.

    Several runs may do this at once in the same folder.

    Args:
        folder: Folder of MNIST's files; drawn digits are written to a folder of their own in it.
        train_count: How many training digits to draw; files that exist are read whole.
        test_count: How many test digits to draw.

    Raises:
        idx.IdxError: Some of the four files are missing, or one is no IDX file, is cut short, or holds no digits.
    """
    paths = find(folder)
    if paths is None:
        drawn = folder / DRAWN
        if not drawn.is_dir():
            draw(drawn, train_count, test_count)
        paths = find(drawn)
        if paths is None:
            raise idx.IdxError(f"{drawn} is empty: remove it and run again")
    arrays = [idx.read(path) for path in paths]
    check(arrays, paths)
    train_images, train_labels, test_images, test_labels = arrays
    return Digits(train_images, train_labels, test_images, test_labels, paths[0].parent)


def find(folder: Path) -> list[Path] | None:
    """Return the four files in the order of FILES, or None where the folder has none of them.

    Raises:
        idx.IdxError: The folder has some of them: it is not clear which data set this is.
    """
    found = [_existing(folder, name) for name in FILES]
    missing = [name for name, path in zip(FILES, found, strict=True) if path is None]
    if len(missing) == len(FILES):
        return None
    if missing:
        raise idx.IdxError(f"{folder} has some of MNIST's files but not {', '.join(missing)}")
    return [path for path in found if path is not None]


def _existing(folder: Path, name: str) -> Path | None:
    forms = (name, name.replace("-idx", ".idx"))
    candidates = (folder / f"{form}{suffix}" for form in forms for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def check(arrays: list[npt.NDArray[np.uint8]], paths: list[Path]) -> None:
    """Raise idx.IdxError where the arrays are not two pairs of 28 x 28 images and labels from 0 to 9."""
    for images, labels, path, label_path in zip(arrays[::2], arrays[1::2], paths[::2], paths[1::2], strict=True):
        if images.ndim != 3 or images.shape[1:] != (SIDE, SIDE):  # noqa: PLR2004 - count, rows, columns
            raise idx.IdxError(f"{path} holds an array of shape {images.shape}, not images of {SIDE} x {SIDE}")
        if labels.ndim != 1 or (labels >= CLASSES).any():
            raise idx.IdxError(f"{label_path} does not hold one label from 0 to 9 for each image")
        if len(images) != len(labels) or not len(images):
            raise idx.IdxError(f"{path} holds {len(images)} images and {label_path.name} {len(labels)} labels")


def draw(folder: Path, train_count: int, test_count: int) -> None:
    """Draw digits and write them to a folder that does not exist yet: all four files appear at once, or none.

    If another run is faster, its folder is kept, since both draw the same digits.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        unfinished = Path(temporary, folder.name)
        unfinished.mkdir()
        for number, count in enumerate((train_count, test_count)):
            images, labels = drawing.draw(count, seed=number)
            idx.write(unfinished / FILES[2 * number], images)
            idx.write(unfinished / FILES[2 * number + 1], labels)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
