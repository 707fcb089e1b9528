"""The rules over kernel names: each example matches its rule first, patterns are cheap, fields are known."""

import re
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the parser of re, to read patterns with
from re import _parser as parser  # type: ignore[attr-defined]

import pytest

from nsyswrap.hardware.kernel_names.classify import RULES, UNMATCHED, Verdict, classify, subject
from nsyswrap.hardware.kernel_names.readers import READERS, value_of

PRECISIONS = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4"}
MATRIX = {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
# The names of real kernels of each rule, below its key.
NAMES = Path(__file__).parents[2] / "data" / "kernel_rule_examples.txt"
PARTS = (part.splitlines() for part in re.split(r"(?m)^\[", NAMES.read_text(encoding="utf-8"))[1:])
OF_RULE = {key.removesuffix("]"): names for key, *names in PARTS}
EXAMPLES = [(rule, example) for rule in RULES for example in OF_RULE.get(rule.key, ())]
LONGEST_REPETITION = 400


def decided(example: str) -> tuple[str, Verdict]:
    """Return the key of the first rule that matches a name, and the verdict on the name."""
    text = subject(example)
    return next((each.key for each in RULES if each.pattern.search(text)), ""), classify(example).verdict


def test_each_example_is_decided_by_its_rule_and_no_earlier_one() -> None:
    wrong = {example: decided(example) for rule, example in EXAMPLES if decided(example) != (rule.key, rule.verdict)}
    assert not wrong


def test_each_rule_has_examples_and_a_source() -> None:
    assert [rule.key for rule in RULES if not OF_RULE.get(rule.key) or not rule.source.strip()] == []
    assert OF_RULE.keys() == {rule.key for rule in RULES}


def test_keys_are_unique_words() -> None:
    keys = [rule.key for rule in RULES]
    assert len(set(keys)) == len(keys)
    assert UNMATCHED not in keys
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in keys)


def test_fields_are_values_or_known_readers() -> None:
    fields = [(rule.key, field) for rule in RULES for field in (rule.precision, rule.library, rule.op)]
    unknown = [each for each in fields if each[1] not in READERS and not re.fullmatch(r"[a-z0-9_.]*", each[1])]
    assert unknown == []


def test_precision_belongs_to_matrix_work() -> None:
    """A rule with the verdict not_eligible or unknown has no precision."""
    assert [rule.key for rule in RULES if rule.precision and rule.verdict not in MATRIX] == []


def test_precisions_are_known_words() -> None:
    found = {(rule.key, classify(example).precision) for rule, example in EXAMPLES}
    assert {each for each in found if each[1] not in PRECISIONS | {""}} == set()


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


def test_no_pattern_can_backtrack_without_bound() -> None:
    assert [rule.key for rule in RULES if not is_harmless(rule.pattern.pattern)] == []


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


def test_readers_are_tried_in_order_and_each_line_can_win() -> None:
    """An empty pattern matches everything, so it may only be the last one."""
    patterns = {name: [pattern for pattern, _ in reader] for name, reader in READERS.items()}
    assert [name for name, each in patterns.items() if "" in each[:-1] or len(set(each)) < len(each)] == []


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
