"""Build the site in build/site from the pages of the repository: `make site`.

The site has the documentation, the gallery, the samples and the reference of the Python interface. Folders are those of
the repository, so a link works on GitHub, in a checkout and on the site. What a page links to is copied with it.
"""

import argparse
import logging
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tools" / "site" / "mkdocs.yml"
ASSETS = ("iframe-worker.js", "site.css")
# Pages of the project beside those in docs/; the gallery is a page of its own making.
PAGES = (
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "reports/samples/README.md",
    "reports/index.html",
)
# Modules of the reference, by page: what programs and notebooks meet first.
INTERFACE = {
    "nsyswrap": ("nsyswrap", "nsyswrap.api"),
    "Report": ("nsyswrap.model", "nsyswrap.report", "nsyswrap.verdict", "nsyswrap.sections.spec"),
    "Trace": (
        "nsyswrap.trace.tables",
        "nsyswrap.base.intervals",
        "nsyswrap.loop.context",
        "nsyswrap.timeline.event_frames",
    ),
    "Attribution": ("nsyswrap.attribution.attribution", "nsyswrap.attribution.gaps", "nsyswrap.attribution.causes"),
    "Simulation": ("nsyswrap.what_if.simulate", "nsyswrap.what_if.plan"),
    "Rendering": ("nsyswrap.render", "nsyswrap.render.json_report", "nsyswrap.render.json_reader"),
    "Units and errors": ("nsyswrap.base.units", "nsyswrap.base.errors"),
}
LINK = re.compile(r"\]\(\s*<?([^)\s>#]+)[^)]*\)|(?:href|src)=\"([^\"#]+)[^\"]*\"")
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARKDOWN_LINK = re.compile(r"(href=\"(?![a-z][a-z0-9+.-]*:)[^\"#]*?)(README)?\.md([#\"])")


def linked(page: Path, root: Path) -> Iterator[Path]:
    """Yield the files of the project that a page links to."""
    text = page.read_text(encoding="utf-8")
    for found in LINK.finditer(CODE.sub("", text) if page.suffix == ".md" else text):
        name = found[1] or found[2]
        target = (page.parent / name).resolve()
        if ":" not in name and target.is_file() and target.is_relative_to(root):
            yield target


def sources(root: Path = ROOT) -> list[Path]:
    """Return the pages of the site and all files that they link to."""
    pending = [*(root / name for name in PAGES), *sorted((root / "docs").rglob("*.md"))]
    found: dict[Path, None] = {}
    while pending:
        page = pending.pop()
        if page in found:
            continue
        found[page] = None
        # A report is a whole page: its links stay inside it.
        if page.suffix == ".md" or page.name == "index.html":
            pending.extend(linked(page, root))
    return sorted(found)


def copy(pages: Iterable[Path], folder: Path, root: Path = ROOT) -> None:
    """Copy the sources of the site; links of the gallery to Markdown lead to the pages that are made of it."""
    for page in pages:
        target = folder / page.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.name == "index.html":
            target.write_text(MARKDOWN_LINK.sub(_html, page.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(page, target)
    (folder / "assets").mkdir(exist_ok=True)
    for name in ASSETS:
        shutil.copyfile(CONFIG.parent / name, folder / "assets" / name)


def _html(link: re.Match[str]) -> str:
    return f"{link[1]}{'index' if link[2] else ''}.html{link[3]}"


def write_reference(folder: Path) -> list[str]:
    """Write the pages of the reference of the Python interface; return their paths in the order of the contents."""
    (folder / "api").mkdir(exist_ok=True)
    paths = []
    for title, modules in INTERFACE.items():
        path = f"api/{title.lower().replace(' ', '-')}.md"
        (folder / path).write_text("\n\n".join([f"# {title}", *(f"::: {module}" for module in modules)]) + "\n")
        paths.append(path)
    return paths


def contents(nav: list[Any], made: dict[str, list[str]], pages: Iterable[str]) -> list[Any]:
    """Return the table of contents with the pages of groups that are made here."""
    groups = [
        one if not isinstance(one, dict) else {name: made.get(name, value) for name, value in one.items()}
        for one in nav
    ]
    listed = re.findall(r"[\w./-]+\.(?:md|html)", str(groups))
    more = sorted(set(pages) - set(listed))
    return [*groups, {"More": more}] if more else groups


def section_pages(index: Path) -> list[str]:
    """Return the pages of the sections in the order of docs/index.md."""
    names = re.findall(r"\]\((sections/\w+\.md)\)", index.read_text(encoding="utf-8"))
    return [f"docs/{name}" for name in dict.fromkeys(names)]


def build_pages(source: Path, site: Path, nav: list[Any] | None = None) -> str:
    """Build a site from a folder of pages; return what is wrong, such as links that lead nowhere."""
    config = load_config(str(CONFIG), docs_dir=str(source), site_dir=str(site))
    config.nav = config.nav if nav is None else nav
    try:
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    except Abort as error:
        return str(error)
    # The page for a server that finds no page: its links hold at the top of a server only.
    (site / "404.html").unlink()
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Build the site; return 1 if a link leads nowhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR", help="where to build")
    folder = parser.parse_args(arguments).build
    logging.basicConfig(format="site: %(message)s", level=logging.WARNING)
    source, site, began = folder / "site-source", folder / "site", time.monotonic()
    shutil.rmtree(source, ignore_errors=True)
    copy(sources(), source)
    reference = write_reference(source)
    made = {"API": reference, "Sections": section_pages(ROOT / "docs" / "index.md")}
    pages = [path.relative_to(source).as_posix() for path in source.rglob("*.md")]
    nav = contents(load_config(str(CONFIG), docs_dir=str(source)).nav, made, pages)
    if wrong := build_pages(source, site, nav):
        print(f"site: {wrong}", file=sys.stderr)
        return 1
    print(f"site: {site / 'index.html'}, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
