"""The steps that a program marks itself, with NVTX ranges of ``torch.cuda.nvtx`` or of the package ``nvtx``.

A step is a range of the main thread whose text names one, from its start to its end. Ranges inside it do not count::

    |batch 0|      |batch 1|  validation  |batch 2|
    | step 0 |     | step 1 |             | step 2 |

Python calls the functions that open and close them, so it shows their calls (``monitoring``): nothing is replaced.
"""

import re
from types import CodeType, FrameType, ModuleType

from .marks import OWN_RANGES, Marks
from .monitoring import Monitor
from .torch_marks import code_of

TORCH, NVTX = "torch.cuda.nvtx", "nvtx.nvtx"
MODULES = (TORCH, NVTX)
# Functions that open a range, with the place of its text among their variables, and those that close one.
OPENING = {
    TORCH: {"range_push": "msg"},
    NVTX: {"push_range": "message", "annotate.__enter__": "self.attributes.message.string"},
}
CLOSING = {TORCH: ("range_pop",), NVTX: ("pop_range", "annotate.__exit__")}
_NUMBER = re.compile(r"\d+")


class OwnRanges:
    """Begins and ends steps with the program's own ranges.

    Ranges that are spelled alike are the steps: those that come first, as long as they go on. So the steps are those of
    the training loop also where a check comes before it.
    """

    def __init__(self, marks: Marks, pattern: str) -> None:
        self._marks, self._matches = marks, re.compile(pattern).search
        # Ranges that are open from the open step on, itself included.
        self._depth = 0
        self._family = self._other = ""

    def watch(self, monitor: Monitor, module: ModuleType) -> None:
        """See the ranges that a module opens and closes."""
        for name, place in OPENING[module.__name__].items():
            if (code := _own_code(module, name)) is not None:
                first, *rest = place.split(".")
                self._marks.look_at(code, lambda frame, first=first, rest=rest: self.opened(frame, first, rest))  # type: ignore[misc]
                monitor.watch(code, returns=False)
        for name in CLOSING[module.__name__]:
            if (code := _own_code(module, name)) is not None:
                self._marks.look_at(code, self.closed)
                monitor.watch(code, starts=False)

    def opened(self, frame: FrameType, first: str, rest: "list[str]") -> None:
        """Note that a range is opened.

        ``first`` is the variable with its text, or with an object that holds it; ``rest`` are the attributes that lead
        to the text.
        """
        if not self._marks.is_main:
            return
        if self._depth:
            self._depth += 1
            return
        text = frame.f_locals.get(first)
        for name in rest:
            text = getattr(text, name, None)
        if isinstance(text, str) and self._matches(text) and self._is_step(_NUMBER.sub("#", text)):
            self._depth = 1
            self._marks.begin_step((OWN_RANGES, self._family))

    def closed(self, _frame: object = None) -> None:
        """Note that a range was closed."""
        if self._depth and self._marks.is_main:
            self._depth -= 1
            if not self._depth:
                self._marks.close_step()

    def _is_step(self, family: str) -> bool:
        """Return whether ranges with a spelling are steps: of several the first one, as long as it goes on."""
        if family != self._family:
            if self._family and family != self._other:
                self._other = family
                return False
            self._family = family
        self._other = ""
        return True


def _own_code(module: ModuleType, name: str) -> "CodeType | None":
    """Return the code of a function that a module itself defines; None where it takes it from another one."""
    code = code_of(module, name)
    return code if code is not None and code.co_filename == module.__file__ else None
