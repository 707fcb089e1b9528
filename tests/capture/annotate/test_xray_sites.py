"""Which lines and modules the ranges of the X-ray step name, in each Python of this machine that can monitor calls."""

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from annotate_fixtures import pythons

import nsyswrap.capture.annotate

PYTHONS = [path for version, path in pythons().items() if version >= (3, 12)]
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python 3.12 or newer")

# A package with the class of modules, and tensors whose operators are functions of Python.
_START = """
import json, sys, types
from types import SimpleNamespace
package = types.ModuleType("annotate")
package.__path__ = [sys.argv[1]]
sys.modules["annotate"] = package
from annotate.xray_sites import Sites

class Module:
    def __init__(self, **inner): self._modules, self._parameters = inner, {"weight": Parameter()}
    def _call_impl(self, *args): return self.forward(*args)
    __call__ = _call_impl

class Parameter:
    requires_grad = True
    def numel(self): return 6

class Tensor:
    def __add__(self, other): return self
    def __radd__(self, other): return self
    def __float__(self): return 1.5
    def __neg__(self): raise ArithmeticError

class Sink:
    domain, log = "nsyswrap", []
    def described(self, text, color): return text
    def start(self, domain, text):
        self.log.append(text)
        return len(self.log)
    def end(self, domain, number): self.log.append(-number)

class Linear(Module):
    def forward(self, x):
        return x + x  # in a module

class Net(Module):
    def forward(self, x):
        y = self._modules["linear"](x)
        return y + x  # in the model

def guarded(): pass

left = []
def leave(reason):
    left.append(reason)
    sites.stop()

sizes = iter(range(1000))
cuda = SimpleNamespace(is_initialized=lambda: True, memory_allocated=lambda: next(sizes))
torch = SimpleNamespace(nn=SimpleNamespace(Module=Module), __file__="/libraries/torch/__init__.py", cuda=cuda)
sites = Sites(torch, Sink(), frozenset({id(guarded)}), leave, lambda: "late" in globals())
net, x = Net(linear=Linear()), Tensor()
"""
_END = """
for _ in range(100): step()
sites.reserve()
sites.start()
step()
try:
    sites.stop()
except ValueError:  # it has left
    pass
step()
tool = [sys.monitoring.get_tool(number) for number in (3, 4)]
print(json.dumps({**sites.tables(), "log": Sink.log, "left": left, "tool": tool}))
"""


class Seen(NamedTuple):
    """What a program's ranges name.

    Attributes:
        lines: The comment in the line of each range, in the order of their starts.
        tables: Sites, modules and roots.
        log: Texts of starts, and negative numbers of ends.
        left: Why the ranges ended early.
    """

    lines: list[str]
    tables: dict[str, Any]
    log: list[Any]
    left: list[str]
    tool: list[str | None]


