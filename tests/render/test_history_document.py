"""The history as a page."""

import re
from typing import Any

from made_results import trend
from made_runs import IDENTITY, made_run

from nsyswrap.gate.trends import Trend, trend_of_runs
from nsyswrap.render import documents
from nsyswrap.render.document import Pictures
from nsyswrap.render.drawings import Shape
from nsyswrap.render.history_document import HistoryPage, document, sentence, verdict
from nsyswrap.runs.run import ListedProgram, Program, in_series

HEIGHT = 190


def page(*trends: Trend, **changes: Any) -> str:  # noqa: ANN401 - fields of a page
    whole = HistoryPage(trends, {}, (), sum(one.run_count for one in trends))
    return documents.render("history", "html", whole._replace(**changes))


def test_the_verdict_names_what_became_slower_and_faster() -> None:
    slower, faster = trend((10.0, 10.5)), trend((10.0, 9.0), Program("b.py", "", "", 0, 1, "", ""))
    assert verdict([faster, slower]) == (
        "train.py --epochs 1 is slower since 00000010ee at 00000000 (+5.0 % a step). "
        "b.py is faster since 00000010ee at 00000000 (-10.0 % a step)."
    )
    assert verdict([trend((10.0,))]) == "No program changed its step time with a commit."


def test_a_change_without_a_commit_is_no_news_of_the_program() -> None:
    found = trend((10.0, 10.5), commits=100)
    assert verdict([found]) == "No program changed its step time with a commit."
    assert "The commit is the same there, so look at the machine and the data." in sentence(found)


def test_each_sentence_fits_its_series() -> None:
    assert sentence(trend((10.0,))).startswith("A step takes 10.0 ms, and its level does not change. Unchanged runs")
    assert sentence(trend((10.0,), runs=2)) == "A step takes 10.0 ms. To find a change it takes at least 4 runs."
    assert sentence(trend_of_runs(IDENTITY, 0, [])) == "No run has measured steps."


def test_a_run_leads_to_its_report_or_to_its_row() -> None:
    found = trend((10.0,), runs=4)
    text = page(found, reports={found.runs[0].row.run_id: "reports/a%20b/report.html"})
    assert text.count('href="reports/a%20b/report.html"') == 2
    assert 'href="#program-1-run-2"' in text
    assert '<tr id="program-1-run-2"' in text


def test_a_page_without_programs_is_a_page() -> None:
    assert "No program has 4 runs" in page()


def test_one_run_has_no_chart() -> None:
    """It is in the list, and so is what it takes to show a change."""
    text = page(trend((10.0,), runs=1))
    assert "<figure" not in text
    assert '<tr id="program-1-run-1"' in text


def test_programs_have_different_names_in_the_contents() -> None:
    """They may differ only in the middle of their arguments."""
    programs = [
        Program("a/train.py", f"--model resnet --size {at} --data data/a/long/folder", "", 0, 1, "", "")
        for at in (1, 2)
    ]
    names = re.findall(r'<li><a href="#program-\d"><bdi>(.*?)</bdi>', page(*(trend((10.0,), one) for one in programs)))
    assert len(set(names)) == 2


def test_what_is_left_out_is_said() -> None:
    found = trend((10.0,))._replace(run_count=500)
    text = page(found, others=[ListedProgram(Program("old.py", "", "", 0, 1, "", ""), 7, "2026-01-01T00:00:00")])
    assert "The last 16 of 500 runs are read; --runs reads more." in text
    assert "old.py" in text


def chart(times_ms: list[float], commits: int = 4) -> dict[str, list[Shape]]:
    """Return the shapes of the chart of runs by their class; every four have a commit."""
    runs = [in_series(made_run(at, ms, f"{at // commits:040x}", at)) for at, ms in enumerate(times_ms)]
    whole = HistoryPage([trend_of_runs(IDENTITY, len(runs), runs)], {}, (), len(runs))
    (picture,) = next(one for one in document(whole).sections[0].blocks if isinstance(one, Pictures)).pictures
    found: dict[str, list[Shape]] = {}
    for one in picture.shapes:
        found.setdefault(one.attributes["class"], []).append(one)
    return found


def places(shapes: list[Shape], name: str) -> list[float]:
    """Return an attribute of each shape, in per cent or pixels."""
    return [float(one.attributes[name].rstrip("%")) for one in shapes]


def test_runs_are_in_order_and_a_longer_one_is_higher() -> None:
    runs = chart([10.0, 10.4, 10.2])["run"]
    assert places(runs, "cx") == [16.67, 50, 83.33]
    heights = places(runs, "cy")
    assert 0 < heights[1] < heights[2] < heights[0] < HEIGHT


def test_one_very_long_run_is_at_the_edge_and_counted() -> None:
    times = [10.0, 10.1, 9.9, 10.0, 50.0, 10.1, 10.0, 9.9]
    (above,) = chart(times)["run above"]
    assert above.attributes["cy"] == "0"
    runs = [in_series(made_run(at, ms, "", at)) for at, ms in enumerate(times)]
    assert "1 longer run at the upper edge." in page(trend_of_runs(IDENTITY, len(runs), runs))


def test_equal_runs_have_a_scale_and_lie_inside_it() -> None:
    found = chart([10.0] * 6)
    assert {*places(found["run"], "cy")} == {*places(found["level"], "y1")}
    assert 0 < places(found["level"], "y1")[0] < HEIGHT


def test_commits_and_changes_have_their_places() -> None:
    found = chart([10.0, 10.1, 9.9, 10.0] * 3 + [12.0, 12.1, 11.9, 12.0] * 3)
    assert places(found["middle"], "x1") == [16.67, 33.33, 50, 66.67, 83.33]
    assert places(found["change"], "x1") == [50]
    assert [one.words for one in found["word"]] == ["1"]
    assert list(zip(places(found["level"], "x1"), places(found["level"], "x2"), strict=True)) == [(0, 50), (50, 100)]
