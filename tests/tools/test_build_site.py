"""The site: every link leads somewhere, nothing comes from another place, and the Python interface is in it."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import build_site as tool
import pytest
from browser_pages import WIDTHS, listening, needs_chromium, tab, until
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120

pytest.importorskip("mkdocs", reason="no MkDocs here; tools/setup.sh site")


class Links(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of an element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        target = given.get("href", given.get("src"))
        if target is not None:
            self.links.append(target)
            if tag != "a":
                self.loads.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the whole site once."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), "--build", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """Return what each page of the site links to; reports, which link only within themselves, have none."""
    found = {path: Links(path) for path in site.rglob("*.html") if path.name != "report.html"}
    assert len(found) > 100
    return found


def is_elsewhere(link: str) -> bool:
    """Return whether an address has a scheme or a host of its own."""
    return re.match(r"[a-z][a-z0-9+.-]*:|//", link) is not None


def test_each_link_of_the_site_leads_somewhere(pages: dict[Path, Links]) -> None:
    wrong = []
    for page, found in pages.items():
        for link in found.links:
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            # An address after # that is no anchor, such as #t=1-2, is for the script of a report.
            exists = target.exists() and (
                not anchor or target not in pages or "=" in anchor or anchor in pages[target].anchors
            )
            if not is_elsewhere(link) and not exists:
                wrong.append((page.name, link))
    assert wrong == []


def test_nothing_comes_from_another_place(site: Path, pages: dict[Path, Links]) -> None:
    """No element and no style sheet loads from a server."""
    assert [
        load for page in pages.values() for load in page.loads if is_elsewhere(load) and not load.startswith("data:")
    ] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")) == [], sheet


def test_all_pages_are_on_the_site(site: Path) -> None:
    """Documentation, cards with their pages, and samples."""
    docs = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {path.relative_to(site) for path in (site / "docs").rglob("*.html")} == docs
    assert len(list((site / "reports" / "gallery").glob("*/page.html"))) == 41
    assert len(list((site / "reports" / "samples").glob("*/report.html"))) == 2


def test_the_reference_has_each_public_name(site: Path) -> None:
    """Functions and classes of the modules, each under its full name."""
    tool = importlib.import_module("build_site")
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    names = [name for modules in tool.INTERFACE.values() for module in modules for name in public_names(module)]
    assert len(names) > 100
    assert [name for name in names if f'id="{name}"' not in text] == []


def public_names(module: str) -> Iterator[str]:
    """Yield the full names of the functions and classes that a module defines for others."""
    path = ROOT / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{module}.{node.name}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](other.md#here)", ""),
        ("[a](gone.md)", "warnings"),
        ("[a](other.md#gone)", "warnings"),
        ("[a](/other.md)", "warnings"),
    ],
)
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, text: str, wrong: str) -> None:
    source = tmp_path / "source"
    (source / "assets").mkdir(parents=True)
    for name in tool.ASSETS:
        (source / "assets" / name).write_text("")
    (source / "index.md").write_text(f"# Page\n\n{text}\n")
    (source / "other.md").write_text("# Other\n\n## Here\n")
    assert wrong in tool.build_pages(source, tmp_path / "site", ["index.md", "other.md"])


def test_links_of_the_gallery_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text('<a href="docs/a.md#b">a</a> <a href="x/README.md">b</a> <a href="https://example.org/c.md">c</a>')
    tool.copy([page], tmp_path / "site", tmp_path)
    text = (tmp_path / "site" / "index.html").read_text()
    assert text == '<a href="docs/a.html#b">a</a> <a href="x/index.html">b</a> <a href="https://example.org/c.md">c</a>'


@pytest.mark.browser
@needs_chromium
def test_the_site_is_read_and_searched_without_a_network(browser: Browser, site: Path) -> None:
    """Opened from its folder, it requests only its own files; search finds a page."""
    with tab(browser) as page, listening(page) as (messages, requested):
        page.goto((site / "docs" / "tutorial.html").as_uri(), wait_until="networkidle")
        page.keyboard.press("/")
        page.keyboard.type("ledger")
        page.locator(".md-search-result__item a").first.wait_for()
        page.locator(".md-search-result__item a").first.click()
        until(page, "!location.pathname.endsWith('tutorial.html')")
        page.goto((site / "api" / "nsyswrap.html").as_uri(), wait_until="networkidle")
        assert "OpenedCapture" in page.inner_text("article")
        assert [url for url in requested if not url.startswith((site.as_uri(), "data:", "blob:"))] == []
        assert messages == []
        page.evaluate("localStorage.clear()")


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_cards_are_found_by_words_finding_model_and_tensor_share(browser: Browser, site: Path, width: int) -> None:
    with tab(browser, width=width) as page, listening(page) as (messages, _):
        page.goto((site / "reports" / "index.html").as_uri())
        shown = "[...document.querySelectorAll('article:not([hidden])')].map((one) => one.id)"
        assert len(page.evaluate(shown)) == 41
        page.select_option("[name=finding]", label="data loader wait")
        page.select_option("[name=model]", "AlexNet")
        assert set(page.evaluate(shown)) == {f"alexnet-{name}" for name in ("8", "16", "32", "amp", "fp32")}
        page.select_option("[name=tensor]", "none")
        page.fill("[name=words]", "batch-size 16")
        assert page.evaluate(shown) == ["alexnet-16"]
        assert page.inner_text("output") == "1 of 41 cases"
        address = page.url
        page.click("button")
        until(page, f"{shown}.length === 41")
        page.goto("about:blank")
        page.goto(address)
        assert page.evaluate(shown) == ["alexnet-16"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("article:not([hidden]) h3 a")
        assert page.inner_text("h1") == "alexnet-16"
        assert messages == []