@pytest.fixture(params=PYTHONS)
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Return a function that runs the body of a step a hundred times, and once with ranges."""

    def run(body: str) -> Seen:
        script = tmp_path / "step.py"
        script.write_text(f"{_START}\ndef step():\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n{_END}")
        command = [request.param, str(script), str(Path(nsyswrap.capture.annotate.__file__).parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stderr, done.returncode) == ("", 0)
        found = json.loads(done.stdout)
        source = script.read_text().splitlines()
        sites = [found["sites"][int(each.split()[-1])] for each in found["log"] if isinstance(each, str)]
        lines = [source[each["line"] - 1].rpartition("# ")[2].strip() for each in sites]
        return Seen(lines, found, found["log"], found["left"], found["tool"])

    return run


def test_the_memory_is_read_at_the_bounds_of_step_modules_and_backward_passes(seen: Any) -> None:  # noqa: ANN401
    """0, 1 and 2 are starts, 3 more are ends; the outer module is the first one to be called."""
    found = seen("sys.modules['annotate.xray_sites'].RUN_BACKWARD = 'float'\nnet(x)\nfloat(x)")
    where = [(each[0], each[1]) for each in found.tables["memory"]]
    assert where == [(0, None), (1, 0), (1, 1), (4, 1), (4, 0), (2, None), (5, None), (3, None)]
    assert [each[2] for each in found.tables["memory"]] == list(range(8))


def test_operators_of_tensors_have_their_line_and_module(seen: Any) -> None:  # noqa: ANN401 - a function
    """The path is that in the outermost module. Frames of the call of a module are in no stack."""
    found = seen("z = net(x)\nz + 1  # outside")
    assert found.lines == ["in a module", "in the model", "outside"]
    first, second, third = found.tables["sites"]
    assert [each["function"] for each in (first, second, third)] == ["Linear.forward", "Net.forward", "step"]
    assert [each[2] for each in first["stack"]] == ["Linear.forward", "Net.forward", "step", "<module>"]
    modules = found.tables["modules"]
    assert [modules[each["module"]]["path"] for each in (first, second)] == ["linear", ""]
    assert (modules[first["module"]]["class"], third["module"]) == ("__main__.Linear", None)
    assert found.tables["roots"] == [{"class": "__main__.Net", "parameters": 12, "trainable": 12}]


def test_a_compiled_model_has_the_name_of_what_was_compiled(seen: Any) -> None:  # noqa: ANN401 - a function
    """torch.compile wraps it in a module of its own, which holds it as ``_orig_mod``."""
    found = seen("class Compiled(Net): pass\nz = Compiled(_orig_mod=net, linear=Linear())(x)")
    assert [each["class"] for each in found.tables["roots"]] == ["__main__.Net"]
    assert found.tables["modules"][0]["class"].endswith(".Compiled")


def test_each_range_ends_before_the_next_line(seen: Any) -> None:  # noqa: ANN401 - a function
    """It ends with its function at the latest. Afterwards nothing is observed."""
    found = seen("x + 1  # first\nx + 2  # second")
    assert found.lines == ["first", "second"]
    assert found.log == ["nsyswrap xray 0", -1, "nsyswrap xray 1", -3]
    assert found.tool == [None, None]


def test_the_first_line_of_a_statement_goes_on_after_the_calls_in_its_others(seen: Any) -> None:  # noqa: ANN401
    """The operator is the first instruction of the line that goes on."""
    assert seen("(\n  x  # first\n  + net(x)\n)").lines == ["first", "in a module", "in the model", "first"]


def test_operators_of_numbers_have_no_range(seen: Any) -> None:  # noqa: ANN401 - a function
    """Python has learnt that they are numbers."""
    assert seen("n = 1\nn + 2\n[3, 4][n]\nn < 2\nmax(n, 3)").lines == []


def test_functions_of_python_that_reach_tensors_have_a_range(seen: Any) -> None:  # noqa: ANN401 - a function
    """They call methods of tensors."""
    found = seen("sum([x, x])  # sum\nfloat(x)  # float\nfloat(1)  # number\nlen([x])  # length")
    assert found.lines == ["sum", "float"]


def test_exceptions_end_ranges_and_calls_of_modules(seen: Any) -> None:  # noqa: ANN401 - a function
    """The range ends before what handles the exception begins."""
    found = seen("""
        def fails():
            -x  # fails
        class Failing(Module):
            def forward(self, x): fails()
        try:
            Failing()(x)
        except ArithmeticError:
            x + 1  # handled
    """)
    assert found.lines == ["fails", "handled"]
    assert [each["module"] for each in found.tables["sites"]] == [0, None]
    assert found.log[1] == -1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("guarded()\nx + 1  # after", "the program uses a profiler itself"),
        ("global late\nlate = True\nx + 1", "the step took too long"),
    ],
)
def test_nothing_is_observed_after_a_reason_to_leave(seen: Any, body: str, reason: str) -> None:  # noqa: ANN401
    """A function that is guarded, or the time."""
    found = seen(body)
    assert (found.left, found.lines, found.tool) == ([reason], [], [None, None])
