"""The rules over kernel names: each example matches its rule first, patterns are cheap, fields are known."""

import re
from re import _constants as codes  # type: ignore[attr-defined]  # the parser of re, to read patterns with
from re import _parser as parser  # type: ignore[attr-defined]

import pytest

from nsyswrap.hardware.kernel_names.classify import RULES, UNMATCHED, Rule, Verdict, classify, subject
from nsyswrap.hardware.kernel_names.readers import PRECISIONS, READERS, value_of

MATRIX = {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
EXAMPLES = [(rule, example) for rule in RULES for example in rule.examples]
LONGEST_REPETITION = 400


def key_of(value: object) -> str:
    """Return a rule's key, to name a test case."""
    return value.key if isinstance(value, Rule) else str(value)[:60]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES, ids=key_of)
def test_each_example_is_decided_by_its_rule_and_no_earlier_one(rule: Rule, example: str) -> None:
    text = subject(example)
    assert next(each.key for each in RULES if each.pattern.search(text)) == rule.key
    assert classify(example).verdict is rule.verdict


@pytest.mark.parametrize("rule", RULES, ids=key_of)
def test_each_rule_has_examples_and_a_source(rule: Rule) -> None:
    assert rule.examples
    assert rule.source.strip()


def test_keys_are_unique_words() -> None:
    keys = [rule.key for rule in RULES]
    assert len(set(keys)) == len(keys)
    assert UNMATCHED not in keys
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in keys)


@pytest.mark.parametrize("rule", RULES, ids=key_of)
def test_fields_are_values_or_known_readers(rule: Rule) -> None:
    for field in (rule.precision, rule.library, rule.op):
        assert field in READERS if field.startswith("@") else re.fullmatch(r"[a-z0-9_.]*", field)


@pytest.mark.parametrize("rule", RULES, ids=key_of)
def test_precision_belongs_to_matrix_work(rule: Rule) -> None:
    """A rule with the verdict not_eligible or unknown has no precision."""
    assert rule.precision == "" or rule.verdict in MATRIX


@pytest.mark.parametrize(("rule", "example"), EXAMPLES, ids=key_of)
def test_precisions_are_known_words(rule: Rule, example: str) -> None:
    assert classify(example).precision in PRECISIONS | {""}, rule.key


def repetitions(pattern: object, depth: int = 0) -> list[tuple[int, int]]:
    """Return the upper bound of each repetition in a parsed pattern, and in how many repetitions it is nested."""
    found = []
    for code, value in pattern:  # type: ignore[attr-defined]
        if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
            _, most, inner = value
            found += [(int(most), depth), *repetitions(inner, depth + (most > 1))]
        elif code is codes.BRANCH:
            found += [each for branch in value[1] for each in repetitions(branch, depth)]
        elif code is codes.SUBPATTERN:
            found += repetitions(value[-1], depth)
        elif code in {codes.ASSERT, codes.ASSERT_NOT}:
            found += repetitions(value[1], depth)
    return found


@pytest.mark.parametrize("rule", RULES, ids=key_of)
def test_no_pattern_can_backtrack_without_bound(rule: Rule) -> None:
    """Repetitions are bounded, except runs of digits."""
    for most, _ in repetitions(parser.parse(rule.pattern.pattern)):
        assert most <= LONGEST_REPETITION or is_harmless(rule.pattern.pattern)


def is_harmless(pattern: str) -> bool:
    r"""Return whether only runs of digits are unbounded, `\d+` or `(?:_\d+)*`, which cannot overlap what follows."""
    rest = pattern.replace(r"(?:_\d+)*", "").replace(r"\d+", "")
    return all(most <= LONGEST_REPETITION for most, _ in repetitions(parser.parse(rest)))


def test_unbounded_repetitions_are_seen() -> None:
    """The check for unbounded repetitions finds them."""
    assert not is_harmless(r"a\w*b")
    assert not is_harmless(r"^[^<]*x")
    assert is_harmless(r"sm\d+_xmma")
    assert repetitions(parser.parse(r"(?:a{0,3}b|c{1,2})x?")) == [(3, 0), (2, 0), (1, 0)]


@pytest.mark.parametrize("name", sorted(READERS))
def test_readers_are_tried_in_order_and_each_line_can_win(name: str) -> None:
    """An empty pattern matches everything, so it may only be the last one."""
    patterns = [pattern for pattern, _ in READERS[name]]
    assert "" not in patterns[:-1]
    assert len(set(patterns)) == len(patterns)


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("", "x", ""),
        ("gemm", "x", "gemm"),
        ("@nvjet", "nvjet_sm90_hsh_64x8", "fp16"),
        ("@nvjet", "nvjet_qqtst_112x128", "fp8"),
        ("@nvjet", "nvjet_sm100_oosss_128x256", "fp4"),
        ("@nvjet", "nvjet_sm90_xyz_1x1", ""),
        ("@xmma", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn", "tf32"),
        ("@xmma", "sm80_xmma_gemm_f32f32_f32f32_f32_tn", "fp32"),
        ("@xmma", "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn", "fp8"),
        ("@cutlass", "cutlass_80_tensorop_s1688gemm_64x64", "tf32"),
        ("@cutlass", "cutlass_tensorop_f16_s1688gemm_f16_64x64", "fp16"),
        ("@cutlass", "cutlass3x_sm120_bstensorop_s16864gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32", "fp4"),
        ("@cutlass", "cutlass3x_sm120_bstensorop_s16832gemm_block_scaled_ue8m0xe4m3_ue8m0xe4m3_f32", "fp8"),
        ("@instruction", "turing_s1688cudnn_fp16_128x128", "fp16"),
        ("@instruction", "ampere_s1688gemm_128x128", "tf32"),
        ("@trtllm_gen", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128", "fp8"),
    ],
)
def test_values_are_read_as_names_spell_them(field: str, name: str, value: str) -> None:
    assert value_of(field, name) == value
