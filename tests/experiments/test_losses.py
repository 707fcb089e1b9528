"""Whether changes alter the losses of a program by more than they imply."""

import pytest

from nsyswrap.experiments.losses import compare_losses
from nsyswrap.experiments.request import Answer


def run(*losses: float) -> Answer:
    """Return a run with some losses."""
    return Answer(0, ({"event": "timed", "losses": list(losses), "step_ns": [1.0]},))


BASE = run(2.0, 1.0, 0.5)


@pytest.mark.parametrize(
    ("new", "alters", "agree"),
    [
        (BASE, "nothing", True),
        (run(2.0, 1.0, 0.5001), "nothing", False),
        (run(2.0, 1.0, 0.599), "rounding", True),
        (run(2.0, 1.0, 0.601), "rounding", False),
        (run(2.0, 1.0, 0.9), "random numbers", None),
        (run(2.0, 1.0, 0.9), "mathematics", None),
    ],
)
def test_losses_may_differ_by_what_the_changes_imply(
    new: Answer,
    alters: str,
    agree: bool | None,  # noqa: FBT001 - pytest passes it
) -> None:
    """Rounding may change a loss by five per cent of the largest one: 0.1 here."""
    assert compare_losses([BASE, BASE], [new], alters).agree is agree


def test_a_program_that_does_not_repeat_itself_proves_nothing() -> None:
    """Its own runs differ by 0.02; four times as much says nothing of a change."""
    own = [BASE, run(2.0, 1.02, 0.5)]
    assert compare_losses(own, [run(2.0, 1.079, 0.5)], "nothing").agree is None
    assert compare_losses(own, [run(2.0, 1.081, 0.5)], "nothing").agree is False


def test_a_program_without_losses_cannot_be_compared() -> None:
    found = compare_losses([run()], [BASE], "nothing")
    assert found.agree is None
    assert "no backward pass" in found.words


def test_the_same_losses_are_called_the_same() -> None:
    assert compare_losses([BASE], [BASE], "rounding").words == (
        "The losses of the first 3 steps are the same, bit for bit."
    )
