"""Each rule is one record, and its key is written in at most two places: the record, and the code that finds it."""

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsyswrap.attribution.attribution import RULES as OF_IDLE_TIME
from nsyswrap.attribution.causes import CAUSES as OF_ATTRIBUTION
from nsyswrap.rules import CAUSES, RULES, cause_name, rule_name, rule_of

if TYPE_CHECKING:
    from nsyswrap.rules.rule import Advice

PACKAGE = Path(__file__).resolve().parents[2] / "nsyswrap"
PARTS = (".py", ".js", ".j2", ".css", ".html")
SOURCES = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*")) if path.suffix in PARTS}
MOST_FILES = 2


@cache
def texts_of(path: Path) -> str:
    """Return the texts of a file: of Python each constant but docstrings, of other files the whole."""
    if path.suffix != ".py":
        return path.read_text("utf-8")
    tree = ast.parse(path.read_text("utf-8"))
    # A text that is a statement of its own describes something.
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in described]
    return "\0".join(each.value for each in constants if isinstance(each.value, str))


def tables_of_rules(source: str) -> list[int]:
    """Return the lines with a table by rule: a dictionary of several keys of rules, or of their records."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Dict) and sum(map(is_rule_key, node.keys)) > 1
    ]


def is_rule_key(node: ast.expr | None) -> bool:
    """Return whether an expression is the key of a rule: written, or taken from a record."""
    if isinstance(node, ast.Constant):
        return node.value in RULES
    return isinstance(node, ast.Attribute) and node.attr == "key" and ast.unparse(node.value).split(".")[-1].isupper()


def test_every_rule_key_stands_in_at_most_two_product_files() -> None:
    for key in RULES:
        written = [path for path, source in SOURCES.items() if key in source]
        found = [str(path.relative_to(PACKAGE)) for path in written if key in texts_of(path)]
        assert f"rules/{key.partition('/')[0]}.py" in found
        assert len(found) <= MOST_FILES, (key, found)


def test_a_third_file_with_a_key_is_found(tmp_path: Path) -> None:
    """A key in a docstring does not count, one in a script of the page does."""
    for name, text in (("a.py", "X = 'host/a'"), ("b.py", "'''As host/a.'''"), ("c.js", "if (rule === 'host/a') {}")):
        (tmp_path / name).write_text(text)
    found = [path.name for path in sorted(tmp_path.iterdir()) if "host/a" in texts_of(path)]
    assert found == ["a.py", "c.js"]


def test_no_other_file_holds_a_table_by_rule() -> None:
    """A file with neither the key of a rule nor a field of that name has none."""
    for path, source in SOURCES.items():
        if path.suffix == ".py" and (".key" in source or any(key in source for key in RULES)):
            assert tables_of_rules(source) == [], path


@pytest.mark.parametrize("source", ["{'idle/cpu': 1, 'idle/lock': 2}", "{idle.CPU.key: 1, LOCK.key: 2}"])
def test_a_table_by_rule_is_found(source: str) -> None:
    assert tables_of_rules(source) == [1]
    assert tables_of_rules("{idle.CPU.key: 1, 'cpu': 2, part.key: 3}") == []


def test_no_two_rules_have_the_same_name_or_key() -> None:
    assert len({each.name for each in RULES.values()}) == len(RULES)
    assert all(key == each.key and "_" not in each.name for key, each in RULES.items())


def test_each_cause_of_idle_time_has_a_name_and_a_meaning() -> None:
    """A cause that the attribution can give is never shown by its key."""
    assert tuple(CAUSES) == OF_ATTRIBUTION
    assert all(cause_name(cause) == rule_name(each.key) == each.name for cause, each in CAUSES.items())
    assert all(each.meaning.endswith(".") for each in CAUSES.values())


def test_each_rule_of_idle_time_has_a_record() -> None:
    assert set(OF_IDLE_TIME) <= set(RULES)


def test_a_rule_of_another_version_is_shown_by_its_words() -> None:
    assert rule_name("new_kind/odd_rule") == "new kind: odd rule"
    assert cause_name("odd_cause") == "odd cause"
    assert rule_of("new_kind/odd_rule").code == ()


def test_what_findings_say_is_sentences() -> None:
    said: list[Advice] = [each for rule in RULES.values() for each in (rule, *rule.cases)]
    assert all(text.endswith((".", "{warm}.")) for each in said for text in (each.headline, each.advice) if text)
