"""The four forms of a comparison: pure, inert, narrow and small, with the same content."""

import html
import inspect
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_comparisons import ALL, full, hostile, unlike
from paired_reports import MS

from nsyswrap.compare import AmountChange, ChangeTable, Outcome
from nsyswrap.errors import UsageError
from nsyswrap.render.comparison import FORMS, drawings, json_form, render, summary_model, text_form
from nsyswrap.render.markdown_writer import MOST_BYTES

SNAPSHOTS = Path(__file__).parents[2] / "snapshots"
FILES = {"text": "comparison.txt", "markdown": "comparison.md"}
every_form = pytest.mark.parametrize("form", FORMS)


every_pair = pytest.mark.parametrize("made", ALL.values(), ids=ALL)


@pytest.mark.parametrize(("form", "name"), FILES.items())
def test_a_comparison_reads_as_it_did(form: str, name: str) -> None:
    """The text is that of the reviewed file; NSYSWRAP_WRITE_SNAPSHOTS=1 writes a new one."""
    shown = FORMS[form](full()).encode("utf-8")
    path = SNAPSHOTS / name
    if os.environ.get("NSYSWRAP_WRITE_SNAPSHOTS"):
        path.write_bytes(shown)
    assert path.read_bytes() == shown


@every_form
@every_pair
def test_the_same_comparison_gives_the_same_bytes(form: str, made: object) -> None:
    assert callable(made)
    first, second = render(form, made()), render(form, inspect.unwrap(made)())
    assert first == second
    assert first.endswith("\n")


@every_form
def test_the_verdict_is_in_every_form(form: str) -> None:
    """White space and markup may differ."""
    shown = html.unescape(re.sub(r"\s+", " ", render(form, full())))
    assert " ".join(full().verdict.split()) in shown


@every_form
def test_no_hostile_name_gets_through(form: str) -> None:
    """A name adds no markup, no escape sequence, no change of text direction and no line break."""
    shown = render(form, hostile())
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert form in ("json", "text") or "</script>" not in shown
    assert form in ("json", "text") or "<img" not in shown


