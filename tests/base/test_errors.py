"""The errors that nsyswrap raises on purpose: message, hint and exit code of each."""

import inspect

import pytest

from nsyswrap.base import errors
from nsyswrap.base.errors import CaptureError, ExportError, NsyswrapError

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, NsyswrapError)]
EXIT_CODES = {
    "NsyswrapError": 1,
    "UsageError": 2,
    "CannotTellError": 3,
    "UnfinishedError": 4,
    "CaptureError": 125,
    "NsysNotFoundError": 125,
    "CommandNotExecutableError": 126,
    "CommandNotFoundError": 127,
    "ExportError": 1,
}


def test_every_error_has_an_exit_code_here() -> None:
    """Scripts rely on the exit codes."""
    assert {each.__name__: each.exit_code for each in CLASSES} == EXIT_CODES


def test_an_error_carries_a_message_and_perhaps_a_hint() -> None:
    raised = NsyswrapError("what is wrong", hint="what to do")
    assert (str(raised), raised.message, raised.hint) == ("what is wrong", "what is wrong", "what to do")
    assert NsyswrapError("what is wrong").hint == ""


def test_one_except_catches_all_that_is_raised_on_purpose() -> None:
    assert all(issubclass(each, NsyswrapError) for each in CLASSES)
    assert not issubclass(ExportError, CaptureError)


@pytest.mark.parametrize("error", CLASSES)
def test_the_tree_in_the_documentation_is_correct(error: type[NsyswrapError]) -> None:
    """Every class is in the module's tree, below its parent and further right."""
    drawing = (errors.__doc__ or "").splitlines()
    places = {
        each.__name__: (row, line.index(each.__name__))
        for each in CLASSES
        for row, line in enumerate(drawing)
        if each.__name__ in line.split()
    }
    parent = error.__mro__[1]
    if parent is not Exception:
        assert all(above < below for above, below in zip(places[parent.__name__], places[error.__name__], strict=True))
