"""No advice speaks of PyTorch to a program that is not one of PyTorch, whatever the finding."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

import pytest
from real_captures import RealContext, of_captures

import nsyswrap.rules
import nsyswrap.sections
from nsyswrap.render.report_cards import cards, line_command
from nsyswrap.report import report_of
from nsyswrap.rules import rule_of
from nsyswrap.rules.program_kind import Framework, ProgramKind, Wording
from nsyswrap.sections.idle_advice import OWN_RULES

OF_PYTORCH = re.compile(
    r"torch|DataLoader|\.item\(|\.cpu\(|autocast|num_workers|pin_memory|non_blocking|fused=|persistent_workers|Lightning"
    r"|DistributedDataParallel|FSDP|fully_shard|bucket_cap|no_sync|loader|training (?:loop|process)|Python|\bGIL\b"
)
# Python is also the language of JAX and of engines.
ALSO_OF_PYTHON = re.compile(r"torch|DataLoader|\.item\(|\.cpu\(|autocast|num_workers|pin_memory|non_blocking|fused=")
# Faults that lead to many of the rules.
FAULTS = (
    *("launch_bound", "synchronization", "pageable_copies", "exposed_copies", "allocator_churn", "optimizer_kernels"),
    *(
        "no_tensor_cores",
        "channels_first",
        "one_product_each",
        "small_grids",
        "layer_norms_by_hand",
        "exposed_communication",
    ),
)


def wordings() -> Iterator[tuple[str, Wording]]:
    """Yield each wording of the modules of sections and of rules, with its place."""
    packages = (nsyswrap.rules, nsyswrap.sections)
    found = (
        each.name for package in packages for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    )
    for module in map(importlib.import_module, found):
        for name, value in vars(module).items():
            if name.isupper():
                yield from ((f"{module.__name__}.{name}", each) for each in held(value))


def held(value: object) -> Iterator[Wording]:
    if isinstance(value, Wording):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from held(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from held(getattr(value, field.name))


@pytest.mark.parametrize("kind", [kind for kind in Framework if not ProgramKind(kind).is_pytorch])
def test_no_sentence_for_other_programs_speaks_of_pytorch(kind: Framework) -> None:
    pattern = ALSO_OF_PYTHON if kind in {Framework.JAX, Framework.SERVER} else OF_PYTORCH
    texts = [(place, ProgramKind(kind).fitted(wording)) for place, wording in wordings()]
    assert [each for each in texts if pattern.search(each[1])] == []
    known = r"\{(?:share|warm|range|library|optimizer|place|change)\}"
    assert [each for each in texts if "{" in re.sub(known, "", each[1])] == []


def test_there_are_wordings() -> None:
    """The test above looks at the advice of all sections."""
    assert len(list(wordings())) > 40


def test_advice_for_all_programs_does_not_speak_of_pytorch() -> None:
    """What is marked by nsyswrap in PyTorch alone may."""
    of_pytorch = {"host/checkpoint", "host/tokenizer", "idle/garbage_collection"}
    texts = [(rule, text) for rule in OWN_RULES for text in (rule_of(rule).headline, rule_of(rule).advice)]
    for_all = [(rule, text) for rule, text in texts if rule not in of_pytorch and not isinstance(text, Wording)]
    assert [each for each in for_all if OF_PYTORCH.search(each[1])] == []


@pytest.mark.slow
@of_captures(FAULTS, few={"launch_bound", "no_tensor_cores", "exposed_communication"})
def test_no_finding_speaks_of_pytorch_to_other_programs(name: str, real_context: RealContext) -> None:
    """The programs of these captures are PyTorch's; here they count as programs in C++ that launch graphs."""
    kind = ProgramKind(Framework.OTHER, uses_graphs=True)
    report = report_of(replace(real_context(f"faults/{name}"), program_kind=kind))
    assert report.findings
    for finding in report.findings:
        for text in (finding.headline, finding.advice):
            assert type(text) is str
            assert not OF_PYTORCH.search(text), finding.rule
            assert not re.search(r"(?:use|[:,] )CUDA graphs", text)
    shown = cards(report)
    assert not any(card.code for card in shown)
    labels = [card.effect.label for card in shown if card.effect]
    for text in (report.verdict, line_command(report), *report.plan.notes, *labels):
        assert not OF_PYTORCH.search(text)
    for section in report.sections:
        assert not [note for note in section.notes if OF_PYTORCH.search(note)], section.key
