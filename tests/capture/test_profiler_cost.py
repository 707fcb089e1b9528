"""The time that nsys adds to a call is computed, kept for the same conditions, and measured again for others."""

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import fake_nsys, options

from nsyswrap.base.interval import Interval
from nsyswrap.capture import kept_measurement
from nsyswrap.capture import profiler_cost as measuring
from nsyswrap.capture.kept_measurement import kept_at
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.probe_turns import Times
from nsyswrap.capture.profiler_cost import conditions_of, costs, pace_range, profiler_cost
from nsyswrap.hardware.profiler_cost import CallCost, Slowdown, read_cost

__all__ = ["fake_nsys"]

PACE = 10_000
SETTINGS = ("tight", "python", "evicted")


def times(lengths: dict[str, tuple[float, ...]]) -> Times:
    """Return blocks of equal times for each call and each setting. Reading the clock takes 50 ns."""
    whole = {"nothing": (50, 50, 50), **lengths}
    return {
        name: {setting: [(each, PACE)] * 4 for setting, each in zip(SETTINGS, values, strict=False)}
        for name, values in whole.items()
    }


ALONE = times({"launch": (2050, 4000, 6000), "launch_with_queries": (2550, 5000, 8000)})
RECORDED = times({"launch": (5050, 9000, 14_000), "launch_with_queries": (6550, 11_000, 18_000)})


def test_a_kind_costs_from_the_least_of_its_calls_to_the_most() -> None:
    """Nsys adds 3 us to a launch in a tight loop. With queries it usually adds 6 us, and 10 us with evicted caches."""
    found = costs(ALONE, RECORDED)
    cost = read_cost({"calls": found})
    assert cost is not None
    assert cost["launch"] == CallCost(Interval(3000, 6000, 10_000), 2000)
    assert found["launch"]["quartiles_ns"]["launch"]["tight"] == [3000, 3000, 3000]


def at_paces(run: Times, *paces: float) -> Times:
    """Return a run whose blocks are so many times as slow, one after the other."""
    return {
        name: {setting: [(blocks[0][0] * each, PACE * each) for each in paces] for setting, blocks in settings.items()}
        for name, settings in run.items()
    }


def test_each_block_under_nsys_is_compared_with_the_one_before_it_at_the_same_pace() -> None:
    """The machine gets four times as slow while it is measured: a launch of 2 us takes 5 us under nsys, or 8 and 20."""
    alone, recorded = (at_paces(run, 1, 2, 3, 4, 2) for run in (ALONE, RECORDED))
    found = costs(alone, recorded)["launch"]
    assert found["quartiles_ns"]["launch"]["tight"] == [4500, 6000, 10_500]
    assert found["usual_ns"] == 2 * 6000


def test_a_cost_is_never_below_nothing() -> None:
    """Noise may make the calls under nsys faster. Their cost is then 0."""
    found = costs(RECORDED, ALONE)["launch"]
    assert [found[key] for key in ("low_ns", "usual_ns", "high_ns")] == [0, 0, 0]


def test_the_cost_of_a_kernel_in_a_graph_follows_from_two_graphs() -> None:
    """A graph of twenty kernels adds 19 us more than a graph of one."""
    alone = times({"graph_1": (1000, 1000, 1000), "graph_20": (1000, 1000, 1000)})
    recorded = times({"graph_1": (5000, 5000, 5000), "graph_20": (24_000, 24_000, 43_000)})
    found = costs(alone, recorded)
    assert found["graph_launch"]["usual_ns"] == 4000
    assert [found["graph_node"][key] for key in ("low_ns", "usual_ns", "high_ns")] == [1000, 1000, 2000]


