"""Packs arrays of whole numbers for a page: differences, bytes of equal weight together, deflate, base64.

The result is one base64 text, which cannot contain markup. Inflated, it holds::

    4 bytes      length of the head, little-endian
    head         JSON in UTF-8; each array is replaced by
                 {"at": position, "n": count, "w": bytes for each number, "d": are differences, "s": are signed}
    arrays       positions count from here; each array is stored as all lowest bytes, then all second bytes, and so on

A signed number x is stored as 2x, or as -2x - 1 where it is negative, so that small numbers stay short.
"""

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

LEVEL = 6
# A page reads numbers as 64-bit floats, which hold whole numbers exactly up to here.
LARGEST = (1 << 53) - 1


class Packer:
    """Collects arrays and returns the entry of each for the head."""

    def __init__(self) -> None:
        """Start without arrays."""
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, values: npt.NDArray[np.integer[Any]], *, differences: bool = False) -> dict[str, int]:
        """Add an array and return its entry for the head.

        Args:
            values: Whole numbers in any order.
            differences: Whether to store distances between neighbours, which are short for ordered times.

        Raises:
            ValueError: A number is too large for a page to hold.
        """
        numbers = np.asarray(values, np.int64)
        if len(numbers) and max(abs(int(numbers.min())), abs(int(numbers.max()))) > LARGEST:
            raise ValueError("a number has more than 53 bits")
        if differences:
            numbers = np.diff(numbers, prepend=np.int64(0))
        signed = bool(len(numbers) and numbers.min() < 0)
        stored = np.where(numbers < 0, -2 * numbers - 1, 2 * numbers) if signed else numbers
        width = max((int(stored.max(initial=0)).bit_length() + 7) // 8, 1)
        planes = stored.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        self._parts.append(planes.T.tobytes())
        place, self._length = self._length, self._length + len(numbers) * width
        return {"at": place, "n": len(numbers), "w": width, "d": int(differences), "s": int(signed)}

    def text(self, head: object) -> str:
        """Return head and arrays as one text of base64."""
        encoded = json.dumps(head, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        first = encoded.encode("utf-8", errors="replace")
        whole = b"".join((len(first).to_bytes(4, "little"), first, *self._parts))
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return base64.b64encode(packer.compress(whole) + packer.flush()).decode("ascii")
