"""The documentation is correct: links have targets, generated pages are up to date, named code exists."""

import ast
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from source_rules import LAYERS

from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.root_causes import ROOT_CAUSES
from nsyswrap.base.version import __version__
from nsyswrap.cli import COMMANDS, cli
from nsyswrap.sections import SECTIONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reports").glob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures, without those in code."""
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return LINK.findall(prose)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    names: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = LINK.sub(lambda link: link[0].split("]")[0].lstrip("!["), heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        seen = names.get(slug, 0)
        names[slug] = seen + 1
        found.add(f"{slug}-{seen}" if seen else slug)
    return found


def broken(page: Path, root: Path = ROOT) -> list[str]:
    """Return the relative links of a page without a target inside the project."""
    wrong = []
    for link in links(page.read_text()):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        inside = target.is_relative_to(root.resolve())
        if not inside or not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            wrong.append(link)
    return wrong


def test_links_lead_somewhere() -> None:
    assert {page: found for page in PAGES if (found := broken(page))} == {}


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """Links to a missing page, a missing heading or out of the project are found. Others, and code, are ignored."""
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A heading: `x`\n\n# Twice\n\n# Twice\n")
    page.write_text(
        "[a](gone.md) [b](other.md#gone) [c](../out.md) [d](#here)\n"
        "[e](other.md) [f](other.md#a-heading-x) [g](other.md#twice-1) [h](https://example.org/x) `[i](gone)`\n"
        "```\n[j](gone)\n```\n## Here\n"
    )
    assert broken(page, tmp_path) == ["gone.md", "other.md#gone", "../out.md"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Following relative links from README.md finds every page under docs/."""
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        reached.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text()))
        pending.extend(each for each in targets if each.suffix == ".md" and each.exists() and each not in reached)
    assert {page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")} <= {
        page.relative_to(ROOT) for page in reached if page.is_relative_to(ROOT)
    }


def test_the_readme_begins_with_a_picture_and_an_example_and_has_all_commands() -> None:
    """They are on the first screen; `make profile` and `make test` are one block, and once in the whole page."""
    text = (ROOT / "README.md").read_text()
    top, blocks = text.splitlines()[:12], re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert any("docs/images/first-screen.png" in line for line in top)
    assert "```text" in top
    assert [[line.split()[:2] for line in block.splitlines()] for block in blocks] == [
        [["pip", "install"], ["nsyswrap", "setup"], ["nsyswrap", "doctor"]],
        [["nsyswrap", "profile"], ["nsyswrap", "open"]],
        [["make", "profile"], ["make", "test"]],
    ]
    assert text.count("make profile") == text.count("make test") == 1


def test_the_readme_names_the_wheel_of_this_version() -> None:
    assert f"dist/nsyswrap-{__version__}-py3-none-any.whl" in (ROOT / "README.md").read_text()


def test_the_readme_names_only_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= targets, page


def listed(page: Path, header: str) -> list[str]:
    """Return the names in the first column of the table with a header, in order."""
    (rows,) = re.findall(rf"^{re.escape(header)}\n\|[-| ]+\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE)
    return re.findall(r"^\| `([^`]+)` \|", rows, re.MULTILINE)


def test_the_page_on_idle_time_lists_all_causes_in_the_order_of_the_code() -> None:
    """A nanosecond gets the first cause that holds, and then the first root cause that takes it."""
    page = ROOT / "docs" / "sections" / "idle.md"
    assert listed(page, "| cause | when |") == list(CAUSES)
    assert listed(page, "| finding | takes |") == [each.rule.key for each in ROOT_CAUSES]


def test_each_section_has_a_page_and_each_page_a_section() -> None:
    """Each entry of SECTIONS is explained in docs/sections/<key>.md."""
    pages = {path.stem for path in (ROOT / "docs" / "sections").glob("*.md")}
    assert pages == {section.key for section in SECTIONS}


def code_spans(text: str) -> list[str]:
    """Return the texts between backticks, without fenced code."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def is_path(span: str) -> bool:
    """Whether code on a page names a file or folder of the project."""
    return re.fullmatch(r"(?:nsyswrap|tests|docs|tools|workloads|bench)/[\w/.]*", span) is not None


def test_files_that_pages_name_exist() -> None:
    named = {(page, span) for page in PAGES for span in code_spans(page.read_text()) if is_path(span)}
    assert len(named) > 50
    assert [(page, name) for page, name in named if not (ROOT / name).exists()] == []


def test_the_picture_of_the_house_is_true() -> None:
    """It has each package of nsyswrap with its layer, and no other."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = {name: int(layer) for layer, name in re.findall(r" (-?\d+)  (\w+)(?:/|\.py) ", text)}
    packages = {path.parent.name for path in (ROOT / "nsyswrap").glob("*/__init__.py")}
    assert packages <= set(found)
    assert found == {name: LAYERS[name] for name in found}


@pytest.fixture
def cli_reference() -> ModuleType:
    """Return tools/cli_reference.py, a program, as a module."""
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "tools" / "cli_reference.py")
    assert spec and spec.loader  # noqa: PT018 - one fact: the file can be loaded
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Options that pages name of programs of others, and of programs of the user in examples.
OPTIONS_OF_OTHERS = {
    "uvx": {"--from"},
    "nsys": {
        "--cuda-graph-trace",
        "--cuda-um-cpu-page-faults",
        "--cuda-um-gpu-page-faults",
        "--gpu-metrics-frequency",
        "--include-json",
        "--pytorch",
        "--trace-fork-before-exec",
    },
    "torchrun": {"--max-restarts", "--no-python", "--nproc-per-node", "--standalone"},
    "SLURM": {"--ntasks", "--signal"},
    "dask": {"--nthreads", "--nworkers", "--scheduler-file"},
    "configure of Python": {"--enable-optimizations", "--with-lto"},
    "train.py": {"--config", "--epochs", "--gpus", "--mode", "--steps"},
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w>-])")
ARROW = re.compile(r"--[^-\n]+-->")
CALL = re.compile(r"\bnsyswrap ([a-z][a-z-]*)([^`\n|;&#]*)")


def options_by_command() -> dict[str, set[str]]:
    def below(command: click.Command) -> set[str]:
        context = click.Context(command)
        found = {name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)}
        if isinstance(command, click.Group):
            found |= {"--version"}
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                found |= below(inner)
        return found

    return {name: below(command) for name in COMMANDS if (command := cli.get_command(click.Context(cli), name))}


def options_of_the_project() -> set[str]:
    """Return the options that programs of the project name in their source."""
    sources = [path for name in ("tools", "bench", "workloads") for path in (ROOT / name).rglob("*.py")]
    return {name for path in sources for name in re.findall(r"[\"'](--[a-z][a-z0-9-]*)", path.read_text())}


def unknown_options(text: str, own: dict[str, set[str]], others: set[str]) -> list[str]:
    """Return the options in a text that no program has, and those of calls whose command has not got them.

    What follows a script, or two dashes alone, belongs to the profiled program.
    """
    text = ARROW.sub("", text)
    known = {"--help"}.union(others, *own.values())
    found = [name for name in OPTION.findall(text) if name not in known]
    for command, rest in CALL.findall(text.replace("\\\n", " ")):
        words = list(itertools.takewhile(lambda word: word != "--" and not word.endswith(".py"), rest.split()))
        names = [name for word in words for name in OPTION.findall(word.partition("=")[0])]
        found += [f"{command} {name}" for name in names if command in own and name not in own[command] | {"--help"}]
    return found


def test_options_that_a_page_names_exist() -> None:
    """They are of nsyswrap, of a program of the project, or of a listed program of others."""
    others = options_of_the_project().union(*OPTIONS_OF_OTHERS.values())
    found = {page: unknown_options(page.read_text(), options_by_command(), others) for page in PAGES}
    assert {page: options for page, options in found.items() if options} == {}


def test_an_option_that_does_not_exist_is_found() -> None:
    text = (
        "`--hide` and `--format` A --an arrow--> B\n"
        "nsyswrap export --to csv x\n"
        "nsyswrap export --format csv --window=all\n"
        "nsyswrap profile --steps train.py --more\n"
        "nsyswrap profile -- python --much\n"
    )
    own = {"export": {"--format", "--window"}, "profile": {"--phase"}}
    found = unknown_options(text, own, {"--steps", "--to", "--more", "--much"})
    assert found == ["--hide", "export --to", "profile --steps"]


def test_the_command_reference_is_up_to_date() -> None:
    """docs/cli.md follows from --help; `make docs` writes it."""
    program = [sys.executable, "tools/cli_reference.py", "--check"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_reference_does_not_depend_on_the_terminal(
    cli_reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = click.Command("long", help="words " * 60)
    monkeypatch.setenv("COLUMNS", "40")
    narrow = cli_reference.reference(command, "long")
    monkeypatch.setenv("COLUMNS", "200")
    assert cli_reference.reference(command, "long") == narrow


def test_an_option_that_several_commands_share_is_described_once(cli_reference: ModuleType) -> None:
    """Each command names it; an option of two commands is described by both."""

    def command(name: str, *options: str) -> click.Command:
        return click.Command(name, params=[click.Option([each], help=f"About {each}.") for each in options])

    group = click.Group("all", commands=[command("a", "--x", "--y"), command("b", "--x", "--y"), command("c", "--x")])
    page = cli_reference.reference(group, "all")
    assert [page.count(f"About --{each}.") for each in "xy"] == [1, 2]
    assert page.count("[Shared](#shared-options): `--x`.") == 3


def test_each_promise_of_security_has_its_test() -> None:
    """A test that is renamed or removed takes its promise with it."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test
