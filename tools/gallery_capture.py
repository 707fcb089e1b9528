"""Find environment variables in a `.nsys-rep`, and mask what names its machine, before it is committed.

`tools/gallery_capture.py CAPTURE...` masks captures in place: UUIDs of GPUs, of the session and of nsys's shared
memory, and the release of the kernel.

Most of the file is packed: `strings` finds only pieces of it, and an nsys older than the one that wrote it cannot
export it.

Source: found by inspecting captures of nsys 2025.3; NVIDIA does not document the format.
"""

import re
import sys
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsyswrap.capture import watchdog

BEGIN = b"QDTEXT00"
# Variables that nsys and nsyswrap set for the program.
OWN = frozenset({
    *("LD_PRELOAD", "TRACE_START_IMMEDIATELY", "__GL_CONSTANT_FRAME_RATE_HINT", "CUPTI_PROFILE_MODE"),
    *("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUBLAS_NVTX_LEVEL", "CUBLASXT_NVTX_LEVEL"),
    *("NSYSWRAP_ANNOTATE", "NSYSWRAP_HOST_MARKS_ONLY"),
})  # fmt: skip
OWN_BEGIN = ("NSYS_", "QUADD_")
VARIABLE = re.compile(rb"(?<![-A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{2,})=")
UUID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
NEUTRAL = b"00000000-0000-0000-0000-"
# The release of a kernel, and the one that stands for all.
RELEASE = re.compile(rb"(?<![\d.])[3-9]\.\d+\.\d+-[a-z0-9][-a-z0-9._]*")
ANY_RELEASE = b"0.0.0-"
LZ4 = pa.Codec("lz4_raw")
# A byte of a packed block stands for at most 255 bytes. Source: LZ4 block format.
MOST_UNPACKED = 255
# What the watchdog's script assigns; its text is part of a command line.
ASSIGNED = frozenset(found.decode() for found in VARIABLE.findall(watchdog.SCRIPT.encode()))


def unpacked(content: bytes) -> bytes:
    """Return the content of a capture: its unpacked LZ4 blocks, then the parts that are not packed.

    Raises:
        ValueError: The content is not a capture, or is packed in another way.
    """
    at = content.find(BEGIN) + len(BEGIN)
    if at < len(BEGIN):
        raise ValueError("not a capture of Nsight Systems")
    blocks = []
    try:
        for _ in ("session", "how blocks are packed"):  # messages, each after its length
            length, at = _number(content, at)
            at += length
        plain = content[:at]
        while True:
            block, at = _block(content, at)
            blocks.append(block)
    except (ValueError, IndexError, OSError) as error:  # the blocks end here
        if not blocks:
            raise ValueError("a capture without LZ4 blocks") from error
    return b"".join([*blocks, b"\0", plain, content[at:]])


def masked(content: bytes) -> bytes:
    """Return a capture with neutral UUIDs and a neutral release of the kernel, of the same lengths.

    Two different UUIDs stay different. nsys keeps no sum of the content: it exports the same tables.

    Raises:
        ValueError: The content is not a capture, or a packed text refers to what is replaced.
    """
    known: dict[bytes, bytes] = {}

    def neutral(found: re.Match[bytes]) -> bytes:
        return known.setdefault(found[0], b"%s%012d" % (NEUTRAL, len(known) + 1))

    def replaced(text: bytes) -> bytes:
        return RELEASE.sub(lambda found: ANY_RELEASE.ljust(len(found[0]), b"0"), UUID.sub(neutral, text))

    changed = replaced(content)
    if unpacked(changed) != replaced(unpacked(content)):
        raise ValueError("a packed text refers to a UUID or to the release of the kernel")
    return changed


def variables(whole: bytes, shared: AbstractSet[str]) -> list[str]:
    """Return the names of variables in an unpacked capture that are not shared and not set by the tools, sorted."""
    names = {found.decode() for found in VARIABLE.findall(whole)}
    known = shared | OWN | ASSIGNED
    # The byte before a text is its length, and may look like a letter of the name.
    return sorted(name for name in names if not ({name, name[1:]} & known or name.startswith(OWN_BEGIN)))


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number in protobuf's variable-length encoding, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit for "more bytes follow"
            return value, at
        shift += 7


def _block(content: bytes, at: int) -> tuple[bytes, int]:
    """Return the unpacked block that starts with its two sizes at a position, and the position after it."""
    size, at = _number(content, at)
    expected, at = _number(content, at)
    if not size or not 0 < expected <= MOST_UNPACKED * size:
        raise ValueError("not a block")
    packed = content[at : at + size]
    with suppress(OSError):  # a whole block does not fit into less
        LZ4.decompress(packed, expected - 1)
        raise ValueError("a block of another size")
    return LZ4.decompress(packed, expected, asbytes=True), at + size


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_bytes(masked(path.read_bytes()))


if __name__ == "__main__":
    main()
