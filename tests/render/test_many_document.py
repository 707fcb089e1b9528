"""Each form of the totals is pure, complete and inert, also with hostile names, without GPU work and with nothing."""

import json
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hand_made import HOSTILE
from made_sums import made_sums

from nsyswrap.base.errors import UsageError
from nsyswrap.many.capture_sums import FindingSum, KernelSum
from nsyswrap.many.totals import ManyCaptures, totals_of
from nsyswrap.render import documents
from nsyswrap.render.escape import unbroken
from nsyswrap.render.many_document import verdict

FORMS = documents.KINDS["many"]


def render(form: str, many: ManyCaptures) -> str:
    """Return the totals in one form."""
    return documents.render("many", form, many)


def full() -> ManyCaptures:
    """Return ten captures, one of them slow, one repeated, and one that failed."""
    every = [
        made_sums(100 + number % 3, host="host-1" if number == 1 else "host-aa", day=f"2026-11-0{number}")
        for number in range(1, 10)
    ]
    rows = [*((f"c{number}", sums) for number, sums in enumerate(every)), ("slow", made_sums(180))]
    return totals_of([*rows, ("bad", "it is empty")], [("again", "c1")])


def hostile() -> ManyCaptures:
    """Return captures in which each text that a program or a user can choose is hostile."""
    one = made_sums(
        program=HOSTILE,
        arguments=HOSTILE,
        gpus=(HOSTILE,),
        host=HOSTILE,
        started_utc=HOSTILE,
        verdict=HOSTILE,
        idle={HOSTILE: made_sums().ledger["idle_ns"]},
        findings=(FindingSum(HOSTILE, "problem", 5, None),),
        kernels=(KernelSum(HOSTILE, 1, 5),),
    )
    return totals_of([(HOSTILE, one), (f"{HOSTILE} 2", HOSTILE)], [(HOSTILE, HOSTILE)])


def without_gpu() -> ManyCaptures:
    """Return one capture without GPU work."""
    none = dict.fromkeys(made_sums().ledger, 0)
    return totals_of([("a", made_sums(gpus=(), ledger=none, idle={}, findings=(), kernels=(), step_ns=None))])


MADE: dict[str, Callable[[], ManyCaptures]] = {
    "full": full,
    "hostile": hostile,
    "without GPU": without_gpu,
    "nothing": lambda: totals_of([]),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_many = pytest.mark.parametrize("many", [make() for make in MADE.values()], ids=MADE)


@every_form
@every_many
def test_the_same_totals_give_the_same_bytes(form: str, many: ManyCaptures) -> None:
    text = render(form, many)
    assert text == render(form, many)
    assert text.encode("utf-8")
    assert not {"\x1b", "\u202e", "\x00"} & set(text)


class Elements(HTMLParser):
    """Collects the elements, attributes and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one element."""
        self.tags.append(tag)
        self.attributes += attrs


def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


@every_many
def test_a_page_is_one_file_without_network_and_handlers(many: ManyCaptures) -> None:
    """Names become no elements; all links stay on the page, to an id that is there."""
    page = elements(render("html", many))
    assert not {"img", "iframe", "link rel=stylesheet", "object", "base"} & set(page.tags)
    assert page.tags.count("script") == 3
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"style", "src"}]
    ids = {value for name, value in page.attributes if name == "id"}
    targets = {value for name, value in page.attributes if name == "href"} - {"data:,"}
    assert {str(target)[1:] for target in targets} <= ids
    assert all(str(target).startswith("#") for target in targets)


def test_the_page_has_what_the_json_has() -> None:
    """The verdict, each finding, outlier, host, day and failed capture."""
    many = full()
    page, text, tree = render("html", many), render("text", many), json.loads(render("json", many))
    assert unbroken(verdict(many)) in page
    for words in ("data loader wait", "host-1", "slow", "gemm", "it is empty", "again is the same as c1"):
        assert words in page
        assert words in text
    assert [each["name"] for each in tree["outliers"]] == ["slow"]
    assert tree["outliers"][0]["part"] == "compute_ns"
    assert sum(tree["ledger"].values()) == tree["gpu_ns"] == sum(each["gpu_ns"] for each in tree["captures"])
    assert [each["worst"] for each in tree["findings"][:1]] == ["c0"]


def test_the_verdict_names_the_costliest_finding() -> None:
    words = verdict(full())
    assert words.startswith("10 captures hold 10.9 s of GPU time: 50.0 % compute, 50.0 % idle.")
    assert "The costliest finding is data loader wait: 50.0 % of all GPU time, in 10 of 10 captures." in words
    assert verdict(without_gpu()) == "1 capture holds no record of GPU work."


def test_a_form_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError):
        render("pdf", full())


def test_page_and_text_have_the_sign_of_multiplication_and_the_json_keeps_its_words() -> None:
    two = totals_of([("a", made_sums(gpus=("NVIDIA H200", "NVIDIA H200")))])
    assert json.loads(render("json", two))["captures"][0]["gpu"] == "2 x NVIDIA H200"
    for form in ("html", "text"):
        assert "2 × NVIDIA H200" in render(form, two)
        assert "2 x NVIDIA H200" not in render(form, two)


def test_the_text_gives_no_two_kernels_the_same_name() -> None:
    """Long names that begin and end alike show where they differ."""
    names = [f"cutlass::Kernel2<cutlass_80_simt_sgemm_{size}x128_8x4_nt_align1>" for size in (64, 128, 256)]
    many = totals_of([("a", made_sums(kernels=tuple(KernelSum(name, 1, 5) for name in names)))])
    shown = [line.split("  ")[1] for line in render("text", many).splitlines() if "cutlass" in line]
    assert len(shown) == len(set(shown)) == 3
    assert [sum(size in name for name in shown) for size in ("64", "128x128", "256")] == [1, 1, 1]
