"""Long arrays worked through a stretch at a time.

What is made on the way then stays in the processor's cache, and is not asked of the kernel, which would zero it first.
"""

from collections.abc import Iterator

BLOCK = 1 << 17


def blocks(length: int) -> Iterator[slice]:
    """Yield slices that cover ``length`` rows, in order."""
    for first in range(0, length, BLOCK):
        yield slice(first, min(first + BLOCK, length))
