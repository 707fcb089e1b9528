"""Files of rules over kernel names are read and applied, and wrong files give errors."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_fixtures import LAYOUT, TRITON

from nsyswrap.base.errors import UsageError
from nsyswrap.hardware.kernel_names.classify import FROM_FILE, Verdict, classify
from nsyswrap.hardware.kernel_names.user_rules import SCHEMA, NameRule, read_rules, rules_in, rules_text


def file_of(*rules: object) -> str:
    """Return the text of a file with these rules."""
    return json.dumps({"schema": SCHEMA, "rules": rules})


def test_a_rule_from_a_file_comes_before_the_built_in_rules() -> None:
    learned = (NameRule(TRITON, is_prefix=False, verdict=Verdict.TENSOR, precision="bf16", op="gemm"),)
    assert classify(TRITON).verdict is Verdict.UNKNOWN
    found = classify(TRITON, (9, 0), learned)
    assert (found.verdict, found.precision, found.op, found.rule) == (Verdict.TENSOR, "bf16", "gemm", FROM_FILE)


def test_a_prefix_decides_for_all_names_that_begin_with_it() -> None:
    learned = (NameRule("triton_tem_fused_mm", is_prefix=True, verdict=Verdict.TENSOR),)
    assert classify("triton_tem_fused_mm_17", learned=learned).verdict is Verdict.TENSOR
    assert classify("triton_tem_fused_bmm_17", learned=learned).rule != FROM_FILE


def test_the_spelling_of_the_tool_does_not_matter() -> None:
    """Tools write casts and anonymous namespaces differently. The star of a pointer is not a wildcard."""
    learned = (NameRule(LAYOUT, is_prefix=False, verdict=Verdict.TENSOR),)
    other = LAYOUT.removeprefix("void ").replace("(bool)0", "0").replace("(bool)1", "1")
    assert classify(other, learned=learned).rule == FROM_FILE
    assert classify(other.replace("const T1 *", "const T1 XX"), learned=learned).rule != FROM_FILE


def test_the_first_of_several_rules_decides() -> None:
    first = NameRule("trit", is_prefix=True, verdict=Verdict.NOT_ELIGIBLE)
    learned = (first, NameRule(TRITON, is_prefix=False, verdict=Verdict.TENSOR))
    assert classify(TRITON, learned=learned).verdict is Verdict.NOT_ELIGIBLE


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=4)


@given(st.lists(st.tuples(names, st.booleans(), st.sampled_from(Verdict)), unique_by=lambda row: (row[0], row[1])))
def test_what_is_written_is_read_again(rows: list[tuple[str, bool, Verdict]]) -> None:
    rules = tuple(NameRule(*row, source='measured "so"') for row in rows)
    assert rules_in(rules_text(rules), "file") == rules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a file of kernel rules"),
        ('{"schema": "other/1", "rules": []}', "is not a file of kernel rules"),
        (json.dumps({"schema": SCHEMA, "rules": {}}), "is not a file of kernel rules"),
        (file_of("x"), "rule 1 is not an object"),
        (file_of({"kernel": "abcd", "verdict": "yes"}), '"verdict" must be one of tensor, simt_eligible'),
        (file_of({"kernel": "abcd"}), '"verdict" must be one of'),
        (file_of({"verdict": "tensor"}), 'needs either "kernel" or "prefix"'),
        (file_of({"kernel": "abcd", "prefix": "abcd", "verdict": "tensor"}), 'needs either "kernel" or "prefix"'),
        (file_of({"kernel": "abcd", "verdict": "tensor", "pattern": ".*"}), "has unknown fields: pattern"),
        (file_of({"kernel": 7, "verdict": "tensor"}), "kernel must be text"),
        (file_of({"kernel": "  ", "verdict": "tensor"}), "too short"),
        (file_of({"prefix": "abc", "verdict": "tensor"}), "too short"),
        (
            file_of({"kernel": "abcd", "verdict": "tensor"}, {"kernel": "abcd", "verdict": "unknown"}),
            "has two verdicts for abcd",
        ),
    ],
)
def test_a_wrong_file_is_an_error_that_says_where(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"my\.json") as caught:
        rules_in(text, "my.json")
    assert message in caught.value.message
    assert caught.value.hint


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_rules(tmp_path / "gone.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_rules(tmp_path / "bytes.json")


def test_the_example_in_the_documentation_is_a_file_of_rules() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "kernel_names.md").read_text(encoding="utf-8")
    example = page[page.index("```json") + len("```json") :].partition("```")[0]
    kinds = {rule.is_prefix for rule in rules_in(example, "docs/kernel_names.md")}
    assert kinds == {True, False}
