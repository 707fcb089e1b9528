"""tools/judge_alternatives.py: each operator computes the same when edited, and rows say how far shares are apart."""

import judge_alternatives
import pytest
import torch
from judge_alternatives import GROUPS, row

EDITED = [
    (group, name) for group, found in GROUPS.items() for name, each in found.items() if each.edited and not each.wide
]


@pytest.mark.parametrize(("group", "name"), EDITED)
def test_the_edited_operator_computes_the_same(group: str, name: str) -> None:
    """On small tensors; a chain is compared with itself, as compiling it takes long."""
    judged = GROUPS[group][name]
    inputs = [torch.randn(*(min(size, 8) for size in shape)) for shape in judged.shapes]
    wanted = judged.function(*inputs)
    edited = judged.function if judged.kind == "compiled" or judged.edited is None else judged.edited
    torch.testing.assert_close(edited(*inputs), wanted, rtol=1e-3, atol=1e-3)


def test_shares_agree_within_a_tenth() -> None:
    judged = GROUPS["products"]["vocabulary"]
    text, agrees = row("vocabulary", judged, [0.4, 0.54, 0.6], [0.4, 0.5, 0.6])
    assert agrees
    assert text == "| vocabulary | padded | 0.540 (0.400 to 0.600) | 0.500 (0.400 to 0.600) | +8.0% |"
    assert not row("vocabulary", judged, [0.4, 0.56, 0.6], [0.4, 0.5, 0.6])[1]
    assert not row("vocabulary", judged, "not picked", [0.4, 0.5, 0.6])[1]


@pytest.mark.parametrize("group", GROUPS)
def test_a_step_runs_each_operator_forward_and_backward(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU and small tensors; what an optimizer changes has a gradient then, and the edited ones run, too."""
    monkeypatch.setattr(judge_alternatives, "DEVICE", "cpu")
    small = {
        name: each._replace(
            dtype="float32",
            shapes=[[min(size, 8) for size in shape] for shape in each.shapes],
            wide=[],
            edited=None if each.kind == "compiled" else each.edited,
        )
        for name, each in GROUPS[group].items()
    }
    monkeypatch.setattr(judge_alternatives, "GROUPS", {group: small})
    monkeypatch.setattr(judge_alternatives, "_milliseconds", lambda run, _: run())
    layers = judge_alternatives.Layers(group)
    layers.step()
    assert len(layers.parameters) >= len(small) - 1
    assert all(each.grad is not None for each in layers.parameters)
    for each in small.values():
        judge_alternatives._variant(each, edited=True)  # noqa: SLF001
