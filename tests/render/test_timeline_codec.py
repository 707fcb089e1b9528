"""Arrays packed for a page are unpacked unchanged, and the packed text contains no markup."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_arrays import inflated, numbers

from nsyswrap.render.timeline_codec import LARGEST, Packer

whole_numbers = st.lists(st.integers(-LARGEST // 2, LARGEST // 2), max_size=40)


@given(whole_numbers, st.booleans())
def test_numbers_come_out_as_they_went_in(values: list[int], differences: bool) -> None:  # noqa: FBT001
    packer = Packer()
    array = np.array(values, np.int64)
    head, arrays = inflated(packer.text({"it": packer.add(array, differences=differences)}))
    assert numbers(arrays, head["it"]) == values


@given(whole_numbers, whole_numbers)
def test_arrays_keep_their_places(one: list[int], other: list[int]) -> None:
    packer = Packer()
    packed = {name: packer.add(np.array(values, np.int64)) for name, values in (("one", one), ("other", other))}
    head, arrays = inflated(packer.text(packed))
    assert [numbers(arrays, each) for each in head.values()] == [one, other]


def test_small_numbers_take_one_byte() -> None:
    assert Packer().add(np.array([0, 255]))["w"] == 1
    assert Packer().add(np.array([0, 256]))["w"] == 2
    assert Packer().add(np.array([-128, 127]))["w"] == 1
    assert Packer().add(np.array([10**15, 10**15 + 9]), differences=True)["w"] == 7


def test_times_in_order_are_shorter_as_differences() -> None:
    times = np.cumsum(np.full(1000, 3)) + 10**12
    plain, short = Packer(), Packer()
    assert len(short.text(short.add(times, differences=True))) < len(plain.text(plain.add(times))) / 2


def test_numbers_beyond_53_bits_are_refused() -> None:
    """A float of 64 bits holds whole numbers exactly only up to 53 bits."""
    with pytest.raises(ValueError, match="53 bits"):
        Packer().add(np.array([1 << 53]))


@given(st.text(max_size=30))
def test_the_text_is_letters_alone(name: str) -> None:
    """This holds for any names of kernels."""
    text = Packer().text({"name": name, "hostile": "</script><!--"})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", text)


def test_texts_come_out_as_they_went_in() -> None:
    packer = Packer()
    hostile = "</script>\u202e\u2028\x00\U0001f600"
    assert inflated(packer.text({"name": hostile}))[0] == {"name": hostile}