def test_queued_kernels_are_timed_on_the_gpu() -> None:
    """They are timed without any pace of the CPU. Short kernels give the usual cost; empty ones may give a bound."""
    names = ("queued_empty_kernel", "queued_short_kernel", "queued_empty_node", "queued_short_node")
    runs: list[Times] = [
        {**times({}), **{name: {"device": [(each, 0.0)] * 4} for name, each in zip(names, lengths, strict=True)}}
        for lengths in ((1400.0, 2400.0, 800.0, 1700.0), (1650.0, 2680.0, 950.0, 1930.0))
    ]
    found = costs(*runs)
    keys = ("low_ns", "usual_ns", "high_ns", "alone_ns")
    shown = [[found[kind][key] for key in keys] for kind in ("operation", "graph_operation")]
    assert shown == [[250, 280, 280, 1400], [150, 230, 230, 800]]


def with_steps(run: Times, plain: float, whole: float) -> Times:
    """Return a run with blocks of training steps, in us."""
    lengths = {"plain_step": plain, "convolution_step": whole}
    return {**run, **{name: {"tight": [(length * 1000, PACE)] * 4} for name, length in lengths.items()}}


COUNTS: Times = {
    "plain_step_launches": {"launch": [(100, 0)]},
    "convolution_step_launches": {"launch": [(50, 0)], "convolution_launch": [(80, 0)]},
}


def test_launches_of_convolutions_have_what_other_launches_leave_of_their_step() -> None:
    """Nsys adds 400 us to 100 launches: 4 us each. Of 1000 us, 50 others have 200 us; 80 of convolutions 10 us each."""
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    found = costs(alone, with_steps(RECORDED, 1400, 3000))
    assert (found["launch"]["low_ns"], found["launch"]["usual_ns"], found["launch"]["high_ns"]) == (3000, 4000, 10_000)
    assert found["convolution_launch"]["usual_ns"] == 10_000
    longest: Times = {"plain_step_longest": {"tight": [(3.0, 0.0)]}}
    assert costs({**alone, **longest}, with_steps(RECORDED, 1400, 3000))["launch"]["high_ns"] == 12_000
    assert found["convolution_launch"]["alone_ns"] == found["launch"]["alone_ns"]


def test_the_work_between_launches_is_slowed_as_a_training_step_and_at_most_as_calls_of_cuda() -> None:
    """A step takes 1.4 times as long, one of convolutions 1.5 times; a launch with queries up to 2.57 times."""
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    cost = read_cost({"calls": costs(alone, with_steps(RECORDED, 1400, 3000))})
    assert cost is not None
    assert (cost["launch"].slowdown, cost["convolution_launch"].slowdown) == (
        Slowdown(1.4, 2.569),
        Slowdown(1.5, 2.569),
    )
    assert cost["call"].slowdown is None


def test_an_armed_nsys_slows_training_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the mean of both steps: 1.1 and 1.3 times as long. Without steps it is unknown."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nsys, chosen, known = Nsys(Path("nsys"), (2025, 3, 1), "PATH"), options(tmp_path / "out", "python"), []
    for armed in (with_steps(ALONE, 1100, 2600), with_steps(ALONE, 900, 1900), ALONE):
        runs = {**with_steps(ALONE, 1000, 2000), **COUNTS}, with_steps(RECORDED, 1400, 3000), armed
        monkeypatch.setattr(measuring, "measure", lambda *_, runs=runs: runs)
        cost = read_cost(profiler_cost(chosen, nsys, lambda: None, again=True))
        assert cost is not None
        assert read_cost(cost.measured()) == cost
        known.append(cost.armed)
    assert known == [1.2, 1.0, None]


def test_steps_that_are_faster_under_nsys_are_not_slowed() -> None:
    alone = {**with_steps(times({"launch": (2050, 4000, 6000)}), 1000, 2000), **COUNTS}
    found = costs(alone, with_steps(times({"launch": (5050, 9000, 14_000)}), 900, 1900))
    assert (found["launch"]["slowdown"], found["launch"]["usual_ns"]) == ([1.0, 1.0], 3000)


