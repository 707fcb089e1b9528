"""Root cause: code is compiled or loaded inside the window; a lookup or a library that is open already is not."""

import pytest
from export_builder import ExportBuilder, thread, trace_of
from made_steps import STEP, STEPS, US, each_step, findings_of, lost_per_step, made_loop


def test_loading_code_explains_the_cpu_time_before_it() -> None:
    """CPU code compiles from 600 to 900, and a call loads from 900 to 950. The GPU waits for both."""
    rules = lost_per_step(trace_of(each_step(made_loop(), "cuLibraryLoadData", 900, 950)))
    assert rules["modules/in_window"] == 350
    assert "idle/module_load" not in rules


@pytest.mark.parametrize(("ends", "loads"), [(902, True), (900.5, False)])
def test_a_kernel_is_loaded_by_a_lookup_that_takes_longer_than_a_launch(
    ends: float,
    loads: bool,  # noqa: FBT001
) -> None:
    """A launch takes a microsecond."""
    made = made_loop()
    for number in range(STEPS):
        made.call("cuKernelGetFunction", number * STEP + 900 * US, round(number * STEP + ends * US))
    assert ("modules/in_window" in lost_per_step(trace_of(made))) == loads


def test_a_library_that_is_opened_again_in_each_step_is_no_compilation() -> None:
    """Only the time in which it is opened is lost, and the advice is to open it once."""
    made = made_loop()
    for number in range(STEPS):
        made.overhead("dlopen(libcuda.so.1)", number * STEP + 700 * US, number * STEP + 800 * US)
    trace = trace_of(made)
    rules, found = lost_per_step(trace), findings_of(trace)["idle/module_load"]
    assert "modules/in_window" not in rules
    assert rules["idle/module_load"] == 100
    assert found.headline == "The GPU is idle for 10.0 % of the time while the program opens libraries."
    assert "Open a library once" in found.advice


def test_libraries_that_are_opened_to_load_code_belong_to_it() -> None:
    """The GPU waits from 600 us on for a library, and then for code of it."""
    made = each_step(made_loop(), "cuLibraryLoadData", 900, 950)
    for number in range(STEPS):
        made.overhead("dlopen(kernel.so)", number * STEP + 700 * US, number * STEP + 800 * US)
    rules = lost_per_step(trace_of(made))
    assert rules["modules/in_window"] == 350
    assert "idle/module_load" not in rules


def test_calls_of_another_thread_explain_nothing() -> None:
    """A thread that launches nothing loads a library."""
    made = made_loop()
    for number in range(STEPS):
        at = number * STEP
        made.call("cuLibraryLoadData", at + 900 * US, at + 950 * US, thread=thread(4999))
    assert "modules/in_window" not in lost_per_step(trace_of(made))


def test_a_lookup_is_compared_with_a_launch_call_that_loads_nothing() -> None:
    """All launch calls take 100 us, as each loads its kernel. A lookup of 50 us loads one, too."""
    made = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        made.kernel(at + 110 * US, at + 600 * US, f"kernel {number}", launched=(at, at + 100 * US))
        made.call("cuKernelGetFunction", at + 900 * US, at + 950 * US)
    assert lost_per_step(trace_of(made))["modules/in_window"] >= 50
