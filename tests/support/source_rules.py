"""Check the project's rules on the source: layers, import cycles, places of dependencies, names, import effects.

The code is parsed and never imported. Each rule returns the lines that break it, as ``path:line: what``; an empty list
means that the rule holds.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LAYERS = {
    "base": 0,
    "rules": 1,
    "own_steps": 0,
    "model": 2,
    "trace": 3,
    "hardware": 4,
    "capture": 5,
    "events": 5,
    "loop": 6,
    "attribution": 7,
    "capture_file": 7,
    "ranks": 8,
    "what_if": 9,
    "operators": 10,
    "program": 10,
    "sections": 11,
    "timeline": 11,
    "verdict": 12,
    "report": 13,
    "compare": 14,
    "many": 14,
    "runs": 15,
    "sweep": 15,
    "experiments": 15,
    "gate": 16,
    "render": 17,
    "api": 18,
    "cli": 18,
    "__main__": 19,
}

# The packages that may import a dependency.
HOMES = {
    "click": ("nsyswrap.cli",),
    "sqlalchemy": ("nsyswrap.runs",),
    "adbc_driver_manager": ("nsyswrap.trace",),
    "adbc_driver_sqlite": ("nsyswrap.trace",),
    "connectorx": ("nsyswrap.trace",),
    "alembic": ("nsyswrap.runs",),
    "psycopg": ("nsyswrap.runs",),
    "dask": ("nsyswrap.many",),
    "distributed": ("nsyswrap.many",),
    "jinja2": ("nsyswrap.render",),
    "subprocess": ("nsyswrap.capture",),
    "torch": (
        *("nsyswrap.capture.annotate", "nsyswrap.capture.cost_probe", "nsyswrap.capture.alternatives_probe"),
        *("nsyswrap.capture.link_rates_probe", "nsyswrap.capture.product_rates_probe"),
        "nsyswrap.experiments.work_record",
    ),
    "nvtx": ("nsyswrap.capture.annotate",),
}

# Folders under tests/ that mirror no package of nsyswrap.
TEST_FOLDERS = frozenset({
    *("browser", "real_nsys", "tools", "workloads", "support", "captures", "data", "snapshots", "vendor", "law"),
})  # fmt: skip

# The function that imports all modules of the package that calls it.
LISTING = "modules_of"

EMPTY_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "core", "manager", "managers"})

# Calls that read or change the world outside the module, by function, by module and by method.
EFFECT_FUNCTIONS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})
EFFECT_MODULES = frozenset({
    *("atexit", "locale", "logging", "multiprocessing", "os", "random", "shutil", "signal", "socket", "subprocess"),
    *("sys", "tempfile", "threading", "time", "warnings"),
})  # fmt: skip
EFFECT_METHODS = frozenset(
    {"read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "connect", "exists"}
)
HARMLESS = frozenset({"logging.getLogger", "threading.Lock", "threading.local", "sys.version_info", "os.path.join"})


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file.

    Attributes:
        name: Its dotted name, as `nsyswrap.trace.load`; a package's `__init__` has the package's name.
        package: The dotted name of the package that relative imports start from.
        path: The file, relative to the root.
    """

    name: str
    package: str
    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """The syntax tree; do not change it, since all rules share it."""
        return _parsed(self.text)

    def at(self, line: int, what: str) -> str:
        """Return one broken rule, as ``path:line: what``."""
        return f"{self.path}:{line}: {what}"


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def modules(*folders: str, root: Path = ROOT) -> list[Module]:
    """Return every Python file under the named folders of a root, in order of paths."""
    return [_module(path, root) for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def _module(path: Path, root: Path) -> Module:
    relative = path.relative_to(root)
    parts = relative.with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, name if is_package else ".".join(parts[:-1]), relative, path.read_text())


