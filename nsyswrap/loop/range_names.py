"""What the text of a range names: an operator of PyTorch, without the numbers of its call, or a part of the program."""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import tables

# What nsys adds to the name of an operator: numbers that differ from call to call.
_NUMBERS = re.compile(r",? ?\b(?:op_id|seq|sizes|input_op_ids) = .*$", re.DOTALL)
_OPERATOR = re.compile(r"^(?:aten|autograd|torch|prim|c10d?|nccl|_c10d_functional)::")


def plain_names(ranges: pd.DataFrame) -> list[str]:
    """Return the text of each category of the column ``text`` without the numbers of a call."""
    return [_NUMBERS.sub("", str(text)) or str(text) for text in ranges["text"].cat.categories]


def of_operators(ranges: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each range whether it is a call of an operator of PyTorch."""
    return tables.rows_where(ranges["text"], lambda text: _OPERATOR.match(text) or _NUMBERS.search(text))
