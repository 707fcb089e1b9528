"""The fixtures of the history, for the tests of this folder."""

from history_fixtures import database, history, postgres

__all__ = ["database", "history", "postgres"]
