"""The time that nsys adds to a call is computed, kept for the same conditions, and measured again for others."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import fake_nsys, living, marker, options

from nsyswrap.capture import profiler_cost as measuring
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.profiler_cost import Times, _timed, conditions_of, costs, kept_at, pace_range, profiler_cost
from nsyswrap.hardware.profiler_cost import CallCost, read_cost

__all__ = ["fake_nsys", "marker"]

PACE = 10_000
SETTINGS = ("tight", "python", "evicted")


def times(lengths: dict[str, tuple[float, ...]], pace: float = PACE) -> Times:
    """Return blocks of equal times for each call and each setting. Reading the clock takes 50 ns."""
    whole = {"nothing": (50, 50, 50), **lengths}
    return {
        name: {setting: [(each * pace / PACE, pace)] * 4 for setting, each in zip(SETTINGS, values, strict=False)}
        for name, values in whole.items()
    }


ALONE = times({"launch": (2050, 4000, 6000), "launch_with_queries": (2550, 5000, 8000)})
RECORDED = times({"launch": (5050, 9000, 14_000), "launch_with_queries": (6550, 11_000, 18_000)})


def test_a_kind_costs_from_the_least_of_its_calls_to_the_most() -> None:
    """Nsys adds 3 us to a launch in a tight loop. With queries it usually adds 6 us, and 10 us with evicted caches."""
    found = costs([ALONE], [RECORDED])
    cost = read_cost({"calls": found})
    assert cost is not None
    assert cost["launch"] == CallCost(3000, 6000, 10_000, 2000)
    assert found["launch"]["quartiles_ns"]["launch"]["tight"] == [3000, 3000, 3000]


def test_a_machine_that_is_slower_under_nsys_does_not_make_calls_costlier() -> None:
    """Under nsys everything takes twice as long, including the work that shows the pace."""
    slow = times({"launch": (5050, 9000, 14_000), "launch_with_queries": (6550, 11_000, 18_000)}, pace=2 * PACE)
    usual, scaled = costs([ALONE], [RECORDED])["launch"], costs([ALONE], [slow])["launch"]
    factor = 1.5  # the pace of both runs together
    assert scaled["usual_ns"] == pytest.approx(factor * usual["usual_ns"], rel=0.01)
    assert scaled["alone_ns"] == pytest.approx(factor * usual["alone_ns"], rel=0.01)


def test_a_cost_is_never_below_nothing() -> None:
    """Noise may make the calls under nsys faster. Their cost is then 0."""
    found = costs([RECORDED], [ALONE])["launch"]
    assert [found[key] for key in ("low_ns", "usual_ns", "high_ns")] == [0, 0, 0]


def test_the_cost_of_a_kernel_in_a_graph_follows_from_two_graphs() -> None:
    """A graph of twenty kernels adds 19 us more than a graph of one."""
    alone = times({"graph_1": (1000, 1000, 1000), "graph_20": (1000, 1000, 1000)})
    recorded = times({"graph_1": (5000, 5000, 5000), "graph_20": (24_000, 24_000, 43_000)})
    found = costs([alone], [recorded])
    assert found["graph_launch"]["usual_ns"] == 4000
    assert [found["graph_node"][key] for key in ("low_ns", "usual_ns", "high_ns")] == [1000, 1000, 2000]


def test_the_gpu_has_a_pace_of_its_own() -> None:
    """Queued kernels take the same time on a slow CPU, so their cost is not scaled by its pace."""
    alone, recorded = dict(ALONE), dict(times({}, pace=2 * PACE))
    alone["queued_kernel"], recorded["queued_kernel"] = {"device": [(1400, 0)] * 4}, {"device": [(1650, 0)] * 4}
    assert costs([alone], [recorded])["operation"]["usual_ns"] == 250


def with_steps(run: Times, plain: float, whole: float, pace: float = PACE, slow: float = 1) -> Times:
    """Return a run with blocks of training steps, in us: six at a pace, and six twice as slow and much longer."""
    steps = {
        name: {"tight": [(length * 1000, pace)] * 6 + [(length * 1000 * slow, 2 * pace)] * 6}
        for name, length in (("plain_step", plain), ("convolution_step", whole))
    }
    return {**run, **steps}


COUNTS = {
    "plain_step_launches": {"launch": [(100, 0)]},
    "convolution_step_launches": {"launch": [(50, 0)], "convolution_launch": [(80, 0)]},
}


def test_launches_of_convolutions_have_what_other_launches_leave_of_their_step() -> None:
    """Nsys adds 400 us to 100 launches: 4 us each. Of 1000 us, 50 others have 200 us; 80 of convolutions 10 us each."""
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    found = costs([alone], [with_steps(RECORDED, 1400, 3000)])
    assert (found["launch"]["low_ns"], found["launch"]["usual_ns"], found["launch"]["high_ns"]) == (3000, 4000, 10_000)
    assert found["convolution_launch"]["usual_ns"] == 10_000
    assert found["convolution_launch"]["alone_ns"] == found["launch"]["alone_ns"]


def test_steps_at_a_slow_pace_of_the_machine_do_not_count() -> None:
    """Half of the blocks under nsys are slow, and ten times as long."""
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    found = costs([alone], [with_steps(RECORDED, 1400, 3000, slow=10)])
    assert found["launch"]["usual_ns"] == 4000


@pytest.mark.parametrize("missing", ["convolution_step", "plain_step_launches"])
def test_without_both_steps_and_their_launches_a_launch_costs_as_the_calls_show(missing: str) -> None:
    alone = {**with_steps(ALONE, 1000, 2000), **COUNTS}
    del alone[missing]
    found = costs([alone], [with_steps(RECORDED, 1400, 3000)])
    assert found["launch"] == costs([ALONE], [RECORDED])["launch"]
    assert "convolution_launch" not in found


def test_the_range_of_the_pace_is_that_of_nearly_all_blocks() -> None:
    """Of forty blocks a third is 1.5 times as slow as the others. One of each twenty may be an error."""
    blocks = [(50, 10_000)] * 26 + [(50, 15_000)] * 12
    run = {"nothing": {"tight": [*blocks, (50, 400), (50, 900_000)]}}
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
    cost = read_cost({"calls": costs([ALONE], [RECORDED]), "pace": pace})
    assert cost is not None
    assert cost.pace_range == factor


def test_a_kind_without_calls_has_no_cost() -> None:
    """Without a GPU, launches have no cost. Without a CUDA runtime, launches by the driver give the cost."""
    assert set(costs([times({"range": (90, 90, 90)})], [times({"range": (390, 490, 590)})])) == {"range"}
    found = costs([times({"driver_launch": (2, 2, 2)})], [times({"driver_launch": (4000, 5000, 6000)})])
    assert set(found) == {"launch"}
    assert costs([], []) == {}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[CaptureOptions]:
    """Replace the measurement, with an empty cache; return the options that it is called with."""
    calls: list[CaptureOptions] = []

    def measure(given: CaptureOptions, _nsys: Nsys) -> tuple[list[Times], list[Times]]:
        calls.append(given)
        return [ALONE], [RECORDED]

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
    for name, text in (("DRIVER", "NVRM version: NVIDIA UNIX 590.1 now\n"), ("CPU", "model name\t: Another CPU\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(measuring, name, tmp_path / name)
        found.append(conditions_of(chosen, nsys))
    monkeypatch.setattr("nsyswrap.capture.profiler_cost.platform.python_version", lambda: "3.99")
    found.append(conditions_of(chosen, nsys))
    assert len({str(kept_at(each)) for each in found}) == len(found) == 5
    assert (found[-1]["driver"], found[-1]["cpu"]) == ("590.1", "Another CPU")


def test_a_measurement_that_fails_is_not_kept(fake_nsys: Nsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A measurement fails if nsys does not start. A cache folder that cannot be written is not a failure."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gone = replace(fake_nsys, path=tmp_path / "gone")
    assert profiler_cost(options(tmp_path / "out", "python"), gone, lambda: None)["calls"] == {}
    assert not (tmp_path / "cache").exists()
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(measuring, "measure", lambda *_: ([ALONE], [RECORDED]))
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
    monkeypatch.setattr(measuring, "RUNS", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = profiler_cost(options(tmp_path / "out", "python", traces=("nvtx", "osrt")), nsys, lambda: None)
    cost = read_cost(found)
    assert cost is not None
    assert all(50 < cost[kind].usual <= cost[kind].high < 20_000 for kind in ("range", "mark"))
    assert cost["range"].alone < cost["range"].usual


def test_what_a_crashed_nsys_leaves_is_ended(marker: str, tmp_path: Path) -> None:
    """Its agent and the program run in sessions of their own."""
    left = 'setsid sh -c "sleep 60; true" "$0" & for target; do :; done; echo {} >"$target"'
    assert _timed(("sh", "-c", left, marker), tmp_path / "times") == {}
    assert living(marker) == []
