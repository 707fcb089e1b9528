# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What a `.nsys-rep` tells of the processes that nsys saw: nothing can redact it, so it is looked through.

Most of the file is packed: `strings` finds only pieces of it, and an nsys older than the one that wrote it cannot
export it.

Source: read off captures of nsys 2025.3; NVIDIA does not describe the file.
"""

import re
from collections.abc import Set as AbstractSet

BEGIN = b"QDTEXT00"
# Variables that nsys gives a program.
OWN = frozenset({
    *("LD_PRELOAD", "TRACE_START_IMMEDIATELY", "__GL_CONSTANT_FRAME_RATE_HINT", "CUPTI_PROFILE_MODE"),
    *("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUBLAS_NVTX_LEVEL", "CUBLASXT_NVTX_LEVEL"),
})  # fmt: skip
OWN_BEGIN = ("NSYS_", "QUADD_")
VARIABLE = re.compile(rb"(?<![-A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{2,})=")
# Lengths in the LZ4 block format: the largest in half a byte, what a match has at least, the bytes of its distance.
NIBBLE, SHORTEST, DISTANCE = 15, 4, 2


def unpacked(content: bytes) -> bytes:
    """Return all of a capture, its LZ4 blocks unpacked; what is not packed stands at the end.

    Raises:
        ValueError: This is no capture, or one that is packed in another way.
    """
    at = content.find(BEGIN) + len(BEGIN)
    if at < len(BEGIN):
        raise ValueError("no capture of Nsight Systems")
    blocks = []
    try:
        for _ in ("session", "how blocks are packed"):  # messages, with their lengths before them
            length, at = _number(content, at)
            at += length
        plain = content[:at]
        while True:
            block, at = _block(content, at)
            blocks.append(block)
    except (ValueError, IndexError) as error:  # what comes next is no block
        if not blocks:
            raise ValueError("a capture without LZ4 blocks") from error
    return b"".join([*blocks, b"\0", plain, content[at:]])


def variables(whole: bytes, shared: AbstractSet[str]) -> list[str]:
    """Return environment variables in an unpacked capture that are neither shared ones nor set by nsys itself."""
    names = {found.decode() for found in VARIABLE.findall(whole)}
    known = shared | OWN
    # A text's length stands before it, and may look like a letter of the name.
    return sorted(name for name in names if not ({name, name[1:]} & known or name.startswith(OWN_BEGIN)))


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of protobuf's variable length, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says more follows
            return value, at
        shift += 7


def _block(content: bytes, at: int) -> tuple[bytes, int]:
    """Return the block that begins here with its sizes, packed and not, and where it ends."""
    size, at = _number(content, at)
    expected, at = _number(content, at)
    whole = _lz4(content[at : at + size])
    if not size or len(whole) != expected:
        raise ValueError("not a block")
    return whole, at + size


def _lz4(block: bytes) -> bytes:
    whole, at = bytearray(), 0
    while at < len(block):
        token = block[at]
        length, at = _length(block, at + 1, token >> 4)
        whole += block[at : at + length]
        at += length
        if at >= len(block):
            break
        back = int.from_bytes(block[at : at + DISTANCE], "little")
        length, at = _length(block, at + DISTANCE, token & NIBBLE)
        if not 0 < back <= len(whole):
            raise ValueError("a match before the block")
        repeated = bytes(whole[-back:])
        length += SHORTEST
        whole += (repeated * (length // back + 1))[:length]
    return bytes(whole)


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length == NIBBLE:
        while True:
            byte = block[at]
            at += 1
            length += byte
            if byte != 0xFF:  # noqa: PLR2004 - as long as bytes are full
                break
    return length, at