def imports(module: Module, known: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Yield every module that a file imports, as (line, dotted name).

    Imports in functions and under ``TYPE_CHECKING`` count like those at the top.

    Args:
        module: The file.
        known: Names of modules; ``from package import name`` counts as ``package.name`` where that is one of them.
    """
    for node in _importing(module.text):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) == LISTING:
            yield from ((node.lineno, name) for name in sorted(known) if name.startswith(f"{module.name}."))
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in known else base
        else:
            yield node.lineno, str(node.args[0].value)  # type: ignore[attr-defined]


@cache
def _importing(text: str) -> tuple[ast.Import | ast.ImportFrom | ast.Call, ...]:
    """Return the statements and calls of a file that import a module by a name in the source."""
    return tuple(
        node
        for node in ast.walk(_parsed(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (
            isinstance(node, ast.Call)
            and node.args
            and (isinstance(node.args[0], ast.Constant) or _called(node) == LISTING)
            and _called(node) in {"importlib.import_module", "__import__", LISTING}
        )
    )


def _called(node: ast.Call) -> str:
    """Return the name of a called function, or ``module.name``; empty for other expressions."""
    match node.func:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(module), name):
            return f"{module}.{name}"
    return ""


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.package.split(".")
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def layer_breaks(sources: list[Module]) -> list[str]:
    """Return the imports inside nsyswrap that do not go to a lower layer or to the module's own package."""
    known = frozenset(module.name for module in sources)
    return [
        module.at(line, f"{module.name} imports {target}")
        for module in sources
        for line, target in imports(module, known)
        if target.startswith("nsyswrap.") and not _may_import(module.name, target)
    ]


def _may_import(importer: str, target: str) -> bool:
    if importer == "nsyswrap":  # the package itself offers public names from any layer
        return True
    source, home = importer.split(".")[1], target.split(".")[1]
    if source not in LAYERS or home not in LAYERS:
        return False
    if home == source:
        return True
    return LAYERS[home] < LAYERS[source] and (home != "cli" or source == "__main__")


def import_circles(sources: list[Module]) -> list[str]:
    """Return the imports inside nsyswrap that lead back to the module that makes them.

    ``nsyswrap/__init__.py`` is left out: it loads its public names when they are used.
    """
    known = frozenset(module.name for module in sources)
    lines = {
        module: [(line, target) for line, target in imports(module, known) if target in known - {"nsyswrap"}]
        for module in sources
        if module.name != "nsyswrap"
    }
    graph = {module.name: {target for _, target in found} for module, found in lines.items()}
    reached = {name: _reached(graph, name) for name in graph}
    return [
        module.at(line, f"{module.name} imports {target}, which imports it again")
        for module, found in lines.items()
        for line, target in found
        if module.name in {target, *reached[target]}
    ]


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = graph[pending.pop()] - found
        found |= new
        pending.extend(new)
    return found


def packages_without_docstring(sources: list[Module]) -> list[str]:
    """Return the ``__init__.py`` files without a docstring."""
    packages = (module for module in sources if module.path.name == "__init__.py")
    return [module.at(1, "the package has no docstring") for module in packages if not ast.get_docstring(module.tree)]


def unmirrored(root: Path = ROOT) -> list[str]:
    """Return the folders under tests/ that mirror no package of nsyswrap and are not in `TEST_FOLDERS`.

    Inside a mirrored folder each folder needs its package too.
    """
    tests, package = root / "tests", root / "nsyswrap"
    folders = sorted({path.parent.relative_to(tests) for path in tests.rglob("*.py") if path.parent != tests})
    wrong = (each for each in folders if each.parts[0] not in TEST_FOLDERS and not (package / each).is_dir())
    return [f"tests/{each}: nsyswrap/{each} does not exist" for each in wrong]


def unplaced(sources: list[Module]) -> list[str]:
    """Return the modules of nsyswrap that are in no layer."""
    named = (module for module in sources if module.name != "nsyswrap")
    return [module.at(1, "is in no layer") for module in named if module.name.split(".")[1] not in LAYERS]


def strays(sources: list[Module]) -> list[str]:
    """Return the imports of a dependency outside the packages that may import it."""
    return [
        module.at(line, f"{target} may be imported in {' and '.join(homes)} only")
        for module in sources
        for line, target in imports(module)
        if (homes := HOMES.get(target.split(".")[0]))
        and not any(f"{module.name}.".startswith(f"{home}.") for home in homes)
    ]


def crossings(sources: list[Module], forbidden: frozenset[str]) -> list[str]:
    """Return the imports of any forbidden top-level package."""
    found = ((module, line, target) for module in sources for line, target in imports(module))
    return [module.at(line, f"imports {target}") for module, line, target in found if target.split(".")[0] in forbidden]


def empty_names(sources: list[Module]) -> list[str]:
    """Return the modules and packages whose name does not say what they hold."""
    allowed = Path("workloads/common.py")
    return [
        module.at(1, "the name does not say what it holds")
        for module in sources
        if module.path != allowed and EMPTY_NAMES & {part.lstrip("_") for part in module.path.with_suffix("").parts}
    ]


def repeated_classes(sources: list[Module]) -> list[str]:
    """Return the public classes whose name another module defines too; those inside classes and functions are free."""
    first: dict[str, Module] = {}
    return [
        module.at(node.lineno, f"{node.name} is defined in {first[node.name].path} too")
        for module in sources
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and first.setdefault(node.name, module) is not module
    ]


def import_effects(sources: list[Module]) -> list[str]:
    """Return the statements that an import runs and that do more than define names."""
    return [module.at(line, what) for module in sources for line, what in _effects(module.tree.body, _defined(module))]


def _defined(module: Module) -> frozenset[str]:
    """Return the names that the module defines; a module may call methods of its own objects, to register things."""
    made: set[str] = set()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            made.update(name.id for name in flat if isinstance(name, ast.Name))
    return frozenset(made)


def _effects(body: list[ast.stmt], made: frozenset[str]) -> Iterator[tuple[int, str]]:
    for node in body:
        if isinstance(node, ast.If):
            if ast.unparse(node.test) != "__name__ == '__main__'":
                yield from _effects([*node.body, *node.orelse], made)
        elif isinstance(node, ast.Try):
            yield from _effects([*node.body, *(line for each in node.handlers for line in each.body)], made)
        elif isinstance(node, ast.ClassDef):
            yield from _effects(node.body, made)
        elif not _only_defines(node, made):
            yield node.lineno, f"an import runs `{ast.unparse(node).splitlines()[0]}`"
        else:
            yield from _effect_calls(node)


def _only_defines(node: ast.stmt, made: frozenset[str]) -> bool:
    match node:
        case ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call(ast.Attribute() as called)):
            return _root(called) in made
        case ast.Assign(targets):
            return all(isinstance(target, ast.Name | ast.Tuple) or _root(target) in made for target in targets)
        case ast.AnnAssign(target) | ast.AugAssign(target):
            return isinstance(target, ast.Name) or _root(target) in made
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Pass, ast.Raise)
    return isinstance(node, kinds) or type(node).__name__ == "TypeAlias"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _effect_calls(node: ast.stmt) -> Iterator[tuple[int, str]]:
    """Yield the calls that a statement makes itself, without those in the body of a function or lambda."""
    pending: list[ast.AST] = [node]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        pending = [*node.decorator_list, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Lambda):
            continue
        if isinstance(each, ast.Call) and _is_effect(each.func):
            yield each.lineno, f"an import calls `{ast.unparse(each)}`"
        pending.extend(ast.iter_child_nodes(each))


def _is_effect(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in EFFECT_FUNCTIONS
    if not isinstance(called, ast.Attribute) or ast.unparse(called) in HARMLESS:
        return False
    return _root(called) in EFFECT_MODULES or called.attr in EFFECT_METHODS
