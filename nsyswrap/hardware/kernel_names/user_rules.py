"""Rules over kernel names from a file, for kernels whose names say nothing or mislead.

The file is JSON. A rule holds the whole name of a kernel or a prefix of it, and no patterns, whose cost has no bound::

    {"schema": "nsyswrap.kernel_rules/1",
     "rules": [{"kernel": "triton_tem_fused_mm_0", "verdict": "tensor", "precision": "bf16", "op": "gemm",
                "source": "Nsight Compute 2025.3.1 on NVIDIA H100: 4,096 matrix instructions, most HGMMA"},
               {"prefix": "my_attention_", "verdict": "tensor"}]}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsyswrap.base.errors import UsageError
from nsyswrap.base.text_file import read_text_file
from nsyswrap.hardware.kernel_names.rule import Verdict

SCHEMA = "nsyswrap.kernel_rules/1"
_TEXTS = ("precision", "library", "op", "source")
_HINT = "docs/kernel_names.md shows such a file; 'nsyswrap verify-tensor-cores --save-rules FILE' writes one"
# A shorter prefix would match unrelated kernels.
_SHORTEST_PREFIX = 4
# More than the kernels of any program, so that a wrong file is refused quickly.
_MOST_RULES = 100_000


@dataclass(frozen=True, slots=True)
class NameRule:
    """The verdict on one kernel, or on all whose names have a prefix.

    Attributes:
        kernel: The name or the prefix, in the spelling of any tool.
        is_prefix: Whether ``kernel`` is a prefix.
        precision: Type of the operands; empty where unknown.
        library: Where the kernel comes from, or empty.
        op: What it computes, or empty.
        source: Evidence for the verdict, or empty.
    """

    kernel: str
    is_prefix: bool
    verdict: Verdict
    precision: str = ""
    library: str = ""
    op: str = ""
    source: str = ""


def read_rules(path: Path) -> tuple[NameRule, ...]:
    """Return the rules of a file, in its order.

    Raises:
        UsageError: The file cannot be read, or is not a file of valid rules.
    """
    try:
        text = read_text_file(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read the kernel rules in {path}: {reason}", hint=_HINT) from error
    return rules_in(text, str(path))


def rules_in(text: str, place: str) -> tuple[NameRule, ...]:
    """Return the rules of a text.

    Raises:
        UsageError: The text is not a file of valid rules.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON: {error}", hint=_HINT) from error
    if not isinstance(whole, dict) or whole.get("schema") != SCHEMA or not isinstance(whole.get("rules"), list):
        raise UsageError(f'{place} is not a file of kernel rules: it lacks "schema": "{SCHEMA}" or "rules"', hint=_HINT)
    if len(whole["rules"]) > _MOST_RULES:
        raise UsageError(f"{place} holds more than {_MOST_RULES:,} rules", hint="use prefixes")
    rules = tuple(_rule(each, f"{place}, rule {count}") for count, each in enumerate(whole["rules"], 1))
    seen: dict[tuple[str, bool], Verdict] = {}
    for rule in rules:
        if seen.setdefault((rule.kernel, rule.is_prefix), rule.verdict) is not rule.verdict:
            raise UsageError(f"{place} has two verdicts for {rule.kernel}", hint="keep one of the two rules")
    return rules


def rules_text(rules: Sequence[NameRule]) -> str:
    """Return the text of a file with these rules."""
    rows = [
        {
            "prefix" if rule.is_prefix else "kernel": rule.kernel,
            "verdict": str(rule.verdict),
            **{key: getattr(rule, key) for key in _TEXTS if getattr(rule, key)},
        }
        for rule in rules
    ]
    return json.dumps({"schema": SCHEMA, "rules": rows}, indent=2, ensure_ascii=False) + "\n"


def _rule(row: object, place: str) -> NameRule:
    if not isinstance(row, dict):
        raise UsageError(f"{place} is not an object", hint=_HINT)
    fields: Mapping[str, Any] = row
    foreign = sorted(set(fields) - {"kernel", "prefix", "verdict", *_TEXTS})
    if foreign:
        raise UsageError(f"{place} has unknown fields: {', '.join(foreign)}", hint=_HINT)
    wrong = sorted(key for key, value in fields.items() if not isinstance(value, str))
    if wrong:
        raise UsageError(f"{place}: {', '.join(wrong)} must be text", hint=_HINT)
    if ("kernel" in fields) == ("prefix" in fields):
        raise UsageError(f'{place} needs either "kernel" or "prefix"', hint=_HINT)
    if fields.get("verdict") not in set(Verdict):
        raise UsageError(f'{place}: "verdict" must be one of {", ".join(Verdict)}', hint=_HINT)
    name = fields.get("kernel", fields.get("prefix", "")).strip()
    if len(name) < (_SHORTEST_PREFIX if "prefix" in fields else 1):
        raise UsageError(f"{place}: the name is too short to identify a kernel", hint=_HINT)
    texts = {key: fields.get(key, "") for key in _TEXTS}
    return NameRule(name, "prefix" in fields, Verdict(fields["verdict"]), **texts)
