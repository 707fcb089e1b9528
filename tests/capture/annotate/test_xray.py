"""What is turned on and off around the X-ray step, and what its process writes; with a package in place of torch."""

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from annotate_fixtures import pythons

import nsyswrap.capture.annotate

VERSIONS = pythons()
MONITORING = [path for version, path in VERSIONS.items() if version >= (3, 12)]
OLDER = [path for version, path in VERSIONS.items() if version < (3, 12)]

_START = """
import json, sys, types
from types import SimpleNamespace
package = types.ModuleType("annotate")
package.__path__ = [sys.argv[1]]
sys.modules["annotate"] = package
from annotate.xray import XRay

said = []
class Sink:
    domain = "nsyswrap"
    def described(self, text, color): return text
    def start(self, domain, text):
        if text == "xray": said.append(text)
        return int(text == "xray")
    def end(self, domain, number):
        if number: said.append("end")

def says(text):
    return lambda *arguments: said.append(text)

def add(path):
    said.append("add")
    if not has_observer: open(path, "w").close()

class Module:
    def _call_impl(self): pass

has_observer, graph_task, captures, profiled = False, -1, False, False
autograd = SimpleNamespace(
    _profiler_enabled=lambda: profiled, _profiler_type=lambda: 0, _prepare_profiler=says("prepare"),
    _enable_profiler=says("ranges"), _enable_profiler_legacy=says("legacy"), _disable_profiler=says("no ranges"))
profiler = SimpleNamespace(
    _add_execution_trace_observer=add, _enable_execution_trace_observer=says("operators"),
    _disable_execution_trace_observer=says("no operators"), _remove_execution_trace_observer=says("remove"),
    ProfilerConfig=lambda *arguments: arguments, _ExperimentalConfig=lambda: None,
    ProfilerState=SimpleNamespace(NVTX="nvtx"), RecordScope=SimpleNamespace(FUNCTION=0, BACKWARD_FUNCTION=1))
torch = SimpleNamespace(
    __version__="9.9", __file__="/libraries/torch/__init__.py", nn=SimpleNamespace(Module=Module),
    version=SimpleNamespace(cuda="13.0"),
    _C=SimpleNamespace(_autograd=autograd, _profiler=profiler, _current_graph_task_id=lambda: graph_task),
    autograd=SimpleNamespace(profiler=SimpleNamespace(_is_profiler_enabled=False, _run_on_profiler_start=says("own"))),
    cuda=SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: captures,
        synchronize=says("wait"), memory_allocated=lambda: 7))
# The level of warnings is a variable of a library of torch.
XRay._quietly = lambda self, call, *arguments: call(*arguments)
now = 1
xray = XRay(torch, Sink(), sys.argv[2], 3, lambda: now)
"""


def run(python: str, folder: Path, body: str) -> tuple[Any, dict[str, Any]]:
    """Run a program with an X-ray step ahead, and return what it prints as JSON, and the file of its process."""
    script = folder / "step.py"
    script.write_text(f"{_START}\n{textwrap.dedent(body)}")
    command = [python, str(script), str(Path(nsyswrap.capture.annotate.__file__).parent), str(folder / "7")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return json.loads(done.stdout), json.loads((folder / "7.xray").read_text())


@pytest.mark.parametrize("python", MONITORING)
def test_everything_is_turned_on_and_off_again(python: str, tmp_path: Path) -> None:
    """Ranges are on in the step only, and Inductor knows of them. The step ends when the GPU has done it.

    The file has the step and the rank.
    """
    said, written = run(
        python,
        tmp_path,
        """
        began = xray.begin(6)
        said.append(torch.autograd.profiler._is_profiler_enabled)
        xray.end()
        print(json.dumps([began, *said, torch.autograd.profiler._is_profiler_enabled, sys.monitoring.get_tool(4)]))
        """,
    )
    on, off = ["add", "operators", "ranges", "xray", True], ["no operators", "remove", "no ranges"]
    assert said == [True, *on, *off, "wait", "end", False, None]
    assert {name: written[name] for name in ("rank", "torch", "step", "reason", "roots", "memory")} == {
        "rank": 3,
        "torch": "9.9",
        "step": 6,
        "reason": None,
        "roots": [],
        "memory": [[0, None, 7], [3, None, 7]],
    }


@pytest.mark.parametrize("python", MONITORING[:1])
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("profiled = True", "the program uses a profiler of PyTorch"),
        ("torch.autograd.profiler._is_profiler_enabled = True", "the program uses a profiler of PyTorch"),
        ("graph_task = 3", "the steps of the program end inside of backward passes"),
        ("captures = True", "the program is capturing a CUDA graph"),
        ("has_observer = True", "the program uses an execution trace observer"),
        ("for n in (3, 4): sys.monitoring.use_tool_id(n, 'own')", "other tools monitor the calls of this process"),
        ("del profiler.ProfilerConfig", "AttributeError: 'types.SimpleNamespace' object has no attribute"),
    ],
)
def test_the_file_says_why_there_is_no_x_ray_step(python: str, tmp_path: Path, state: str, reason: str) -> None:
    """Whatever was turned on before is turned off. Nothing is ended that the program began."""
    (began, said), written = run(python, tmp_path, f"{state}\nprint(json.dumps([xray.begin(6), said]))")
    assert not began
    assert written["reason"].startswith(reason)
    assert said in ([], ["add"], ["add", "operators", "no operators", "remove"])


