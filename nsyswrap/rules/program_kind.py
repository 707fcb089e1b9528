"""What kind of program a report is about, and sentences that fit it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Framework(StrEnum):
    """What launches the kernels of a program."""

    UNKNOWN = ""
    """Nothing shows it. Sentences are then those for PyTorch, whose programs nsyswrap is made for."""
    PYTORCH = "PyTorch"
    JAX = "JAX"
    SERVER = "inference engine"
    """An engine that serves a model, such as vLLM, SGLang, TensorRT-LLM or Triton: its users write no loop."""
    OPENACC = "OpenACC"
    OTHER = "CUDA"
    """Anything else: C++, Fortran, or another library of Python."""


@dataclass(frozen=True, slots=True)
class ProgramKind:
    """The kind of a program.

    Attributes:
        framework: What launches its kernels.
        uses_graphs: Whether it launches CUDA graphs already.
    """

    framework: Framework = Framework.UNKNOWN
    uses_graphs: bool = False

    @property
    def is_pytorch(self) -> bool:
        """Return whether the program is one of PyTorch, as far as the capture shows."""
        return self.framework in {Framework.UNKNOWN, Framework.PYTORCH}

    @property
    def may_be_python(self) -> bool:
        """Return whether lines of Python may run in the program, and samples of them may show more."""
        return self.framework not in {Framework.OPENACC, Framework.OTHER}

    def fitted(self, text: str) -> str:
        """Return a text in the words for this program: a ``Wording`` in its own, any other as it is."""
        if not isinstance(text, Wording):
            return text
        found = str(text) if self.is_pytorch else text.others.get(self.framework) or text.general
        return found.replace(IN_GRAPHS, MORE_IN_GRAPHS).replace(GRAPHS, MORE_IN_GRAPHS) if self.uses_graphs else found


UNKNOWN = ProgramKind()
# How an advice suggests CUDA graphs, and what it says to a program that uses some.
GRAPHS = "CUDA graphs"
IN_GRAPHS = f'{GRAPHS} (torch.compile(mode="reduce-overhead"))'
MORE_IN_GRAPHS = "more of the step inside the graphs that the program launches"


class Wording(str):
    """A sentence for programs of PyTorch, with those that say the same to others.

    It is a text: the one for PyTorch. ``ProgramKind.fitted`` chooses.

    Attributes:
        general: The sentence for any other program, in the terms of CUDA.
        others: The sentences for some kinds of programs, where the general one does not say enough.
    """

    __slots__ = ("general", "others")

    general: str
    others: dict[Framework, str]

    def __new__(cls, pytorch: str, general: str, **others: str) -> Self:
        """Make a wording.

        Args:
            pytorch: The sentence for PyTorch.
            general: The sentence for any other program.
            **others: Sentences by the name of a ``Framework`` in lower case: ``jax``, ``server``, ``openacc``.
        """
        made = super().__new__(cls, pytorch)
        made.general = general
        made.others = {Framework[name.upper()]: text for name, text in others.items()}
        return made

    def changed(self, change: Callable[[str], str]) -> "Wording":
        """Return the wording with each of its sentences changed in the same way."""
        others = {kind.name.lower(): change(text) for kind, text in self.others.items()}
        return Wording(change(str(self)), change(self.general), **others)

    def format(self, *values: object, **named: object) -> "Wording":
        """Return the wording with the fields of each sentence filled in."""
        return self.changed(lambda text: text.format(*values, **named))

    def replace(self, old: str, new: str, *count: Any) -> "Wording":  # noqa: ANN401 - as str has it
        """Return the wording with a part of each sentence replaced."""
        return self.changed(lambda text: text.replace(old, new, *count))

    def __add__(self, more: str) -> "Wording":
        """Return the wording with another text, or wording, after each of its sentences."""
        if not isinstance(more, Wording):
            return self.changed(lambda text: text + more)
        kinds = {*self.others, *more.others}
        others = {
            kind.name.lower(): self.others.get(kind, self.general) + more.others.get(kind, more.general)
            for kind in kinds
        }
        return Wording(str(self) + str(more), self.general + more.general, **others)


def joined(first: str, second: str) -> str:
    """Return two texts or wordings, one after the other, as a wording if one of them is one."""
    return (first if isinstance(first, Wording) else Wording(first, first)) + second
