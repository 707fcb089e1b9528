"""The work of a product of matrices, from the sizes that PyTorch writes into the ranges of its operators.

nsys's ``--pytorch=autograd-shapes-nvtx`` records such ranges: ``aten::mm, op_id = 7, sizes = [[64, 128], [128, 32]]``.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

_TEXT = re.compile(r"^(?:aten::)?(\w+),.*?\bsizes = (\[\[[\d, ]*\](?:, \[[\d, ]*\])*\])", re.DOTALL)
# Dimensions of the matrices of an operator. Operators around these, such as linear, call them.
_DIMENSIONS = {"mm": 2, "addmm": 2, "bmm": 3, "baddbmm": 3}
# The matrices of these come after what is added to their product.
_ADDS = frozenset({"addmm", "baddbmm"})
SIZES_MARK = "sizes = [["


@dataclass(frozen=True, slots=True)
class ProductWork:
    """What a product of matrices does.

    Attributes:
        operations: Floating point operations: two for each multiplication with addition.
        elements: Elements of both matrices and of the result.
    """

    operations: int
    elements: int


@lru_cache(maxsize=4096)
def product_work(text: str) -> ProductWork | None:
    """Return the work of the product in a range; None where it is no product of matrices with recorded sizes."""
    match = _TEXT.match(text)
    if match is None or match[1] not in _DIMENSIONS:
        return None
    try:
        sizes = json.loads(match[2])
    except json.JSONDecodeError:
        return None
    first = 1 if match[1] in _ADDS else 0
    left, right = (sizes[at] if len(sizes) > at else [] for at in (first, first + 1))
    dimensions = _DIMENSIONS[match[1]]
    if len(left) != dimensions or len(right) != dimensions or left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    batch = left[0] if dimensions > 2 else 1  # noqa: PLR2004 - rows and columns
    rows, inner, columns = left[-2], left[-1], right[-1]
    return ProductWork(2 * batch * rows * inner * columns, batch * (rows * inner + inner * columns + rows * columns))