@pytest.mark.parametrize("missing", ["convolution_step", "plain_step_launches"])
def test_without_both_steps_and_their_launches_a_launch_costs_as_the_calls_show(missing: str) -> None:
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    del alone[missing]
    found = costs(alone, with_steps(RECORDED, 1400, 3000))
    assert found["launch"] == costs(ALONE, RECORDED)["launch"]
    assert "convolution_launch" not in found


def test_the_range_of_the_pace_is_that_of_nearly_all_blocks() -> None:
    """Of forty blocks a third is 1.5 times as slow as the others. One of each twenty may be an error."""
    blocks = [(50.0, 10_000.0)] * 26 + [(50.0, 15_000.0)] * 12
    run: Times = {"nothing": {"tight": [*blocks, (50, 400), (50, 900_000)]}}
    assert pace_range([run]) == {"fastest_ns": 10_000, "slowest_ns": 15_000}
    assert pace_range([{"nothing": {"tight": blocks[:10]}}]) == {}


@pytest.mark.parametrize(
    ("pace", "factor"),
    [
        ({"fastest_ns": 10, "slowest_ns": 17}, 1.7),
        ({"fastest_ns": 0, "slowest_ns": 17}, 1),
        ({"fastest_ns": 17, "slowest_ns": 10}, 1),
        ({"fastest_ns": "?"}, 1),
        ([], 1),
    ],
)
def test_the_range_of_the_pace_is_read_or_unknown(pace: object, factor: float) -> None:
    cost = read_cost({"calls": costs(ALONE, RECORDED), "pace": pace})
    assert cost is not None
    assert cost.pace_range == factor


def test_a_kind_without_calls_has_no_cost() -> None:
    """Without a GPU, launches have no cost. Without a CUDA runtime, launches by the driver give the cost."""
    assert set(costs(times({"range": (90, 90, 90)}), times({"range": (390, 490, 590)}))) == {"range"}
    found = costs(times({"driver_launch": (2, 2, 2)}), times({"driver_launch": (4000, 5000, 6000)}))
    assert set(found) == {"launch"}
    assert costs({}, {}) == {}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[CaptureOptions]:
    """Replace the measurement, with an empty cache; return the options that it is called with."""
    calls: list[CaptureOptions] = []

    def measure(given: CaptureOptions, _nsys: Nsys) -> tuple[Times, Times, Times]:
        calls.append(given)
        return ALONE, RECORDED, ALONE

    monkeypatch.setattr(measuring, "measure", measure)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def test_a_measurement_is_kept_for_this_user_alone(measured: list[CaptureOptions], tmp_path: Path) -> None:
    """The second profile measures nothing and has the same costs. Only this user can read the file."""
    announced: list[int] = []
    nsys, chosen = Nsys(Path("nsys"), (2025, 3, 1), "PATH"), options(tmp_path / "out", "python")
    first = profiler_cost(chosen, nsys, lambda: announced.append(1))
    second = profiler_cost(chosen, nsys, lambda: announced.append(2))
    assert (first, announced, len(measured)) == (second, [1], 1)
    (file,) = (tmp_path / "cache" / "nsyswrap" / "profiler_cost").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    profiler_cost(chosen, nsys, lambda: announced.append(3), again=True)
    assert (announced, len(measured)) == ([1, 3], 2)


@pytest.mark.parametrize(
    "change",
    [
        {"traces": ("cuda",)},
        {"cuda_graph": "graph"},
        {"cuda_events": False},
        {"sample": "process-tree"},
        {"python_sampling_hz": 1000},
        {"gpu_metrics": "all"},
        {"cuda_memory": True},
        {"nsys_args": ("--cuda-flush-interval=100",)},
    ],
)
def test_it_is_measured_again_where_other_things_are_recorded(
    measured: list[CaptureOptions], change: dict[str, Any], tmp_path: Path
) -> None:
    nsys, chosen = Nsys(Path("nsys"), (2025, 3, 1), "PATH"), options(tmp_path / "out", "python")
    for each in (chosen, replace(chosen, **change), replace(chosen, folder=tmp_path / "other", annotate=True)):
        profiler_cost(each, nsys, lambda: None)
    assert len(measured) == 2


