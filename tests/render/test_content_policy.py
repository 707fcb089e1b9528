"""The policy lists only the hashes of the page's own contents."""

import re

import pytest

from nsyswrap.render.page_files import digest, policy


def test_a_digest_is_the_one_that_browsers_compute() -> None:
    """The test uses the example of the standard, ``alert('Hello, world.');``."""
    assert digest("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_all_is_forbidden_but_what_is_named() -> None:
    rules = policy(("b {}",), ("f()", "g()")).split("; ")
    assert rules[0] == "default-src 'none'"
    assert rules[1] == f"script-src {digest('f()')} {digest('g()')}"
    assert rules[2] == f"style-src {digest('b {}')}"
    assert not re.search("unsafe|http|\\*", "; ".join(rules))


@pytest.mark.parametrize("kind", ["script-src", "style-src"])
def test_what_the_page_does_not_have_is_forbidden(kind: str) -> None:
    assert f"{kind} 'none'" in policy((), ())
