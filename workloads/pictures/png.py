"""PNG files of 8-bit RGB: encoded and decoded with zlib and numpy, as in the PNG specification, third edition."""

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB8 = bytes([8, 2, 0, 0, 0])  # depth, colour, compression, filter, interlace
CHANNELS = 3


class PngError(ValueError):
    """This is no PNG file that we read."""


def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return a PNG file with pixels uint8 [height, width, 3]; each line is kept as the difference to the one above."""
    height, width, _ = pixels.shape
    lines = pixels.reshape(height, width * CHANNELS)
    above = np.vstack([np.zeros_like(lines[:1]), lines[:-1]])
    filtered = np.hstack([np.full((height, 1), 2, np.uint8), lines - above])
    header = struct.pack(">II", width, height) + RGB8
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def decode(content: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels uint8 [height, width, 3] of a PNG file whose lines are plain or differences to those above.

    Raises:
        PngError: It is another kind of file, is cut short, or uses what this decoder does not know.
    """
    if content[:8] != SIGNATURE:
        raise PngError(f"no PNG file: it starts with {content[:8].hex() or 'nothing'}")
    chunks = _chunks(content)
    if chunks.get(b"IHDR", b"")[8:] != RGB8:
        raise PngError("not 8 bits of red, green and blue")
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    try:
        plain = zlib.decompress(chunks.get(b"IDAT", b""))
    except zlib.error as error:
        raise PngError(f"cannot be decompressed: {error}") from error
    if len(plain) != height * (width * CHANNELS + 1):
        raise PngError(f"{len(plain)} bytes for {width} x {height} pixels")
    lines = np.frombuffer(plain, np.uint8).reshape(height, -1)
    return _unfiltered(lines[:, 0], lines[:, 1:]).reshape(height, width, CHANNELS)


def _chunks(content: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    place = len(SIGNATURE)
    while place + 12 <= len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        if content[place + 8 + length : place + 12 + length] != struct.pack(">I", zlib.crc32(kind + data)):
            raise PngError(f"chunk {kind!r} is damaged or cut short")
        found[kind] = found.get(kind, b"") + data
        place += length + 12
    if b"IEND" not in found:
        raise PngError("it has no end")
    return found


def _unfiltered(filters: npt.NDArray[np.uint8], lines: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if (filters == 2).all():  # noqa: PLR2004 - 2 is the difference to the line above
        return np.cumsum(lines, axis=0, dtype=np.uint8)
    if (filters == 0).all():
        return lines.copy()
    raise PngError("its lines are filtered in a way that is not read here")