def test_it_is_measured_again_with_another_nsys_driver_cpu_or_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen, nsys = options(tmp_path, "python"), Nsys(Path("nsys"), (2025, 3, 1), "PATH")
    found = [conditions_of(chosen, nsys), conditions_of(chosen, replace(nsys, version=(2025, 5, 1)))]
    for module, name, text in (
        (kept_measurement, "DRIVER", "NVRM version: NVIDIA UNIX 590.1 now\n"),
        (measuring, "CPU", "model name\t: Another CPU\n"),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(module, name, tmp_path / name)
        found.append(conditions_of(chosen, nsys))
    monkeypatch.setattr("nsyswrap.capture.profiler_cost.platform.python_version", lambda: "3.99")
    found.append(conditions_of(chosen, nsys))
    assert len({str(kept_at("cost", each)) for each in found}) == len(found) == 5
    assert (found[-1]["driver"], found[-1]["cpu"]) == ("590.1", "Another CPU")


def test_a_measurement_that_fails_is_not_kept(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It fails, and says why, if nsys does not start. A cache folder that cannot be written is not a failure."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gone = replace(fake_nsys, path=tmp_path / "gone")
    failed = profiler_cost(options(tmp_path / "out", "python"), gone, lambda: None)
    assert failed["calls"] == {}
    assert f"{gone.path} profile --help fails" in failed["failure"]
    assert not (tmp_path / "cache").exists()
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(measuring, "measure", lambda *_: (ALONE, RECORDED, ALONE))
    assert profiler_cost(options(tmp_path / "out", "python"), fake_nsys, lambda: None)["calls"]


def test_a_kept_file_that_cannot_be_read_is_measured_again(measured: list[CaptureOptions], tmp_path: Path) -> None:
    nsys, chosen = Nsys(Path("nsys"), (2025, 3, 1), "PATH"), options(tmp_path / "out", "python")
    profiler_cost(chosen, nsys, lambda: None)
    (file,) = (tmp_path / "cache" / "nsyswrap" / "profiler_cost").iterdir()
    file.write_text("{")
    assert profiler_cost(chosen, nsys, lambda: None)["calls"]
    assert len(measured) == 2


def test_the_real_nsys_adds_time_to_ranges_and_marks(
    nsys: Nsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real nsys adds between 0.05 and 20 us to each: no recording is faster, and no profiler is slower."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = profiler_cost(options(tmp_path / "out", "python", traces=("nvtx", "osrt")), nsys, lambda: None)
    cost = read_cost(found)
    assert cost is not None, found
    assert all(50 < cost[kind].added.point <= cost[kind].added.high < 20_000 for kind in ("range", "mark"))
    assert cost["range"].alone > 0


@pytest.mark.parametrize("lets_one_process", [True, False])
def test_where_a_gpu_lets_one_process_use_it_the_programs_run_one_after_the_other(
    fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, lets_one_process: bool
) -> None:
    """Beside another program only one has CUDA calls. The launches that only a run alone counts make no difference."""
    made: list[int] = []

    def run_probes(prefixes: Sequence[Sequence[str]], _folder: Path) -> list[Times]:
        made.append(len(prefixes))
        alone: Times = {**ALONE, **COUNTS}
        found = [RECORDED if prefix else alone for prefix in prefixes]
        return [alone, times({}), times({})] if lets_one_process and len(prefixes) > 1 else found

    monkeypatch.setattr(measuring, "run_probes", run_probes)
    assert measuring.measure(options(tmp_path, "python"), fake_nsys) == ({**ALONE, **COUNTS}, RECORDED, RECORDED)
    assert made == ([3, 1, 1, 1] if lets_one_process else [3])
