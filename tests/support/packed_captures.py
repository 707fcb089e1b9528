"""Captures as Nsight Systems packs them, made by hand."""

BEGIN = b"NVIDIA Tegra Profiler Report 1.\n\x04headQDTEXT00"
LONGEST = 15  # the longest literal whose length fits into a token


def number(value: int) -> bytes:
    """Return a number in protobuf's encoding of variable length."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def literal(text: bytes) -> bytes:
    """Return an LZ4 block that holds a text without compression."""
    if len(text) < LONGEST:
        return bytes([len(text) << 4]) + text
    full, last = divmod(len(text) - LONGEST, 255)
    return b"\xf0" + b"\xff" * full + bytes([last]) + text


def packed(*texts: bytes, blocks: tuple[tuple[bytes, int], ...] = (), tail: bytes = b"\x02it") -> bytes:
    """Return a capture: a block for each text, then the given blocks with their unpacked sizes, then a tail."""
    every = [(literal(text), len(text)) for text in texts] + list(blocks)
    parts = [number(len(block)) + number(size) + block for block, size in every]
    return b"".join([BEGIN, b"\x07session", b"\x03lz4", *parts, tail])
