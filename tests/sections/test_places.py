"""Findings on kernels say in which module and from which line the program launches them."""

from dataclasses import replace
from pathlib import Path

import hand_made
import pytest
from analysis_fixtures import HasSection
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.render import render, report_cards
from nsyswrap.sections import idle
from nsyswrap.sections.compute import section as compute
from nsyswrap.sections.places import Place, lines_of
from nsyswrap.sections.tensor_cores import section as tensor_cores

SINGLE = tensor(1024, 1024, dtype="float32")
SMALL = tensor(64, 64)
SHOWN = " % of the time (X-ray step)"


@pytest.mark.parametrize(
    ("of", "rule", "made", "kernel", "us", "times"),
    [
        (tensor_cores, "tensor_cores/not_used", SINGLE, "ampere_sgemm_128x64_nn", 500, 1),
        (compute, "compute/small_matrices", SMALL, NVJET.replace("128x256_64x4", "64x8_64x16"), 5, 40),
    ],
)
def test_a_finding_on_kernels_names_module_and_line(  # noqa: PLR0913, PLR0917 - a program
    of: HasSection, rule: str, made: dict[str, object], kernel: str, us: int, times: int, tmp_path: Path
) -> None:
    product = Made("mm", [made, made], [made], us, kernel, "layer.linear", 9)
    other = Made("relu", [made], [made], 50, module="layer", line=10)
    found = findings([*[product] * times, other], tmp_path, of)
    assert found[rule].line == "model.py:9 in module layer.linear, 100.0 % of the time"
    assert found[rule].module == "layer.linear"
    assert not any("model.py:10" in line for line in found[rule].evidence)


def test_a_finding_on_idle_time_names_the_line_whose_launches_end_it(tmp_path: Path) -> None:
    """No stack was sampled; the X-ray step knows the line of each launch."""
    first = Made("mm", [SMALL, SMALL], [SMALL], 5, module="layer.linear", line=9)
    found = findings([first, Made("relu", [SMALL], [SMALL], 5, line=10)], tmp_path, idle)
    lines = [each.line for each in found.values() if each.line]
    assert lines
    assert all("model.py:9 in module layer.linear, " in each and each.endswith(SHOWN) for each in lines)


@pytest.mark.parametrize(
    ("places", "whole", "lines"),
    [
        ({}, 10, ()),
        ({Place("layer", ""): 10}, 10, ()),
        ({Place("", "a.py:1"): 5}, 10, ("launched at: a.py:1, 50.0 % of the time",)),
        (
            {
                Place("b", "a.py:1"): 3_000,
                Place("c", "a.py:1"): 4_000,
                Place("d", "a.py:2"): 2_000,
                Place("", "z.py:1"): 9,
            },
            10_000,
            (
                "launched at: a.py:1 in module c and 1 more, 70.0 % of the time",
                "2.00 µs at a.py:2 in module d",
                "9 ns at z.py:1",
            ),
        ),
    ],
)
def test_the_line_with_most_time_comes_first(places: dict[Place, int], whole: int, lines: tuple[str, ...]) -> None:
    assert lines_of(places, whole) == lines


@pytest.mark.parametrize(
    ("evidence", "line", "module"),
    [
        (("1 ms a step",), None, None),
        (("most samples: train.py:4 in step, 3 of 4",), "train.py:4 in step, 3 of 4", None),
        (("launched at: a.py:1 in module c.d and 1,000 more, 70.0 % of the time",), None, "c.d"),
        (("idle before launches at: a.py:1 in module c.d, 7.0 % of the time (X-ray step)",), None, "c.d"),
        (("most samples: a.py:4 in f, 3 of 4", "launched at: b.py:1 in module c, 1 % of the time"), None, "c"),
    ],
)
def test_a_finding_knows_line_and_module_by_its_evidence(
    evidence: tuple[str, ...], line: str | None, module: str | None
) -> None:
    found = replace(hand_made.full_report().findings[0], evidence=evidence)
    assert found.line == (line or (evidence[0].partition(": ")[2] or None))
    assert found.module == module


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_each_form_says_the_line(form: str) -> None:
    full = hand_made.full_report()
    evidence = ("launched at: train.py:3 in module head, 90.0 % of the time",)
    finding = replace(full.findings[0], evidence=evidence)
    assert "train.py" in render(form, replace(full, findings=(finding,), verdict_rule=finding.rule))


def test_a_finding_of_the_page_says_it_once() -> None:
    evidence = ("1 ms a step", "launched at: train.py:3, 90.0 % of the time")
    full = hand_made.full_report()
    (view,) = report_cards.cards(replace(full, findings=(replace(full.findings[0], evidence=evidence),)))
    assert view.place == "Launched at: train.py:3, 90.0 % of the time"
    assert [line.text for line in view.evidence] == ["1 ms a step"]


def test_three_of_five_places_are_listed() -> None:
    assert len(lines_of({Place("", f"a.py:{at}"): 9_000 - at for at in range(5)}, 50_000)) == 3
