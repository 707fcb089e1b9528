"""`nsyswrap compare` as a user runs it: inputs, outputs and exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paired_reports as pairs
import pytest
from click.testing import CliRunner, Result

from nsyswrap.cli import cli
from nsyswrap.cli.compare import ACCEPTABLE, names_of
from nsyswrap.cli.output import form_of
from nsyswrap.compare import ACCEPTABLE as ACCEPTED_KINDS
from nsyswrap.compare import MARGIN
from nsyswrap.model import Report
from nsyswrap.render import json_report
from nsyswrap.render.documents import FORMS

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"
ONE, EIGHT = SAMPLES / "mnist-1-worker", SAMPLES / "mnist-8-workers"
NAMES = ["a b.json", "a\nb.json", "ünïcödé.json", "quote'\".json", "<script>.json", "-o.json"]
ALL_AT_ONCE = "-" + "".join(name.removesuffix(".json").removeprefix("-") for name in NAMES) + ".json"


def run(*arguments: object) -> Result:
    """Run compare in this process; an unexpected exception fails the test."""
    result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def stored(folder: Path, name: str, report: Report) -> Path:
    """Write a report.json."""
    path = folder / name
    path.write_text(json_report.render(report), encoding="utf-8")
    return path


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Return a report.json with steps of 4 ms."""
    return stored(tmp_path, "slow.json", pairs.report(pairs.lengths(4.0)))


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    """Return a report.json with steps of 2 ms."""
    whole = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), started_utc="later")
    return stored(tmp_path, "fast.json", whole)


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Return another report.json with steps of 4 ms."""
    whole = pairs.with_session(pairs.report(pairs.lengths(4.0, seed=2)), started_utc="later")
    return stored(tmp_path, "alike.json", whole)


def in_json(*arguments: object) -> dict[str, Any]:
    """Return the JSON output of compare."""
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    return found


def test_two_folders_of_profile_are_compared() -> None:
    """For the samples the exit code is 0, the verdict is on stdout, and stderr is empty."""
    result = run(ONE, EIGHT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("nsyswrap compare  mnist-1-worker → mnist-8-workers\n")
    assert "\nFaster: the median step takes 2.46 ms instead of 5.68 ms" in result.stdout


def test_a_folder_and_its_report_json_give_the_same_verdict() -> None:
    for one, other in ((ONE, EIGHT / "report.json"), (ONE / "report.json", EIGHT)):
        assert in_json(one, other)["verdict"] == in_json(ONE, EIGHT)["verdict"]


def test_the_page_draws_steps_of_folders_that_hold_their_export(
    captures: Callable[[str], Path], tmp_path: Path
) -> None:
    """Numbers come from report.json; without the export, the page says what is missing."""
    folder, page = tmp_path / "run", tmp_path / "page.html"
    folder.mkdir()
    export = captures("cnn_amp")
    assert CliRunner().invoke(cli, ["analyze", str(export), "-o", str(folder / "report.json")]).exit_code == 0
    run(folder, folder, "-o", page)
    assert "The typical steps are not drawn: base and new have no timeline" in page.read_text(encoding="utf-8")
    (folder / "capture.sqlite").symlink_to(export)
    run(folder, folder, "-o", page, "--force")
    assert page.read_text(encoding="utf-8").count('<svg class="st"') == 2


def test_a_capture_and_its_report_json_do_not_differ(captures: Callable[[str], Path], tmp_path: Path) -> None:
    """Analyze writes the report.json, and compare reads the export itself."""
    export, report = captures("cnn_amp"), tmp_path / "report.json"
    assert CliRunner().invoke(cli, ["analyze", str(export), "--format", "json", "-o", str(report)]).exit_code == 0
    found = in_json(export, report)
    assert found["outcome"] == "no difference"
    assert [row["delta"] for row in found["tables"]["kernels"]["rows"]] == [0.0] * len(
        found["tables"]["kernels"]["rows"]
    )


def test_steps_and_window_can_be_given_for_captures(captures: Callable[[str], Path]) -> None:
    found = in_json(captures("cnn_amp"), captures("cnn_amp"), "--step-range", "^forward", "--window", "all")
    assert found["base"]["window"]["source"] == "operations"
    assert found["base"]["step_count"] > 50


def test_read_options_with_a_report_json_are_a_usage_error(slow: Path, fast: Path) -> None:
    """The message names the option, and the hint says which file to give."""
    for option in (("--window", "all"), ("--step-range", "x"), ("--phase", "data=x")):
        result = run(slow, fast, *option)
        assert result.exit_code == 2
        assert f"slow.json is a finished report: {option[0]} cannot change its numbers" in result.stderr


def test_a_window_option_reads_the_capture_of_a_folder(tmp_path: Path, captures: Callable[[str], Path]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "capture.sqlite").symlink_to(captures("cuda_graph_graph_trace"))
    assert in_json(folder, folder, "--window", "all")["base"]["window"]["source"] == "operations"


@pytest.mark.parametrize(
    ("base", "new", "percent", "code"),
    [
        ("slow", "fast", None, 0),
        ("fast", "slow", None, 0),
        ("slow", "fast", 0, 0),
        ("fast", "slow", 3, 1),
        ("fast", "slow", 500, 0),
        ("slow", "alike", 0, 0),
    ],
)
def test_the_gate_fails_if_new_is_slower_by_more(
    base: str, new: str, percent: float | None, code: int, request: pytest.FixtureRequest
) -> None:
    paths = [request.getfixturevalue(name) for name in (base, new)]
    gate = [] if percent is None else ["--fail-on-regression", percent]
    result = run(*paths, *gate)
    assert result.exit_code == code
    assert result.stdout.startswith("nsyswrap compare")
    if code:
        assert "nsyswrap: new is slower by 99.1 %, more than the 3 % of --fail-on-regression" in result.stderr


@pytest.mark.parametrize("gate", [[], ["--fail-on-regression", "3"]])
def test_an_uncertain_comparison_exits_with_3(gate: list[str], slow: Path, tmp_path: Path) -> None:
    """It does so with and without a gate, and the result is still written."""
    short = stored(tmp_path, "short.json", pairs.report(pairs.lengths(4.0, 5)))
    result = run(slow, short, *gate)
    assert result.exit_code == 3
    assert "Cannot tell: short.json has 5 measured steps; a comparison needs" in result.stdout
    assert result.stderr == (
        "nsyswrap: it is uncertain whether a step became faster or slower\nhint: profile more steps\n"
    )


def test_an_accepted_difference_is_compared(slow: Path, tmp_path: Path) -> None:
    report = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2)), traces=("Cuda",))
    other = stored(tmp_path, "other.json", report)
    assert run(slow, other).exit_code == 3
    result = run(slow, other, "--accept", "traces")
    assert result.exit_code == 0
    assert "\nFaster" in result.stdout


def test_the_margin_is_in_per_cent(slow: Path, fast: Path, tmp_path: Path) -> None:
    """Steps that are 2.5 % shorter, with little noise, count as faster at a margin of 1 % and not at 3 %."""
    measured = [
        stored(tmp_path, f"{ms}.json", pairs.report(pairs.lengths(ms, spread=0.002), busy=True)) for ms in (4.0, 3.9)
    ]
    assert in_json(*measured)["outcome"] == "no difference"
    assert in_json(*measured, "--margin", "1")["outcome"] == "faster"
    assert in_json(slow, fast)["margin_share"] == MARGIN
    for margin in ("-1", "100", "nan"):
        result = run(slow, fast, "--margin", margin)
        assert result.exit_code == 2
        assert "is out of range" in result.stderr


def test_the_accept_option_lists_everything_that_can_be_accepted() -> None:
    assert set(ACCEPTABLE) == {one.value for one in ACCEPTED_KINDS}


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("c.html", "<!DOCTYPE html>"),
        ("c.json", "{"),
        ("c.md", "### nsyswrap"),
        ("c.txt", "nsyswrap"),
        ("c", "nsyswrap"),
    ],
)
def test_the_suffix_of_the_file_sets_the_format(name: str, start: str, slow: Path, fast: Path, tmp_path: Path) -> None:
    """Stdout stays empty."""
    result = run(slow, fast, "-o", tmp_path / name)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / name).read_text(encoding="utf-8").lstrip().startswith(start)


def test_the_format_option_takes_precedence_over_the_suffix() -> None:
    assert form_of("json", Path("x.html"), FORMS) == "json"
    assert form_of(None, Path("X.HTML"), FORMS) == "html"
    assert form_of(None, None, FORMS) == "text"


def test_an_existing_file_is_kept_without_force(slow: Path, fast: Path, tmp_path: Path) -> None:
    target = tmp_path / "there.md"
    target.write_text("mine")
    assert run(slow, fast, "-o", target).exit_code == 2
    assert target.read_text() == "mine"
    assert run(slow, fast, "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut short or not JSON"),
        (b'{"schema": "nsyswrap.report/1", "cap', "cut short or not JSON"),
        (b'{"schema": "other/1"}', "is not a report of nsyswrap"),
        (b'{"schema": "nsyswrap.report/9"}', "is a report of version '9'"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_a_file_that_is_not_a_report_is_an_error_of_two_lines(
    content: bytes, words: str, slow: Path, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    for arguments in ((path, slow), (slow, path)):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert words in result.stderr
        assert result.stderr.splitlines()[-1].startswith("hint: ")


def test_a_missing_file_is_an_error(slow: Path, tmp_path: Path) -> None:
    for missing in (tmp_path / "no.json", tmp_path / "no.sqlite", tmp_path):
        result = run(slow, missing)
        assert result.exit_code == 1
        assert result.stderr.startswith("nsyswrap: ")


@pytest.mark.parametrize(
    ("form", "name"),
    [*(("text", name) for name in NAMES), *((form, ALL_AT_ONCE) for form in ("json", "html", "markdown"))],
)
def test_a_report_may_have_any_name(form: str, name: str, slow: Path, fast: Path, tmp_path: Path) -> None:
    path = fast.rename(tmp_path / name)
    result = run("--format", form, "--", slow, path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "<script>.json" not in result.stdout or form in ("json", "text")


@pytest.mark.parametrize(
    ("base", "new", "names"),
    [
        ("/a/b/x.json", "/a/b/y.json", ("x.json", "y.json")),
        ("/home/ann/one/report.json", "/home/ann/two/report.json", ("one/report.json", "two/report.json")),
        ("/home/ann/one/r/report.json", "/home/ann/two/r/report.json", ("one/r/report.json", "two/r/report.json")),
        ("/a/x.json", "/a/x.json", ("x.json (base)", "x.json (new)")),
    ],
)
def test_names_are_the_shortest_that_differ(base: str, new: str, names: tuple[str, str]) -> None:
    """Folders above are left out, because a comparison may be shown to others."""
    assert names_of(Path(base), Path(new)) == names


def test_text_is_plain_outside_a_terminal(slow: Path, fast: Path) -> None:
    shown = run(slow, fast).stdout
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_help_names_the_main_options() -> None:
    text = run("--help").stdout
    for word in ("--fail-on-regression", "--accept", "--margin", "exit", "report.json"):
        assert word in text


def test_several_runs_of_a_side_give_run_to_run_intervals(tmp_path: Path) -> None:
    """Every output format says that the interval comes from run-to-run variation."""
    old, new = (
        [
            stored(
                tmp_path,
                f"{name}{at}.json",
                pairs.with_session(pairs.report(pairs.lengths(median + at / 10, seed=at)), started_utc=f"{name}{at}"),
            )
            for at in range(3)
        ]
        for name, median in (("old", 4.0), ("new", 2.0))
    )
    arguments = [old[0], new[0], "--base-run", old[1], "--base-run", old[2], "--new-run", new[1], "--new-run", new[2]]
    found = in_json(*arguments)
    assert found["outcome"] == "faster"
    assert [found[side]["run_count"] for side in ("base", "new")] == [3, 3]
    assert found["step_time"][0]["base_ns"] == pytest.approx(4.1e6, rel=0.02)
    assert found["step_time"][0]["drift_share"] == 0
    text = run(*arguments).output
    assert "3 and 3 runs" in text
    assert "3 runs, the median one: " in " ".join(text.split())
    for form in ("markdown", "html"):
        assert "from the differences between runs" in run(*arguments, "--format", form).output
