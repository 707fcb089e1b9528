"""Fixtures of the history: the address of an empty database, on SQLite and on a real PostgreSQL server."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import postgres_server
import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from nsyswrap.runs.history import History, open_history

# The server is a process of its own.
KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server of the tests' own."""
    binaries = postgres_server.programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with postgres_server.server(binaries) as url:
        yield url


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "history.sqlite")
    server: str = request.getfixturevalue("postgres")
    # A schema is as empty as a database, and made in a tenth of the time.
    name = f"test_{secrets.token_hex(6)}"
    engine = create_engine(make_url(server).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture
def history(database: str) -> History:
    return open_history(database)
