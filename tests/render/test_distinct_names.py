"""Short names of different texts are different."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import shorten

WIDTH = 52
LONG = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, at::native::{}, float>(T1, T2)"


def test_a_name_without_a_double_is_shortened_as_before() -> None:
    names = ["short", LONG.format("AddFunctor"), "other_kernel_name" * 9]
    assert shorten_all(names, WIDTH) == [shorten(name, WIDTH) for name in names]


def test_names_that_differ_in_the_middle_show_where() -> None:
    names = [LONG.format(f"{kind}Functor<{'x' * 40}>") for kind in ("Add", "Multiply", "Divide")]
    assert len({shorten(name, WIDTH) for name in names}) == 1
    found = shorten_all(names, WIDTH)
    assert [kind in name for kind, name in zip(("Add", "Multiply", "Divide"), found, strict=True)] == [True] * 3


def test_the_same_name_twice_stays_the_same() -> None:
    names = [LONG.format("A" * 40), LONG.format("A" * 40)]
    assert len(set(shorten_all(names, WIDTH))) == 1


@given(
    st.lists(st.text("ab<>, ()", max_size=40).map(lambda part: f"k{part * 3}"), max_size=12), st.sampled_from([24, 52])
)
def test_different_names_are_different_and_fit(names: list[str], width: int) -> None:
    found = shorten_all(names, width)
    assert len(set(zip(names, found, strict=True))) == len(set(names))
    assert len(set(found)) == len(set(names))
    assert all(len(name) <= width for name in found)


@pytest.mark.parametrize("count", [2, 30])
def test_many_names_that_differ_only_far_behind_stay_different(count: int) -> None:
    names = ["k" * 400 + f"{at:03}" + "z" * 400 for at in range(count)]
    found = shorten_all(names, WIDTH)
    assert len(set(found)) == count
