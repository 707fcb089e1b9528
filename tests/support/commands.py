"""Commands of nsyswrap, run in the process of a test."""

import json
from typing import Any

from click.testing import CliRunner, Result

from nsyswrap.cli import cli


def run(*words: object, **settings: Any) -> Result:  # noqa: ANN401 - what click's runner takes
    """Run a command; an unexpected exception fails the test.

    Args:
        words: The command and its arguments.
        settings: What click's runner takes, such as ``env`` or ``input``.
    """
    result = CliRunner().invoke(cli, list(map(str, words)), **settings)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def in_json(*words: object) -> dict[str, Any]:
    """Return the JSON output of a command."""
    found: dict[str, Any] = json.loads(run(*words, "--format", "json").stdout)
    return found
