"""What a kernel's name says: tensor cores or not, in which precision, whose kernel it is and what it computes.

The rules are data (``kernel_rules.RULES``); here a name is spelled as they see it, matched, and checked against what
the device can do. A name that says nothing stays unknown: it is never counted as a no.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nsyswrap.hardware.kernel_names.readers import value_of
from nsyswrap.hardware.kernel_names.rule import Rule, Verdict
from nsyswrap.hardware.kernel_names.rules import RULES
from nsyswrap.hardware.kernel_names.user_rules import NameRule

__all__ = ["RULES", "Classification", "Rule", "Verdict", "classify", "subject"]

UNMATCHED = "unmatched"
FROM_FILE = "kernel_rules"
# llama.cpp's quantised product: one name for two kinds of code, which the device tells apart.
BY_DEVICE = "llama_mmq"

Capability = tuple[int, int]

FIRST_WITH_TENSOR_CORES: Capability = (7, 0)
# First compute capability whose tensor cores take the type. Source: CUDA C++ Programming Guide, "Compute Capabilities".
FIRST_WITH: Mapping[str, Capability] = {
    "fp16": (7, 0),
    "int8": (7, 2),
    "int4": (7, 5),
    "bf16": (8, 0),
    "tf32": (8, 0),
    "fp8": (8, 9),
    "fp6": (10, 0),
    "fp4": (10, 0),
}
# FP64 products run on tensor cores of data-centre chips alone.
WITH_FP64: frozenset[Capability] = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})

# A name is cut here: what decides stands long before, and a hostile name must not cost more than a real one.
LONGEST = 16_384

_RETURN_TYPE = re.compile(r"^(?:std::enable_if<.{0,400}?>::type |typename |void |static |__global__ ){1,4}")
_HIDDEN = re.compile(
    r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\}|_GLOBAL__N_\w{0,120}?_cpp\w{0,80}|_GLOBAL__N_{1,2}\d{0,4})::"
)
_CASTS = re.compile(r"\((?:bool|char|int|long|short|signed|unsigned|size_t|ggml_type| ){1,6}\)(?=-?\d)")
_PART = re.compile(r"L?([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Classification:
    """What is said of one kernel name.

    Attributes:
        name: The name as it was given.
        verdict: Tensor cores, matrix work without them, no matrix work, or unknown.
        precision: Type of the operands where the kernel is matrix work and the name tells it, else empty.
        library: Whose kernel it is, or empty.
        op: What it computes, or empty.
        rule: Key of the rule that decided; ``unmatched`` if none did.
    """

    name: str
    verdict: Verdict
    precision: str
    library: str
    op: str
    rule: str


def classify(
    name: str, compute_capability: Capability | None = None, learned: Sequence[NameRule] = ()
) -> Classification:
    """Return what a kernel's name says.

    Args:
        name: The demangled name, from nsys, CUPTI or Nsight Compute; mangled names and short names work too, as far
            as they say anything.
        compute_capability: Of the device it ran on, such as (9, 0): a verdict that is impossible there is corrected.
            Without it, verdicts are those of a device that can do all that the name says.
        learned: Rules from a file; they come before all others, and are taken as they are.
    """
    text = subject(name)
    known = next((each for each in learned if _is_meant(each, text)), None)
    if known is not None:
        return Classification(name, known.verdict, known.precision, known.library, known.op, FROM_FILE)
    rule = next((each for each in RULES if each.pattern.search(text)), None)
    if rule is None:
        found = Classification(name, Verdict.UNKNOWN, "", "", "", UNMATCHED)
    else:
        told = rule.verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
        precision = value_of(rule.precision, text) if told else ""
        found = Classification(
            name, rule.verdict, precision, value_of(rule.library, text), value_of(rule.op, text), rule.key
        )
    return found if compute_capability is None else _on_device(found, compute_capability)


def subject(name: str) -> str:
    """Return a name as the rules see it: qualified function, then template arguments and parameters.

    Return types, anonymous namespaces and casts go, because each tool writes them differently; of a mangled name the
    function is decoded and the rest is kept as it is.
    """
    text = name[:LONGEST].strip()
    if text.startswith("_Z"):
        return _decoded(text)
    text = _RETURN_TYPE.sub("", text, count=1)
    return _CASTS.sub("", _HIDDEN.sub("", text))


def _is_meant(rule: NameRule, text: str) -> bool:
    """Whether a rule from a file is about the kernel of this subject."""
    meant = _subject_of_rule(rule.kernel)
    return text.startswith(meant) if rule.is_prefix else text == meant


@lru_cache(maxsize=4096)
def _subject_of_rule(kernel: str) -> str:
    return subject(kernel)


def _decoded(mangled: str) -> str:
    """Return ``a::b<rest`` for ``_ZN1a1bI...``: enough of the Itanium ABI to find the function."""
    at, parts = (3 if mangled.startswith("_ZN") else 2), []
    while (length := _PART.match(mangled, at)) is not None:
        at = length.end() + int(length[1])
        parts.append(mangled[length.end() : at])
    if not parts:
        return mangled
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) + "<" + mangled[at:]


def _on_device(found: Classification, capability: Capability) -> Classification:
    """Return the classification as it must be on a device.

    Without tensor cores nothing is eligible. FP64 has tensor cores on few chips. A product in a type that the device's
    tensor cores lack runs elsewhere, and could use another type.
    """
    verdict, precision = found.verdict, found.precision
    if found.rule == BY_DEVICE:
        verdict, precision = Verdict.TENSOR, "int8"
        if capability < (7, 5):
            verdict = Verdict.SIMT_ELIGIBLE
    is_matrix = verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
    if capability < FIRST_WITH_TENSOR_CORES or (is_matrix and precision == "fp64" and capability not in WITH_FP64):
        verdict = Verdict.NOT_ELIGIBLE
    elif verdict is Verdict.TENSOR and capability < FIRST_WITH.get(precision, FIRST_WITH_TENSOR_CORES):
        verdict = Verdict.SIMT_ELIGIBLE
    return Classification(found.name, verdict, precision, found.library, found.op, found.rule)
