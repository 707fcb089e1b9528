"""`nsyswrap compare` as a user runs it: inputs, outputs and exit codes."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import commands
import paired_reports as pairs
import pytest

from nsyswrap.cli.compare import ACCEPTABLE, names_of
from nsyswrap.compare.comparison import ACCEPTABLE as ACCEPTED_KINDS
from nsyswrap.model import Report
from nsyswrap.render import json_report

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"
ONE, EIGHT = SAMPLES / "mnist-1-worker", SAMPLES / "mnist-8-workers"


run, in_json = partial(commands.run, "compare"), partial(commands.in_json, "compare")


def stored(folder: Path, name: str, report: Report) -> Path:
    """Write a report.json."""
    path = folder / name
    path.write_text(json_report.render(report), encoding="utf-8")
    return path


@cache
def loop(median_ms: float, seed: int, spread: float) -> Report:
    """Return a report of steps in which kernels always run, so that one run of each side is enough."""
    whole = pairs.report(pairs.lengths(median_ms, seed=seed, spread=spread), busy=True)
    return pairs.with_session(whole, started_utc="later") if seed > 1 else whole


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Return a report.json with steps of 4 ms."""
    return stored(tmp_path, "slow.json", loop(4.0, 1, 0.003))


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    """Return a report.json with steps of 2 ms."""
    return stored(tmp_path, "fast.json", loop(2.0, 2, 0.003))


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Return another report.json with steps of 4 ms."""
    return stored(tmp_path, "alike.json", loop(4.0, 2, 0.001))


def test_two_folders_of_profile_are_compared() -> None:
    """The verdict is on stdout; one run of each side of a loop that the CPU paces has none."""
    result = run(ONE, EIGHT)
    assert result.exit_code == 3
    assert result.stdout.startswith("nsyswrap compare  mnist-1-worker → mnist-8-workers\n")
    assert "median step 5.68 ms in base and 2.46 ms in new" in " ".join(result.stdout.split())


def test_the_page_draws_steps_of_folders_that_hold_their_export(
    captures: Callable[[str], Path], tmp_path: Path
) -> None:
    """Numbers come from report.json; without the export, the page says what is missing."""
    folder, page = tmp_path / "run", tmp_path / "page.html"
    folder.mkdir()
    export = captures("cnn_amp")
    assert commands.run("analyze", export, "-o", folder / "report.json").exit_code == 0
    run(folder, folder, "-o", page)
    assert "The typical steps are not drawn: base and new have no timeline" in page.read_text(encoding="utf-8")
    (folder / "capture.sqlite").symlink_to(export)
    run(folder, folder, "-o", page, "--force")
    assert page.read_text(encoding="utf-8").count('class="drawn-step"') == 2


@pytest.mark.parametrize(
    ("base", "new", "percent", "code"),
    [
        ("slow", "fast", None, 0),
        ("fast", "slow", None, 0),
        ("slow", "fast", 0, 0),
        ("fast", "slow", 3, 1),
        ("fast", "slow", 500, 0),
        ("slow", "alike", 0, 0),
        ("fast", "slow", 100.5, 3),
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
    if code == 1:
        assert " % slower, and --fail-on-regression allows 3 %" in result.stderr
    if code == 3:
        assert "% slower, so 100.5 % is neither shown nor excluded" in result.stderr


@pytest.mark.parametrize("gate", [[], ["--fail-on-regression", "3"]])
def test_an_uncertain_comparison_exits_with_3(gate: list[str], slow: Path, tmp_path: Path) -> None:
    """It does so with and without a gate, and the result is still written."""
    short = stored(tmp_path, "short.json", pairs.report(pairs.lengths(4.0, 5), busy=True))
    result = run(slow, short, *gate)
    assert result.exit_code == 3
    assert "Cannot tell: short.json has 5 measured steps; a comparison needs" in result.stdout
    assert result.stderr == (
        "nsyswrap: it is uncertain whether a step became faster or slower\nhint: profile more steps\n"
    )


def test_an_accepted_difference_is_compared(slow: Path, tmp_path: Path) -> None:
    report = pairs.with_session(pairs.report(pairs.lengths(2.0, seed=2), busy=True), traces=("Cuda",))
    other = stored(tmp_path, "other.json", report)
    assert run(slow, other).exit_code == 3
    result = run(slow, other, "--accept", "traces")
    assert result.exit_code == 0
    assert "\nFaster" in result.stdout


def test_the_change_to_find_is_in_per_cent(slow: Path, fast: Path, alike: Path) -> None:
    """It is 2, or that of --fail-on-regression; the interval here reaches to less than 2 %."""
    assert in_json(slow, alike)["find_share"] == 0.02
    assert in_json(slow, alike, "--fail-on-regression", "5")["find_share"] == 0.05
    assert in_json(slow, alike, "--fail-on-regression", "5", "--find", "3")["find_share"] == 0.03
    assert run(slow, alike).exit_code == 0
    assert run(slow, alike, "--find", "1").exit_code == 3
    for find in ("-1", "0", "1001", "nan"):
        result = run(slow, fast, "--find", find)
        assert result.exit_code == 2
        assert "is out of range" in result.stderr


def test_a_slowdown_that_is_not_allowed_cannot_be_left_unfound(slow: Path, alike: Path) -> None:
    """No difference of 10 % says nothing about a limit of 5 %."""
    result = run(slow, alike, "--fail-on-regression", "5", "--find", "10")
    assert result.exit_code == 2
    assert "--find 10 would let a slowdown pass that --fail-on-regression 5 does not allow" in result.stderr
    assert run(slow, alike, "--fail-on-regression", "5", "--find", "5").exit_code == 0


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--fail-on-regression", "5"), 4)])
def test_a_report_that_cannot_be_read_is_no_regression(
    options: tuple[str, ...], code: int, slow: Path, tmp_path: Path
) -> None:
    """With a gate 1 is a verdict, so what goes wrong ends with 4."""
    (tmp_path / "report.json").write_text("{")
    assert run(slow, tmp_path / "report.json", *options).exit_code == code
    assert run(slow, tmp_path / "missing.json", *options).exit_code == code


def test_the_accept_option_lists_everything_that_can_be_accepted() -> None:
    assert set(ACCEPTABLE) == {one.value for one in ACCEPTED_KINDS}


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
    text = run(*arguments).output
    assert "3 and 3 runs" in text
    assert "3 runs, the median one: " in " ".join(text.split())
    for form in ("markdown", "html"):
        assert "from the differences between runs" in run(*arguments, "--format", form).output


def test_a_base_that_is_not_there_is_named_with_all_that_it_may_be() -> None:
    result = commands.run("compare", "nothing", "nothing")
    assert result.exit_code == 1
    assert "nothing does not exist\nhint: give a folder that profile wrote, a report.json" in result.stderr
