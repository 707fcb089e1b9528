"""The rules of the house, read off the source. `source_rules` reads; here each rule is asked, and shown to bite."""

import ast
from pathlib import Path

import pytest
import source_rules as rules
from source_rules import Module

# What lessons share: `common.py`, and packages such as `digits`.
NO_LESSONS = {"workloads.common"}
NSYSWRAP = rules.modules("nsyswrap")
WORKLOADS = rules.modules("workloads")
LESSONS = [each for each in WORKLOADS if each.package == "workloads" and each.name not in NO_LESSONS]
ALL = [*NSYSWRAP, *WORKLOADS, *rules.modules("tests", "tools", "bench")]


def source(text: str, name: str = "nsyswrap.db.load") -> list[Module]:
    """A file that is not on the disk."""
    return [Module(name, name.rpartition(".")[0], Path(name.replace(".", "/") + ".py"), text)]


def test_there_is_source_to_read() -> None:
    """An empty list of files would keep every rule."""
    assert {"nsyswrap", "nsyswrap.errors", "nsyswrap.capture"} <= {module.name for module in NSYSWRAP}


def test_modules_import_from_lower_layers_and_their_own_package() -> None:
    assert rules.layer_breaks(NSYSWRAP) == []


def test_every_module_stands_in_a_layer() -> None:
    assert rules.unplaced(NSYSWRAP) == []


def test_each_dependency_has_one_home() -> None:
    assert rules.strays(NSYSWRAP) == []


def test_nsyswrap_knows_nothing_of_the_workloads() -> None:
    assert rules.crossings(NSYSWRAP, frozenset({"workloads"})) == []


def test_the_workloads_know_nothing_of_nsyswrap() -> None:
    assert rules.crossings(WORKLOADS, frozenset({"nsyswrap"})) == []


def test_names_say_something() -> None:
    assert rules.empty_names(ALL) == []


def test_files_are_short() -> None:
    assert rules.long_files(ALL) == []


def test_functions_are_short() -> None:
    assert rules.long_functions(ALL) == []


def test_an_import_only_defines() -> None:
    assert rules.import_effects([*NSYSWRAP, *WORKLOADS]) == []


@pytest.mark.parametrize("module", LESSONS, ids=lambda each: each.name)
def test_a_workload_says_what_it_shows_and_expects(module: Module) -> None:
    """EXPECTS can be read without running the file: options -> rules of the findings, the first one on top."""
    assert ast.get_docstring(module.tree)
    values = {
        node.targets[0].id: node.value
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    expects = ast.literal_eval(values["EXPECTS"])
    by_options = expects if isinstance(expects, dict) else {"": expects}
    assert by_options
    for options, rule_keys in by_options.items():
        assert isinstance(options, str)
        assert isinstance(rule_keys, tuple)
        assert all(isinstance(key, str) and "/" in key for key in rule_keys)


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("nsyswrap.model", "from nsyswrap import tables"),
        ("nsyswrap.model", "from nsyswrap.tables import Trace"),
        ("nsyswrap.units", "import nsyswrap.intervals"),
        ("nsyswrap.db.load", "from nsyswrap.capture import locate"),
        ("nsyswrap.db.load", "from ..analyses import base"),
        ("nsyswrap.db.load", "def f():\n    from nsyswrap.report import build"),
        ("nsyswrap.compare", "from nsyswrap.render.html_report import render"),
        ("nsyswrap.render.html_report", "from nsyswrap.cli import cli"),
        ("nsyswrap.db.load", "import importlib\nx = importlib.import_module('nsyswrap.report')"),
        ("nsyswrap.db.load", "from nsyswrap.unheard import of"),
    ],
)
def test_an_import_that_does_not_go_down_is_seen(importer: str, line: str) -> None:
    known = source("", "nsyswrap.tables")
    assert rules.layer_breaks([*source(line, importer), *known])


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("nsyswrap.db.load", "from nsyswrap import __version__"),
        ("nsyswrap.db.load", "from nsyswrap.db.schema import TABLES"),
        ("nsyswrap.db.load", "from . import schema"),
        ("nsyswrap.db.load", "from nsyswrap import tables"),
        ("nsyswrap.intervals", "from nsyswrap.errors import UsageError"),
        ("nsyswrap.report", "from nsyswrap.render import RENDERERS"),
        ("nsyswrap.__main__", "from nsyswrap.cli import cli"),
    ],
)
def test_an_import_that_goes_down_is_let_through(importer: str, line: str) -> None:
    known = source("", "nsyswrap.tables")
    assert rules.layer_breaks([*source(line, importer), *known]) == []


