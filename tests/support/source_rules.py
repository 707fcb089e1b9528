"""Reads the rules of the house off the source: who imports whom, how long things are, what an import does.

Nothing here imports the code it reads. Every rule returns the lines that break it, as ``path:line: what``, so that an
empty list means that the rule holds.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LAYERS = {
    "errors": 0,
    "units": 0,
    "intervals": 0,
    "privacy": 0,
    "model": 1,
    "rule_names": 1,
    "tables": 2,
    "capture": 3,
    "db": 3,
    "hardware": 3,
    "events": 4,
    "loop": 5,
    "attribution": 6,
    "what_if": 7,
    "sections": 8,
    "timeline": 8,
    "report": 9,
    "compare": 10,
    "render": 11,
    "api": 12,
    "cli": 12,
    "__main__": 13,
}

HOMES = {
    "click": "nsyswrap.cli",
    "sqlalchemy": "nsyswrap.db",
    "adbc_driver_manager": "nsyswrap.db",
    "adbc_driver_sqlite": "nsyswrap.db",
    "connectorx": "nsyswrap.db",
    "jinja2": "nsyswrap.render",
    "subprocess": "nsyswrap.capture",
    "torch": "nsyswrap.capture.annotate",
    "nvtx": "nsyswrap.capture.annotate",
}

EMPTY_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "core", "manager", "managers"})

FILE_LINES = 400
FUNCTION_LINES = 40

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
        name: Its dotted name, as `nsyswrap.db.load`; a package's `__init__` has the package's name.
        package: The dotted name of the package that relative imports start from.
        path: The file, relative to the root.
    """

    name: str
    package: str
    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    def at(self, line: int, what: str) -> str:
        """One broken rule, as ``path:line: what``."""
        return f"{self.path}:{line}: {what}"


def modules(*folders: str, root: Path = ROOT) -> list[Module]:
    """Every Python file under the named folders of a root, in order of paths."""
    return [_module(path, root) for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def _module(path: Path, root: Path) -> Module:
    relative = path.relative_to(root)
    parts = relative.with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, name if is_package else ".".join(parts[:-1]), relative, path.read_text())


def imports(module: Module, known: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, anywhere in it, as (line, dotted name).

    Args:
        module: The file.
        known: Names of modules; `from package import name` counts as `package.name` where that is one of them.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in known else base
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "__import__"}:
            yield from ((node.lineno, str(name.value)) for name in node.args[:1] if isinstance(name, ast.Constant))


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.package.split(".")
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def layer_breaks(sources: list[Module]) -> list[str]:
    """Imports inside nsyswrap that do not go down, or that reach into a neighbour."""
    known = frozenset(module.name for module in sources)
    return [
        module.at(line, f"{module.name} imports {target}")
        for module in sources
        for line, target in imports(module, known)
        if target.startswith("nsyswrap.") and not _may_import(module.name, target)
    ]


def _may_import(importer: str, target: str) -> bool:
    if importer == "nsyswrap":  # the package itself shows public names, from wherever they are
        return True
    source, home = importer.split(".")[1], target.split(".")[1]
    if source not in LAYERS or home not in LAYERS:
        return False
    if home in {source, "errors"}:
        return True
    return LAYERS[home] < LAYERS[source] and (home != "cli" or source == "__main__")


def unplaced(sources: list[Module]) -> list[str]:
    """Modules of nsyswrap that stand in no layer."""
    named = (module for module in sources if module.name != "nsyswrap")
    return [module.at(1, "is in no layer") for module in named if module.name.split(".")[1] not in LAYERS]


def strays(sources: list[Module]) -> list[str]:
    """Imports of a dependency outside its one home."""
    return [
        module.at(line, f"{target} is at home in {home}")
        for module in sources
        for line, target in imports(module)
        if (home := HOMES.get(target.split(".")[0])) and not f"{module.name}.".startswith(f"{home}.")
    ]


def crossings(sources: list[Module], forbidden: frozenset[str]) -> list[str]:
    """Imports of anything whose first name is forbidden."""
    found = ((module, line, target) for module in sources for line, target in imports(module))
    return [module.at(line, f"imports {target}") for module, line, target in found if target.split(".")[0] in forbidden]


def empty_names(sources: list[Module]) -> list[str]:
    """Modules and packages whose name says nothing."""
    allowed = Path("workloads/common.py")
    return [
        module.at(1, "this name says nothing")
        for module in sources
        if module.path != allowed and EMPTY_NAMES & {part.lstrip("_") for part in module.path.with_suffix("").parts}
    ]


def long_files(sources: list[Module], limit: int = FILE_LINES) -> list[str]:
    """Files with more lines than the limit."""
    counts = ((module, len(module.text.splitlines())) for module in sources)
    return [module.at(count, f"{count} lines, more than {limit}") for module, count in counts if count > limit]


def long_functions(sources: list[Module], limit: int = FUNCTION_LINES) -> list[str]:
    """Functions with more lines than the limit, from `def` to their end, docstring and all."""
    return [
        module.at(node.lineno, f"{node.name} has {lines} lines, more than {limit}")
        for module in sources
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > limit
    ]


def import_effects(sources: list[Module]) -> list[str]:
    """Statements that an import would run and that do more than define names."""
    return [module.at(line, what) for module in sources for line, what in _effects(module.tree.body, _defined(module))]


def _defined(module: Module) -> frozenset[str]:
    """Names that the module makes itself: it may register things with them."""
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
    """Calls that the statement itself makes: not those in the body of a function or lambda."""
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
