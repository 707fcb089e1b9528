"""What the tests of the annotation share: a profiler that writes down, and what it wrote as a tree."""

from dataclasses import dataclass, field


@dataclass
class Recorder:
    """Takes ranges and keeps them.

    Attributes:
        lines: Each range in the order of opening, indented by how deep it lies.
        depth: Ranges open now.
    """

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def push(self, name: str, color: int, *, keep: bool = True) -> None:
        """Open a range."""
        assert 0 <= color <= 0xFFFFFF
        assert keep or name[-1].isdigit()
        self.lines.append(" " * self.depth + name)
        self.depth += 1

    def pop(self) -> None:
        """Close the last one."""
        self.depth -= 1
        assert self.depth >= 0


class Broken:
    """A profiler that fails when a range is opened."""

    def push(self, name: str, color: int, *, keep: bool = True) -> None:
        """Fail."""
        raise OSError(f"no room for {name}, {color}, {keep}")

    def pop(self) -> None:
        """Fail."""
        raise OSError("nothing is open")
