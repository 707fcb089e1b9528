"""IDX, the format of MNIST's files: a magic number, the sizes, the bytes.

Source: the format's description on the MNIST page. Two zero bytes, the type of a value (8 for unsigned bytes), the
number of dimensions, each size as a big-endian 32-bit number, then the values in C order.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

UNSIGNED_BYTE = 8
MAGIC_BYTES = 4


class IdxError(ValueError):
    """A file is no IDX file of unsigned bytes, or is cut short."""


def read(path: Path) -> npt.NDArray[np.uint8]:
    """Return the array in an IDX file, plain or compressed (a name that ends in .gz).

    Raises:
        IdxError: The file is no IDX file of unsigned bytes, or has more or fewer bytes than it says.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise IdxError(f"{path} cannot be decompressed: {error}") from error
    if len(content) < MAGIC_BYTES or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise IdxError(
            f"{path} is no IDX file of unsigned bytes: it starts with {content[:MAGIC_BYTES].hex() or 'nothing'}"
        )
    dimensions = content[3]
    start = MAGIC_BYTES + 4 * dimensions
    if len(content) < start:
        raise IdxError(f"{path} ends inside its header, after {len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[MAGIC_BYTES:start])
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise IdxError(f"{path} has {len(content)} bytes, and its header says {expected}: it is cut short or not whole")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def write(path: Path, array: npt.NDArray[np.uint8]) -> None:
    """Write an array to an IDX file; a name that ends in .gz is compressed, with the same bytes every time."""
    header = bytes([0, 0, UNSIGNED_BYTE, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content, compresslevel=1, mtime=0) if path.suffix == ".gz" else content)
