"""The source follows the rules of `source_rules`, and each rule finds code that breaks it."""

import ast
from pathlib import Path

import pytest
import source_rules as rules
from source_rules import Module

NSYSWRAP = rules.modules("nsyswrap")
WORKLOADS = rules.modules("workloads")
# Programs; not the code that they share in `common.py` and in packages such as `digits`.
PROGRAMS = [each for each in WORKLOADS if each.package == "workloads" and each.name != "workloads.common"]
ALL = [*NSYSWRAP, *WORKLOADS, *rules.modules("tests", "tools", "bench")]


def source(text: str, name: str = "nsyswrap.trace.load") -> list[Module]:
    return [Module(name, name.rpartition(".")[0], Path(name.replace(".", "/") + ".py"), text)]


def test_there_is_source_to_read() -> None:
    """The rules below check files. Each would hold for an empty list of files."""
    assert {"nsyswrap", "nsyswrap.base.errors", "nsyswrap.capture"} <= {module.name for module in NSYSWRAP}


def test_modules_import_from_lower_layers_and_their_own_package() -> None:
    assert rules.layer_breaks(NSYSWRAP) == []


def test_no_import_leads_in_a_circle() -> None:
    """Imports in functions and under TYPE_CHECKING count too."""
    assert rules.import_circles(NSYSWRAP) == []


def test_every_module_is_in_a_layer() -> None:
    assert rules.unplaced(NSYSWRAP) == []


def test_every_package_has_a_docstring() -> None:
    assert rules.packages_without_docstring(NSYSWRAP) == []


def test_the_tests_mirror_the_packages() -> None:
    assert rules.unmirrored() == []


def test_dependencies_are_imported_only_where_they_may_be() -> None:
    assert rules.strays(NSYSWRAP) == []


def test_nsyswrap_imports_no_workload() -> None:
    assert rules.crossings(NSYSWRAP, frozenset({"workloads"})) == []


def test_no_workload_imports_nsyswrap() -> None:
    assert rules.crossings(WORKLOADS, frozenset({"nsyswrap"})) == []


def test_names_of_modules_say_what_they_hold() -> None:
    assert rules.empty_names(ALL) == []


def test_a_class_name_is_used_once() -> None:
    assert rules.repeated_classes(NSYSWRAP) == []


def test_an_import_only_defines() -> None:
    assert rules.import_effects([*NSYSWRAP, *WORKLOADS]) == []


@pytest.mark.parametrize("module", PROGRAMS, ids=lambda each: each.name)
def test_a_workload_says_what_it_shows_and_expects(module: Module) -> None:
    """EXPECTS maps options to rules of findings, the first finding first, and is readable without running the file."""
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
        ("nsyswrap.model", "from nsyswrap.trace import tables"),
        ("nsyswrap.model", "from nsyswrap.trace.tables import Trace"),
        ("nsyswrap.base.units", "import nsyswrap.trace.tables"),
        ("nsyswrap.trace.load", "from nsyswrap.capture import locate"),
        ("nsyswrap.trace.load", "from ..sections import spec"),
        ("nsyswrap.trace.load", "def f():\n    from nsyswrap.report import build"),
        ("nsyswrap.trace.load", "if TYPE_CHECKING:\n    from nsyswrap.report import build"),
        ("nsyswrap.attribution.causes", "from nsyswrap.sections.ledger import ledger"),
        ("nsyswrap.events.operations", "from nsyswrap.loop.step_detection import steps"),
        ("nsyswrap.sections.ledger", "from nsyswrap.timeline.build import timeline"),
        ("nsyswrap.report", "from nsyswrap.render import FORMS"),
        ("nsyswrap.compare", "from nsyswrap.render.html_writer import write"),
        ("nsyswrap.render.html_writer", "from nsyswrap.cli import cli"),
        ("nsyswrap.trace.load", "import importlib\nx = importlib.import_module('nsyswrap.report')"),
        ("nsyswrap.trace.load", "from nsyswrap.unheard import of"),
    ],
)
def test_an_import_that_does_not_go_down_is_found(importer: str, line: str) -> None:
    known = source("", "nsyswrap.trace.tables")
    assert rules.layer_breaks([*source(line, importer), *known])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from nsyswrap.trace import schema", "from nsyswrap.trace.load import load"),
        ("from nsyswrap.trace.schema import TABLES", "def f():\n    from nsyswrap.trace.load import load"),
        ("if TYPE_CHECKING:\n    from nsyswrap.trace.schema import Table", "from nsyswrap.trace import load"),
        ("from nsyswrap.trace import between", "from nsyswrap.trace import load"),
    ],
    ids=["plain", "in a function", "for types", "over a third module"],
)
def test_an_import_circle_is_found(first: str, second: str) -> None:
    third = source("from nsyswrap.trace import schema", "nsyswrap.trace.between")
    found = [*source(first), *source(second, "nsyswrap.trace.schema"), *third]
    assert any(line.startswith("nsyswrap/trace/load.py") for line in rules.import_circles(found))


def test_a_package_that_lists_its_modules_imports_them() -> None:
    package = Module(
        "nsyswrap.trace", "nsyswrap.trace", Path("nsyswrap/trace/__init__.py"), "A = modules_of(__name__, __path__)"
    )
    assert rules.import_circles([package, *source("from nsyswrap.trace import A")])
    assert rules.import_circles([package, *source("import os")]) == []


def test_a_module_that_imports_itself_is_found() -> None:
    assert rules.import_circles(source("from nsyswrap.trace import load"))


def test_a_package_without_a_docstring_is_found() -> None:
    package = [Module("nsyswrap.trace", "nsyswrap.trace", Path("nsyswrap/trace/__init__.py"), "import os\n")]
    assert rules.packages_without_docstring(package)
    assert rules.packages_without_docstring(source("import os\n")) == []


def test_a_folder_of_tests_without_its_package_is_found(tmp_path: Path) -> None:
    """A folder in the list of other folders is allowed, with any content."""
    for name in ("trace/test_load.py", "events/deep/test_a.py", "browser/pages/test_page.py", "test_top.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    for name in ("trace", "events"):
        (tmp_path / "nsyswrap" / name).mkdir(parents=True)
    assert rules.unmirrored(tmp_path) == ["tests/events/deep: nsyswrap/events/deep does not exist"]


def test_a_module_in_no_layer_is_found() -> None:
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
        ("nsyswrap.trace.load", "import dask.dataframe"),
    ],
)
def test_a_dependency_imported_elsewhere_is_found(importer: str, line: str) -> None:
    assert rules.strays(source(line, importer))


@pytest.mark.parametrize("name", ["nsyswrap.trace.utils", "nsyswrap.core.load", "nsyswrap._helpers", "nsyswrap.common"])
def test_an_empty_name_is_found(name: str) -> None:
    assert rules.empty_names(source("", name))


def test_a_class_name_in_two_modules_is_found() -> None:
    """A private class and an imported one are allowed."""
    first = source("class Part: ...\nclass _Own: ...")
    second = source("class _Own: ...\nclass Part: ...", "nsyswrap.trace.schema")
    assert rules.repeated_classes([*first, *second]) == [
        "nsyswrap/trace/schema.py:2: Part is defined in nsyswrap/trace/load.py too"
    ]
    assert rules.repeated_classes([*first, *source("from .load import Part", "nsyswrap.trace.schema")]) == []


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
def test_an_import_with_an_effect_is_found(text: str) -> None:
    assert rules.import_effects(source(text))
