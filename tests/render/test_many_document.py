"""The content of the totals in their forms."""

import json

from made_results import captures, captures_without_gpu
from made_sums import made_sums

from nsyswrap.many.capture_sums import KernelSum
from nsyswrap.many.totals import ManyCaptures, totals_of
from nsyswrap.render import documents
from nsyswrap.render.escape import unbroken
from nsyswrap.render.many_document import verdict


def render(form: str, many: ManyCaptures) -> str:
    return documents.render("many", form, many)


def test_the_page_has_what_the_json_has() -> None:
    """The verdict, each finding, outlier, host, day and failed capture."""
    many = captures()
    page, text, tree = render("html", many), render("text", many), json.loads(render("json", many))
    assert unbroken(verdict(many)) in page
    for words in ("data loader wait", "host-1", "by at least 3 %;", "gemm", "it is empty", "again is the same as c1"):
        assert words in page
        assert words in " ".join(text.split())
    assert [each["name"] for each in tree["outliers"]] == ["slow"]
    assert tree["outliers"][0]["part"] == "compute_ns"
    assert sum(tree["ledger"].values()) == tree["gpu_ns"] == sum(each["gpu_ns"] for each in tree["captures"])
    assert [each["worst"] for each in tree["findings"][:1]] == ["c0"]


def test_the_verdict_names_the_costliest_finding() -> None:
    words = verdict(captures())
    assert words.startswith("10 captures hold 10.9 s of GPU time: 50.0 % compute, 50.0 % idle.")
    assert "The costliest finding is data loader wait: 50.0 % of all GPU time, in 10 of 10 captures." in words
    assert verdict(captures_without_gpu()) == "1 capture holds no record of GPU work."


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
