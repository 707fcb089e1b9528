"""Names of operators lose the numbers of their call; other texts stay."""

import pandas as pd
import pytest

from nsyswrap.loop.injected_ranges import of_operators, plain_names

TEXTS = {
    "aten::mm, op_id = 7, sizes = [[2, 2]]": ("aten::mm", True),
    "aten::detach, seq = 0, op_id = 2": ("aten::detach", True),
    "detach, op_id = 3": ("detach", True),
    "autograd::engine::evaluate_function: AddmmBackward0, seq = 4": (
        "autograd::engine::evaluate_function: AddmmBackward0",
        True,
    ),
    "layer 3, sequence": ("layer 3, sequence", False),
    "forward": ("forward", False),
    "": ("", False),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_name_has_no_numbers_of_a_call(text: str) -> None:
    ranges = pd.DataFrame({"text": pd.Categorical([text])})
    assert (plain_names(ranges)[0], bool(of_operators(ranges)[0])) == TEXTS[text]
