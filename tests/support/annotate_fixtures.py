"""Replacements for the profiler in tests of `nsyswrap.capture.annotate`."""

from dataclasses import dataclass, field

from nsyswrap.capture.annotate.nvtx_calls import Prepared


@dataclass
class Recorder:
    """A profiler that records ranges as an indented list.

    Attributes:
        lines: Each range in the order of opening, indented by its depth.
        depth: Number of open ranges.
    """

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that opens a range."""
        assert 0 <= color <= 0xFFFFFF
        return self._open, (name,)

    def closer(self) -> Prepared:
        """Return a prepared call that closes the last range."""
        return self._close, ()

    def _open(self, name: str) -> None:
        self.lines.append(" " * self.depth + name)
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        assert self.depth >= 0


class Broken:
    """A profiler that fails when a range is opened."""

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that fails."""
        assert color
        return self._fail, (name,)

    def closer(self) -> Prepared:
        """Return a prepared call that fails."""
        return self._fail, ("an end",)

    def _fail(self, name: str) -> None:
        raise OSError(f"no room for {name}")
