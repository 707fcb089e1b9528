"""Measured alternatives as a file has them."""

from nsyswrap.base.interval import Interval
from nsyswrap.events.alternatives import Alternative, MeasuredAlternative, MeasuredAlternatives, read_alternatives
from nsyswrap.events.xray_record import RecordedOperator, Tensor


def test_what_is_shared_is_read_again_without_texts() -> None:
    """A rounding mode is left out, as in the X-ray step of a redacted export."""
    weight = Tensor((8, 4), (4, 1), "float16", 0)
    result = MeasuredAlternative(2.0, 1.0, Interval(0.4, 0.5, 0.6))

    def of(mode: str | None) -> MeasuredAlternatives:
        operator = RecordedOperator("aten::div", inputs=(weight, 2, mode), outputs=(weight,))
        return MeasuredAlternatives("NVIDIA H100", {Alternative("compiled", (operator,), (weight,)): result})

    assert read_alternatives(of("floor").shared()) == of(None)
    assert MeasuredAlternatives().shared() == {}
