"""The content of the result of `nsyswrap verify` in its forms."""

import json

from made_results import verification

from nsyswrap.experiments.verify_checks import WorkOutcome
from nsyswrap.render import documents
from nsyswrap.render.document import Hero
from nsyswrap.render.verification_document import MARKER, SCHEMA, document


def shown(form: str, work: WorkOutcome = WorkOutcome.SAME) -> str:
    """Return a result in a form, with single spaces."""
    return " ".join(documents.render("verification", form, verification(work=work)).split())


def test_other_work_is_named_before_the_checks() -> None:
    text = shown("text", WorkOutcome.OTHER)
    assert text.startswith("nsyswrap verify fast.py against train.py NEW does other work: in step 3, NEW of fast.py")
    assert text.index("rounding explains 1.2e-05") < text.index("optimizer steps 8 optimizer steps")


def test_the_same_work_has_the_times_of_all_runs() -> None:
    text = shown("text")
    assert "NEW does the same work as BASE and is 1.25 times as fast (1.2" in text
    assert "BASE 10.0 ms BASE 10.1 ms BASE 9.90 ms NEW 8.00 ms" in text
    page, (bars,) = shown("html"), [each for each in document(verification()).lead if isinstance(each, Hero)]
    assert [(bar.name, bar.amount) for bar in bars.bars] == [("BASE", "10.00 ms"), ("NEW", "8.00 ms")]
    assert bars.bars[1].range.startswith("7.")
    assert "How sure: measured, step of 3 runs each" in page
    assert "What differs" not in text


def test_json_holds_checks_ratio_and_times() -> None:
    found = json.loads(documents.render("verification", "json", verification()))
    assert (found["schema"], found["outcome"], found["passes"]) == (SCHEMA, "same work, faster", True)
    assert found["timing"]["ratio"]["low"] < 0.8 < found["timing"]["ratio"]["high"]
    assert [each["name"] for each in found["checks"]] == ["optimizer steps", "losses"]
    assert len(found["timing"]["base_ns"]) == 3


def test_markdown_begins_with_the_hidden_marker() -> None:
    assert shown("markdown", WorkOutcome.OTHER).startswith(f"{MARKER} ### nsyswrap verify: other work")