@pytest.mark.parametrize("python", OLDER)
def test_an_older_python_takes_no_x_ray_step(python: str, tmp_path: Path) -> None:
    (began, said), written = run(python, tmp_path, "print(json.dumps([xray.begin(6), said]))")
    assert (began, said) == (False, [])
    assert "cannot monitor calls, 3.12 can" in written["reason"]


@pytest.mark.parametrize("python", MONITORING)
@pytest.mark.parametrize(
    "call",
    [
        *("torch.autograd.profiler._run_on_profiler_start()", "autograd._enable_profiler()"),
        *("profiler._add_execution_trace_observer('other')", "sys.monitoring.get_tool(4)"),
    ],
)
def test_a_program_that_turns_on_a_profiler_in_the_step_ends_the_observation_first(
    python: str, tmp_path: Path, call: str
) -> None:
    """Nothing of it is turned off twice."""
    said, written = run(
        python,
        tmp_path,
        f"""
        xray.begin(6)
        found = {call}
        said.append("called")
        xray.end()
        print(json.dumps([*said, found]))
        """,
    )
    assert said.index("remove") < said.index("no ranges") < said.index("called") < said.index("end")
    assert (said.count("remove"), said.count("no ranges"), said[-1]) == (1, 1, None)
    assert written["reason"] == "the program uses a profiler itself"


@pytest.mark.parametrize("python", MONITORING)
@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ("aa", ["7.execution"]),
        ("aba", ["7.2.execution", "7.execution"]),
        ("abc", ["7.2.execution", "7.3.execution", "7.execution"]),
    ],
)
def test_steps_are_observed_until_one_repeats_and_at_most_three(
    python: str, tmp_path: Path, kinds: str, kept: list[str]
) -> None:
    """A step that calls the same lines as one before is not kept. The file has the number of the first."""
    said, written = run(
        python,
        tmp_path,
        f"""
        def a(): sum([said], [])
        def b(): sum([said], []); sum([said], [])
        def c(): sum([said], []), max([said])
        went_on = []
        for number, kind in enumerate({kinds!r}):
            xray.begin(6 + number)
            globals()[kind]()
            xray.end()
            went_on.append(xray.goes_on)
        print(json.dumps([went_on, said.count("xray"), sys.monitoring.get_tool(4)]))
        """,
    )
    assert said == [[True] * (len(kinds) - 1) + [False], len(kinds), None]
    assert sorted(path.name for path in tmp_path.glob("*.execution")) == kept
    assert (written["step"], written["reason"]) == (6, None)


@pytest.mark.parametrize("python", MONITORING[:1])
@pytest.mark.parametrize(("seconds", "goes_on"), [(30, True), (31, False)])
def test_another_step_is_observed_where_a_minute_holds_both(
    python: str, tmp_path: Path, seconds: int, *, goes_on: bool
) -> None:
    said, _ = run(
        python,
        tmp_path,
        f"""
        xray.begin(6)
        now = 1 + {seconds} * 10**9
        xray.end()
        print(json.dumps(xray.goes_on))
        """,
    )
    assert said == goes_on


@pytest.mark.parametrize("python", MONITORING[:1])
@pytest.mark.parametrize(("seconds", "reason"), [(60, None), (61, "the step took too long")])
def test_a_step_of_a_minute_is_observed(python: str, tmp_path: Path, seconds: int, reason: str | None) -> None:
    """In the middle of a longer one the observation ends."""
    _, written = run(
        python,
        tmp_path,
        f"""
        xray.begin(6)
        now = 1 + {seconds} * 10**9
        sum([said], [])
        xray.end()
        print(json.dumps(None))
        """,
    )
    assert written["reason"] == reason


@pytest.mark.parametrize("python", MONITORING[:1])
def test_ranges_are_turned_off_by_the_thread_that_turned_them_on(python: str, tmp_path: Path) -> None:
    """Another thread may end the observation of operators and lines."""
    said, _ = run(
        python,
        tmp_path,
        """
        import threading
        xray.begin(6)
        other = threading.Thread(target=autograd._prepare_profiler)
        other.start()
        other.join()
        thread = threading.Thread(target=lambda: autograd._prepare_profiler())
        thread.start()
        thread.join()
        said.append("joined")
        xray.end()
        print(json.dumps(said))
        """,
    )
    assert said.index("remove") < said.index("joined") < said.index("no ranges")


@pytest.mark.parametrize("python", MONITORING[:1])
@pytest.mark.parametrize(("task", "is_off"), [(-1, True), (3, False)])
def test_ranges_that_are_open_around_a_compiler_end_with_the_step(
    python: str, tmp_path: Path, task: int, *, is_off: bool
) -> None:
    """In a backward pass, PyTorch would warn that they fail to end."""
    said, _ = run(
        python,
        tmp_path,
        f"""
        xray.begin(6)
        graph_task = {task}
        xray._stop("a function was compiled in the step")
        was_off = "no ranges" in said
        graph_task = -1
        xray.end()
        print(json.dumps([was_off, said.count("no ranges"), said.count("remove")]))
        """,
    )
    assert said == [is_off, 1, 1]


@pytest.mark.parametrize("python", MONITORING[:1])
def test_a_forked_process_writes_nothing(python: str, tmp_path: Path) -> None:
    """It does not finish the file of its parent either."""
    said, written = run(
        python,
        tmp_path,
        """
        xray.begin(6)
        xray.abandon()
        print(json.dumps(said))
        open(f"{sys.argv[2]}.xray", "x").write("{}")
        """,
    )
    assert said[-2:] == ["no operators", "no ranges"]
    assert written == {}
