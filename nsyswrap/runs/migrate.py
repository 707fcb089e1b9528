"""Brings the tables of a database to this version of nsyswrap, in one transaction and by one process at a time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, inspect, text

from nsyswrap.runs.database import HistoryError, reading, writing
from nsyswrap.runs.tables import HEAD

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

FOLDER = Path(__file__).parent / "migrations"
# Alembic's own table: one row with the version of the tables.
VERSION_TABLE = "alembic_version"
# Any number, the same in each nsyswrap: who holds it may change the tables.
_POSTGRES_LOCK = 0x6E737973


def migrate(engine: Engine) -> None:
    """Make or change the tables where they are older than this nsyswrap.

    A second process that comes at the same time waits, and then finds nothing to do.

    Raises:
        HistoryError: A newer nsyswrap wrote the history, or it is no history.
    """
    with reading(engine) as connection:
        if _version(connection) == HEAD:
            return
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _POSTGRES_LOCK})
        version = _version(connection)
        if version != HEAD:
            from alembic.migration import MigrationContext  # noqa: PLC0415 - loaded only where tables are made or changed
            from alembic.operations import Operations  # noqa: PLC0415
            from alembic.script.revision import ResolutionError  # noqa: PLC0415

            steps = scripts()
            try:
                changes: list[Any] = list(steps.iterate_revisions("head", version or "base"))
            except ResolutionError as error:
                raise HistoryError(
                    f"the history has version {version[:20] if version else ''}, which this nsyswrap does not know",
                    hint="update nsyswrap, or give another database in NSYSWRAP_DB",
                ) from error
            context = MigrationContext.configure(connection)
            with Operations.context(context):
                for change in reversed(changes):
                    change.module.upgrade()
                    context.stamp(steps, change.revision)


def _version(connection: Connection) -> str | None:
    """Return the version of the tables; None for a database without a history."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return version


def scripts() -> "ScriptDirectory":
    """Return the migrations in the package."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - loaded only where tables are made or changed

    return ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER)])
