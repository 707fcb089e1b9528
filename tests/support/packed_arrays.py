"""Read packed arrays of a page back, as the page's script does."""

import base64
import json
import zlib
from typing import Any


def inflated(text: str) -> tuple[dict[str, Any], bytes]:
    """Return head and arrays, as the page's script reads them."""
    whole = zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)
    length = int.from_bytes(whole[:4], "little")
    return json.loads(whole[4 : 4 + length]), whole[4 + length :]


def numbers(arrays: bytes, packed: dict[str, int]) -> list[int]:
    count = packed["n"]
    found = [0] * count
    for plane in range(packed["w"]):
        first = packed["at"] + plane * count
        for i, byte in enumerate(arrays[first : first + count]):
            found[i] += byte << (8 * plane)
    if packed["s"]:
        found = [-(value + 1) // 2 if value % 2 else value // 2 for value in found]
    return [sum(found[: i + 1]) for i in range(count)] if packed["d"] else found
