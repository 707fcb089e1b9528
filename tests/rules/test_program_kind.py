"""A wording holds the same sentence for each kind of program; the kind of the program chooses."""

import pytest

from nsyswrap.rules.program_kind import MORE_IN_GRAPHS, UNKNOWN, Framework, ProgramKind, Wording, joined

LAUNCH = Wording(
    'Launch less: CUDA graphs (torch.compile(mode="reduce-overhead")), {what}.',
    "Launch less: CUDA graphs, {what}.",
    jax="One jit, {what}.",
)


@pytest.mark.parametrize(
    ("framework", "text"),
    [
        (Framework.UNKNOWN, "in PyTorch"),
        (Framework.PYTORCH, "in PyTorch"),
        (Framework.JAX, "in JAX"),
        (Framework.SERVER, "in CUDA"),
        (Framework.OTHER, "in CUDA"),
    ],
)
def test_each_kind_has_its_sentence(framework: Framework, text: str) -> None:
    """Where nothing shows the kind, it is PyTorch; kinds without a sentence share the general one."""
    assert ProgramKind(framework).fitted(Wording("in PyTorch", "in CUDA", jax="in JAX")) == text


def test_a_text_for_all_is_for_all() -> None:
    assert ProgramKind(Framework.JAX).fitted("Warm up.") == "Warm up."


def test_a_wording_is_the_text_for_pytorch() -> None:
    assert LAUNCH.startswith("Launch less")
    assert isinstance(UNKNOWN.fitted(LAUNCH), str)


def test_a_program_with_graphs_puts_more_into_them() -> None:
    """Neither its PyTorch nor its general sentence suggests what it does already."""
    for framework in (Framework.PYTORCH, Framework.OTHER):
        found = ProgramKind(framework, uses_graphs=True).fitted(LAUNCH)
        assert "CUDA graphs" not in found
        assert "reduce-overhead" not in found
        assert MORE_IN_GRAPHS in found


def test_fields_are_filled_in_for_all_kinds() -> None:
    found = LAUNCH.format(what="larger batches")
    assert ProgramKind(Framework.JAX).fitted(found) == "One jit, larger batches."
    assert ProgramKind(Framework.OTHER).fitted(found) == "Launch less: CUDA graphs, larger batches."
    assert ProgramKind(Framework.JAX).fitted(LAUNCH.replace("{what}", "more")) == "One jit, more."


def test_wordings_and_texts_can_be_joined() -> None:
    one, other = Wording("a", "b", jax="c"), Wording("1", "2", server="3")
    kinds = {"": "a1", "CUDA": "b2", "JAX": "c2", "inference engine": "b3"}
    for framework, text in kinds.items():
        assert ProgramKind(Framework(framework)).fitted(one + other) == text
    assert ProgramKind(Framework.JAX).fitted(joined("First. ", one)) == "First. c"
    assert joined("First. ", "Then.") == "First. Then."