class Tags(HTMLParser):
    """Collects the elements of a page, and checks that they nest."""

    void = frozenset({"meta", "link", "br", "hr"})
    shapes = frozenset({"rect", "path", "circle", "line"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element, and check that it has no event handler."""
        assert not any(name.startswith("on") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Collect an element that closes itself."""
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag


@every_pair
def test_the_page_is_whole_and_inert(made: object) -> None:
    """Elements nest, there is no script, and the policy of the page forbids the network."""
    assert callable(made)
    page = render("html", made())
    tags = Tags(page)
    assert tags.open == []
    assert not {"script", "img", "iframe", "object"} & set(tags.seen)
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []


@every_pair
def test_text_fits_eighty_columns_without_colour(made: object) -> None:
    assert callable(made)
    shown = text_form.render(made())
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert not any(line != line.rstrip() for line in shown.splitlines())


def test_colour_adds_nothing_but_colour() -> None:
    coloured = text_form.render(full(), colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == text_form.render(full()).splitlines()


@pytest.mark.parametrize("width", [60, 100, 120])
def test_text_fits_the_width_it_is_given(width: int) -> None:
    assert max(map(len, text_form.render(full(), width=width).splitlines())) <= width


@every_pair
def test_markdown_fits_a_comment(made: object) -> None:
    assert callable(made)
    assert len(render("markdown", made()).encode()) <= MOST_BYTES


def test_tables_of_markdown_have_as_many_cells_in_each_row() -> None:
    blocks = [block for block in render("markdown", full()).split("\n\n") if block.startswith("|")]
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_json_holds_everything_unrounded() -> None:
    found = json.loads(render("json", full()))
    assert found["schema"] == "nsyswrap.comparison/2"
    assert found["outcome"] == "faster"
    estimate = full().estimates[0]
    assert found["step_time"][0]["low_share"] == estimate.low
    assert found["findings"]["smaller"][0]["rule"] == "idle/data_wait"
    rows = found["tables"]["kernels"]["rows"]
    assert {row["name"] for row in rows if row["base"] is None} == {"only_with_8"}
    assert {row["name"] for row in rows if row["new"] is None} == {"only_with_1"}
    assert found["issues"][0]["kind"] == "command"


def test_a_row_of_json_is_one_line() -> None:
    """Two JSON files can then be compared line by line."""
    text = render("json", full())
    assert sum('"base_count"' in line for line in text.splitlines()) == sum(
        len(table["rows"]) for table in json_form.tree(full())["tables"].values()
    )


def test_there_are_four_forms_and_no_fifth() -> None:
    with pytest.raises(UsageError, match="there is no form 'csv'"):
        render("csv", full())


def test_the_text_says_whether_the_two_can_be_compared() -> None:
    assert "COMPARABLE  yes, with these notes" in text_form.render(full())
    shown = text_form.render(unlike())
    assert "COMPARABLE  no" in shown
    assert "  NO    The GPUs differ" in shown


def test_the_text_leaves_out_what_hardly_moved_and_names_it() -> None:
    shown = text_form.render(full())
    assert "Changed by less than 0.5 % of a step: Kernel families." in shown
    assert "KERNEL FAMILIES" not in shown
    assert "only_with_8" in shown


def test_what_is_new_or_gone_is_marked_on_the_page() -> None:
    page = render("html", full())
    assert re.search(r'only_with_8</bdi> <span class="change-tag">new<', page)
    assert re.search(r'only_with_1</bdi> <span class="change-tag">gone<', page)


def test_changed_parts_are_the_ledger_with_idle_time_by_rule() -> None:
    parts = summary_model.moved(full())
    assert parts is not None
    assert [one.name for one in parts.changes] == ["idle: data loader wait", "idle: launch-bound kernels"]


def test_amounts_that_are_not_there_are_dashes() -> None:
    table = ChangeTable("kernels", "Kernels", "a step", "ns", (AmountChange("x", None, 2e6, None, 2.25),))
    line = summary_model.line_of(table.changes[0], table)
    assert (line.base, line.new, line.delta, line.counts) == ("–", "2.00 ms", "+2.00 ms", "– → 2.2")  # noqa: RUF001


def test_a_cut_table_says_what_it_leaves_out() -> None:
    changes = (*(AmountChange(f"k{at}", float(at), 0.0) for at in range(6, 0, -1)), AmountChange("same", 1.0, 1.0))
    shown = summary_model.lines_of(ChangeTable("kernels", "Kernels", "a step", "ns", changes), 4)
    assert [line.name for line in shown.lines] == ["k6", "k5", "k4", "k3"]
    assert shown.cut == "2 more changed, 1 did not change"


def test_bars_stand_about_the_middle() -> None:
    left, right, none = drawings.bars([-2.0, 1.0, 0.0], 2.0)
    assert (left.x, left.width, left.less) == ("0", "50", True)
    assert (right.x, right.width, right.less) == ("50", "25", False)
    assert none.width == "0"


def test_a_difference_beyond_the_scale_fills_its_half() -> None:
    assert drawings.bars([9.0], 3.0)[0].width == "50"


def test_both_ledgers_have_one_scale() -> None:
    """A step of half the length has a bar of half the length."""
    table = ChangeTable(
        "ledger", "Ledger", "a step", "ns", (AmountChange("compute_ns", 1e6, 1e6), AmountChange("idle_ns", 3e6, 1e6))
    )
    drawn = drawings.ledger(table)
    assert drawn is not None
    widths = [sum(float(one.width) for one in bar) for bar in (drawn.base, drawn.new)]
    assert widths == pytest.approx([100, 50], abs=0.01)
    assert (drawn.base_whole, drawn.new_whole) == ("4.00 ms", "2.00 ms")
    assert [one.key for one in drawn.legend] == ["compute", "idle"]
    assert drawings.ledger(None) is None


def test_idle_time_is_split_into_its_accounts_with_the_hues_of_the_report() -> None:
    """Accounts replace the part of all idle time; more than six are merged, and a family has a lighter second fill."""
    table = ChangeTable(
        "ledger", "", "a step", "ns", (AmountChange("compute_ns", 1e6, 1e6), AmountChange("idle_ns", 3e6, 1e6))
    )
    rules = [
        AmountChange("idle/data_wait", 2e6, 0.5e6),
        AmountChange("idle/cpu", 0.6e6, 0.3e6),
        AmountChange("idle/lock", 0.4e6, 0.2e6),
    ]
    drawn = drawings.ledger(table, ChangeTable("idle", "", "a step", "ns", tuple(rules)))
    assert drawn is not None
    assert [one.key for one in drawn.legend] == ["compute", "idle-data", "idle-cpu", "idle-cpu-2"]
    assert [one.fill for one in drawn.legend[1:]] == ["url(#idle-data)", "url(#idle-cpu)", "url(#idle-cpu-2)"]
    assert (drawn.base_whole, drawn.new_whole) == ("4.00 ms", "2.00 ms")
    many = [*rules, *(AmountChange(f"launches/{at}", 1e3, 0.0) for at in range(6))]
    merged = drawings.ledger(table, ChangeTable("idle", "", "a step", "ns", tuple(many)))
    assert merged is not None
    assert merged.legend[-1].label == "idle: other"
    assert merged.base_whole == "4.01 ms"


def test_intervals_have_one_scale_that_holds_no_change_and_the_margin() -> None:
    found = drawings.intervals(full().estimates, 0.03)
    for one in found:
        low, at, zero = float(one.low), float(one.at), float(one.zero)
        assert 0 < low < at < low + float(one.width) < zero < 100
        assert float(one.margin_low) < zero < float(one.margin_low) + float(one.margin_width)
    assert len({one.zero for one in found}) == 1


def test_curves_climb_from_no_step_to_all() -> None:
    base, new = (np.array([1.0, 2.0, 3.0, 4.0]) * MS * factor for factor in (1, 2))
    found = drawings.curves(base, new)
    assert found is not None
    heights = [float(one) for one in re.findall(r"V([\d.]+)", found.base)]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 0
    assert drawings.curves(base[:1], new) is None


def test_curves_of_many_steps_are_short() -> None:
    many = np.random.default_rng(1).normal(5e6, 1e5, 50_000)
    found = drawings.curves(many, many)
    assert found is not None
    assert len(found.base) < 5_000
    assert found.beyond > 0


def test_each_outcome_has_its_class_on_the_page() -> None:
    """The page shows the outcome as a word and in colour, never in colour alone."""
    page = render("html", full())
    assert f'<span class="outcome faster">{Outcome.FASTER.value}</span>' in page
    assert '<span class="outcome cannot">cannot tell</span>' in render("html", unlike())
