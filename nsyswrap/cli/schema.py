"""`nsyswrap schema`: print the JSON Schema of report.json."""

import json
from pathlib import Path

import click

from nsyswrap.cli.output import file_options, write_result


@click.command()
@file_options
def schema(output: Path | None, force: bool) -> None:  # noqa: FBT001 - click passes a flag
    """Print the JSON Schema (2020-12) of report.json, for programs that read it.

    \b
      nsyswrap schema
      nsyswrap schema -o report.schema.json
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.render import json_report  # noqa: PLC0415 - so that --help stays fast

    write_result(json.dumps(json_report.schema(), indent=1) + "\n", output, force=force)
