"""The best cell and the advice: beyond the noise, or said to be within it."""

from made_sweeps import GPUS, gpus_sweep, keys_of, made_run, spec_of, workers_sweep

from nsyswrap.sweep.advice import advice, best_of, choices
from nsyswrap.sweep.results import sweep_of

NO_FASTER = "larger values are not faster beyond the noise"


def test_the_best_cell_has_the_highest_throughput() -> None:
    """Not the shortest step: the shortest is that of the smallest batch."""
    best = best_of(gpus_sweep())
    assert best is not None
    assert best.result.cell.key == "gpus-2_batch-32_mode-dp"
    assert [each.cell.key for each in best.equal] == ["gpus-2_batch-32_mode-ddp"]


def test_the_smallest_value_that_is_enough_is_chosen() -> None:
    """Eight workers are faster than four by less than the noise; both are faster than two."""
    steps = {"0": 40.0, "1": 30.0, "2": 20.0, "4": 10.0, "8": 9.99}
    runs = [made_run(f"workers-{name}_batch-64", ms, host_ms=1.0) for name, ms in steps.items()]
    sweep = sweep_of(spec_of(), 1, runs)
    (choice,) = choices(sweep)
    assert choice.chosen.cell.value("workers") == "4"
    assert choice.best.cell.value("workers") == "8"
    assert advice(sweep) == (f"workers 4 is enough: {NO_FASTER}. It is limited by compute, 90.0 % of a step.",)


def test_noise_that_hides_a_difference_is_not_called_enough() -> None:
    """Two host-bound cells with one run each may differ by a third."""
    runs = [made_run(f"workers-{name}_batch-64", ms, host_ms=0.9 * ms) for name, ms in (("0", 10.0), ("1", 9.0))]
    (words,) = advice(sweep_of(spec_of(), 1, runs))
    assert words.startswith(
        "workers 0 may be enough: these runs neither show nor exclude that a larger value is faster;"
    )


def test_what_was_not_measured_beyond_the_choice_is_named() -> None:
    (words,) = advice(workers_sweep(3))
    assert words.startswith("workers 4 is the best that was measured; workers 8: out of memory. It is limited by")


def test_the_same_choice_in_several_lines_is_one_sentence() -> None:
    found = advice(gpus_sweep())
    assert found[0].startswith("batch 32 is the best that was measured; larger values were not tried. It is limited by")
    assert found[1].startswith("mode: no difference is shown.")
    assert found[2].startswith("Strong scaling: at best 2 GPUs do 1.67 times the work of 1 (83.3 % efficiency)")


def test_a_choice_in_some_of_the_lines_names_them() -> None:
    """More workers help with two of three batch sizes."""
    steps = {64: (20.0, 10.0), 128: (20.0, 10.0), 256: (10.0, 10.0)}
    runs = [
        made_run(f"workers-{workers}_batch-{batch}", ms, host_ms=0.1)
        for batch, its in steps.items()
        for workers, ms in enumerate(its)
    ]
    text = "command = ['a', '{workers}', '{batch}']\n[axes]\nworkers = [0, 1]\nbatch = [64, 128, 256]\n"
    found = advice(sweep_of(spec_of(text), 1, runs))
    assert not any("cases" in each for each in found)
    assert any("with batch 64 and with batch 128" in each for each in found)


def test_a_name_that_is_faster_is_named() -> None:
    steps = {key: 10.0 if "ddp" in key else 20.0 for key in keys_of(GPUS)}
    assert any(each.startswith("mode ddp is the fastest.") for each in advice(gpus_sweep(steps)))