def test_a_module_in_no_layer_is_seen() -> None:
    assert rules.unplaced(source("", "nsyswrap.extras.more"))


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("nsyswrap.report", "import click"),
        ("nsyswrap.report", "from sqlalchemy.sql import select"),
        ("nsyswrap.sections.ledger", "import adbc_driver_sqlite.dbapi"),
        ("nsyswrap.cli.profile", "import subprocess"),
        ("nsyswrap.capture.nsys", "import torch"),
        ("nsyswrap.renderer", "import jinja2"),
    ],
)
def test_a_dependency_away_from_home_is_seen(importer: str, line: str) -> None:
    assert rules.strays(source(line, importer))


def test_a_dependency_at_home_is_let_through() -> None:
    assert rules.strays(source("import subprocess", "nsyswrap.capture.nsys")) == []
    assert rules.strays(source("import torch", "nsyswrap.capture.annotate.phases")) == []


@pytest.mark.parametrize("name", ["nsyswrap.db.utils", "nsyswrap.core.load", "nsyswrap._helpers", "nsyswrap.common"])
def test_a_name_that_says_nothing_is_seen(name: str) -> None:
    assert rules.empty_names(source("", name))


def test_the_one_common_module_is_let_through() -> None:
    assert rules.empty_names(source("", "workloads.common")) == []


def test_one_line_too_many_is_seen() -> None:
    assert rules.long_files(source("x = 1\n" * 400)) == []
    assert rules.long_files(source("x = 1\n" * 401))
    assert rules.long_functions(source("def f():\n" + "    x = 1\n" * 39)) == []
    assert rules.long_functions(source("class C:\n    def f():\n" + "        x = 1\n" * 40))


@pytest.mark.parametrize(
    "text",
    [
        "print('hello')",
        "main()",
        "x = open('file')",
        "import os\nos.environ['A'] = 'b'",
        "import sys\nsys.path.insert(0, '')",
        "import pandas as pd\npd.options.mode.copy_on_write = True",
        "import warnings\nwarnings.filterwarnings('ignore')",
        "TEXT = HERE.joinpath('a').read_text()",
        "for x in range(3):\n    pass",
        "with lock:\n    pass",
        "class C:\n    print('hello')",
        "if True:\n    print('hello')",
        "try:\n    import a\nexcept ImportError:\n    print('no a')",
        "import time\ndef f(now=time.time()): ...",
        "import atexit\n@atexit.register\ndef f(): ...\natexit.register(f)",
    ],
)
def test_an_import_with_an_effect_is_seen(text: str) -> None:
    assert rules.import_effects(source(text))


@pytest.mark.parametrize(
    "text",
    [
        "'''Docstring.'''\nimport os\nfrom a import b",
        "A, B = 1, 2\nC: int = 3",
        "import re\nPATTERN = re.compile('a')",
        "def f():\n    print(open('file').read())",
        "F = lambda: print('hello')",
        "import logging\nLOG = logging.getLogger(__name__)",
        "import click\n@click.group()\ndef cli(): ...\ncli.add_command(x)",
        "NAMES = {}\nNAMES['a'] = 1",
        "if __name__ == '__main__':\n    main()",
        "if TYPE_CHECKING:\n    import pandas",
        "class C:\n    '''Docstring.'''\n    x: int = 3",
    ],
)
def test_an_import_that_only_defines_is_let_through(text: str) -> None:
    assert rules.import_effects(source(text)) == []
