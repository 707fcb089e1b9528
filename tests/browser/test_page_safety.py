"""Names from a program cannot run or change the page, secrets are not written, and all readers can use the page."""

from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

import hand_made
import pytest
from browser_pages import NARROW, STRUCTURE, WIDE, needs_chromium, opened, page_of, until, write
from export_builder import MAIN, ExportBuilder, thread
from playwright.sync_api import Browser, Page
from real_captures import RealReport, more
from timeline_fixtures import timeline_report

from nsyswrap.model import Report, Section
from nsyswrap.render import render
from nsyswrap.render.escape import visible
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

pytestmark = needs_chromium

FOLDER = Path(__file__).parents[1]
# With the size of what a finger meets, and with unique landmarks.
RULES_OF_AXE = (
    "{ resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] }"
)
AXE = FOLDER / "vendor" / "axe.min.js"
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "</style></title></details></table><h1>x</h1>",
    '" onmouseover=alert(3) x="',
    "' autofocus onfocus=alert(4) '",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "]]><![CDATA[",
    "&lt;b&gt;&#60;b&#62;",
    "abc\u202ecba\u2066x\u2069\u200b",
    "\x00\x01\x07\x1b[31mred\r\n\x7f\x85",
    "<svg/onload=alert(5)>",
    "<a href=javascript:alert(6)>here</a>",
)
SECRET = "hunter2-0123456789abcdef"  # noqa: S105 - made up
# What a server such as Jenkins sends with a page.
STRICT = {"Content-Security-Policy": "sandbox; default-src 'none'", "Content-Type": "text/html; charset=utf-8"}


def twin(report: Report, text: str) -> Report:
    """Return the report with each text that a program can choose replaced by one of the same length."""

    def changed(section: Section) -> Section:
        tables = {
            name: table.assign(**{c: text for c in table.columns if table[c].dtype.kind not in "iufb"})
            for name, table in section.tables.items()
        }
        return replace(section, title=text, tables=tables, notes=(text,))

    findings = tuple(
        replace(one, headline=text, advice=text, evidence=(text,) * len(one.evidence)) for one in report.findings
    )
    return replace(
        report,
        capture=replace(report.capture, name=text),
        session=replace(report.session, command=("python", text), traces=(text,), secrets=(text,)),
        gpus=tuple(replace(gpu, name=text) for gpu in report.gpus),
        window=replace(report.window, label=text),
        verdict=text,
        sections=tuple(changed(section) for section in report.sections),
        findings=findings,
        notes=(text,),
    )


def structure(browser: Browser, report: Report, folder: Path, name: str) -> list[str]:
    """Return the elements of a page in a browser, with details open, after a hover and a key press."""
    with opened(browser, write(report, folder, name)) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.locator("a.term").first.hover()
        page.mouse.move(0, 0)
        page.keyboard.press("n")
        until(page, "document.getElementById('tip').hidden")
        found: list[str] = page.evaluate(STRUCTURE)
    return found


# Texts that end different contexts; a comment that is not closed would hide what follows, so it comes last.
TOGETHER = ["".join(HOSTILE[at::4]) for at in range(3)] + ["".join(HOSTILE[7::4]) + HOSTILE[3] + "<!--"]
LONGEST = max(len(visible(text)) for text in TOGETHER)


@pytest.fixture(scope="module")
def harmless(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the elements of a page in which each text consists of the letter x."""
    return structure(browser, twin(hand_made.full_report(), "x" * LONGEST), tmp_path_factory.mktemp("twin"), "twin")


@pytest.mark.parametrize("text", TOGETHER, ids=[f"texts {at}" for at in range(len(TOGETHER))])
def test_a_hostile_text_leaves_the_page_as_a_harmless_one_does(
    browser: Browser, tmp_path: Path, harmless: list[str], text: str
) -> None:
    """The page has the same elements and attributes as a page of harmless texts of the same length."""
    same_length = text + "x" * (LONGEST - len(visible(text)))
    assert structure(browser, twin(hand_made.full_report(), same_length), tmp_path, "hostile") == harmless


def test_invisible_characters_are_shown_by_their_numbers(browser: Browser, tmp_path: Path) -> None:
    """Characters that reverse the direction of text or do not print are covered."""
    with opened(browser, write(twin(hand_made.full_report(), HOSTILE[9] + HOSTILE[10]), tmp_path)) as page:
        shown = page.inner_text(".verdict p")
    assert "abc[U+202E]cba[U+2066]x[U+2069][U+200B]" in shown
    assert "[U+0000][U+0001][U+0007][U+001B][31mred[U+000D][U+000A][U+007F][U+0085]" in shown


def export(folder: Path, *texts: str) -> Path:
    """Write an export whose program uses each text for names of all kinds and has a secret in its environment.

    A text has a GPU, a thread, a variable, a message, and two steps with their ranges, kernels, calls and samples.
    """
    builder = ExportBuilder().session().command("python", *texts, f"--api-key={SECRET}", "--token", SECRET)
    builder.environment({f"PLAIN_{at}": text for at, text in enumerate(texts)})
    builder.environment({"API_TOKEN": SECRET, "DATABASE_URL": f"postgres://u:{SECRET}@h/d"})
    for at, text in enumerate(texts):
        builder.gpu(at, text).thread_name(thread(9 + at), text).diagnostic(text).system("Hostname", text)
    for number in range(2 * max(len(texts), 3)):
        at = number % len(texts)
        text, start = texts[at], number * 1_000_000
        builder.range(f"batch {number}", start, start + 900_000).range(text, start + 10, start + 400_000)
        builder.range(f"forward {text}", start + 400_000, start + 800_000)
        builder.kernel(start + 500_000, start + 600_000, text, launched=(start + 450_000, start + 460_000))
        builder.kernel(
            start + 610_000, start + 620_000, f"{text}<", launched=(start + 470_000, start + 480_000), device=at
        )
        builder.os_call(text, start + 20, start + 300_000)
        builder.copy(start + 700_000, start + 710_000, launched=(start + 690_000, start + 695_000))
        builder.python_sample(start + 420_000, [(text, f"/home/anna/{text}.py", 7)])
    builder.thread_name(MAIN, texts[0]).domain("Python Periodic Sampling", 1)
    return builder.write(folder / "hostile.sqlite")


def test_a_hostile_export_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    """The texts go from the export through analysis and rendering into the browser, all of them into one page."""
    report = build_report(load_export(export(tmp_path, *HOSTILE)))
    assert len(report.gpus) == len(HOSTILE)
    with opened(browser, write(report, tmp_path)) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        shown = page.content()
        assert page.locator("img, iframe, object, embed, h1:not(.intro h1), main script").count() == 0
        assert (
            page.locator("*").evaluate_all(
                "(all) => all.flatMap((one) => one.getAttributeNames()).filter((name) => /^on|^style$/.test(name))"
            )
            == ["style"] * page.locator("#tip[style]").count()
        )
    assert all(escape(visible(text), quote=False) in shown for text in HOSTILE)


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a program with a secret in its environment."""
    return build_report(load_export(export(tmp_path_factory.mktemp("secret"), "harmless")))


@pytest.mark.parametrize("form", ["html", "json", "csv", "markdown", "text"])
def test_a_secret_in_the_environment_is_never_written(secretive: Report, form: str) -> None:
    """This includes secrets in options of the command, and the home folder."""
    assert "--token" in secretive.session.command
    said = render(form, secretive)
    assert SECRET not in said
    assert "/home/anna" not in said


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write pages with all sections, without a GPU, and with the timeline of two GPUs."""
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "full": hand_made.full_report(),
        "none": hand_made.no_gpu_report(),
        "timeline": timeline_report(),
    }
    return {name: write(report, folder, name) for name, report in reports.items()}


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *(("full", WIDE, "dark"), ("none", WIDE, "dark"), ("full", NARROW, "light")),
        *more(("timeline", WIDE, "dark")),
    ],
)
def test_the_page_is_accessible(browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    """axe-core finds nothing, all details open or closed. No colour depends on the width, so two pairs suffice."""
    with opened(browser, pages[name], width=width, color_scheme=scheme, bypass_csp=True) as page:
        page.add_script_tag(path=AXE)
        for is_open in ("false", "true"):
            page.evaluate(f"document.querySelectorAll('details').forEach((one) => {{ one.open = {is_open}; }})")
            found = page.evaluate(f"axe.run(document, {RULES_OF_AXE})")
            assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found["violations"]] == []
            assert len(found["passes"]) > 15, "it did look"


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), *more((NARROW, "dark"))])
def test_a_selection_and_the_palette_are_accessible(
    browser: Browser, pages: dict[str, Path], width: int, scheme: str
) -> None:
    """The panel is open and its rows are marked; then the palette is open and hides the rest of the page."""
    with opened(browser, pages["timeline"], width=width, color_scheme=scheme, bypass_csp=True) as page:
        page.add_script_tag(path=AXE)
        page.locator("table[data-name=kernels-summary] tbody tr").first.locator("td.n").first.click()
        page.evaluate("document.getElementById('selection-body').open = true")
        for key, part in (("", "#selection"), ("", "#section-kernels"), ("/", "#palette")):
            if key:
                page.keyboard.press(key)
            found = page.evaluate(f"axe.run('{part}', {RULES_OF_AXE})")["violations"]
            assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == []


def test_the_help_is_accessible(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["full"], bypass_csp=True) as page:
        page.keyboard.press("?")
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run('#help', { resultTypes: ['violations'] })")
    assert found["violations"] == []


@pytest.fixture
def bare(browser: Browser) -> Iterator[Page]:
    """Open a page of a server that forbids scripts and styles."""
    context = browser.new_context(viewport={"width": WIDE, "height": 844})
    page = context.new_page()
    body = page_of(hand_made.full_report())
    page.route("**/*", lambda route: route.fulfill(status=200, headers=STRICT, body=body))
    page.goto("http://report.test/report.html")
    yield page
    context.close()


def test_without_scripts_and_styles_the_page_is_complete(bare: Page) -> None:
    """The page shows verdict, ledger, findings and tables, but no parts that need a script."""
    text = bare.inner_text("body")
    for words in (
        "The training loop waits for its data loader",
        "38.6 %",
        "Give the DataLoader",
        "Kernels",
    ):
        assert words in text
    assert bare.evaluate("getComputedStyle(document.querySelector('.verdict p')).fontWeight") == "400", "no styles"
    assert bare.locator("table[data-name=kernels-summary] tbody tr").count() == 64
    bare.locator("details.group > summary").filter(has_text="Kernels").click()
    assert bare.locator("table[data-name=kernels-summary] tbody tr").last.is_visible(), "no row is folded away"
    assert not any(bare.locator(one).is_visible() for one in (".tools", "#help", "#tip"))


def test_without_styles_the_ledger_keeps_its_colours_and_lengths(bare: Page) -> None:
    script = """() => [...document.querySelectorAll(".ledger > rect")].map((one) =>
      [getComputedStyle(one).fill, Math.round(one.getBoundingClientRect().width)])"""
    parts = bare.evaluate(script)
    whole = sum(width for _, width in parts)
    assert parts[0][0] == "rgb(0, 84, 169)"
    assert parts[-1][0].startswith("url(")
    assert [round(100 * width / whole) for _, width in parts] == [53, 5, 3, 0, 39]


def test_without_scripts_evidence_still_opens(bare: Page) -> None:
    evidence = bare.locator(".finding details.evidence").first
    evidence.locator("summary").first.click()
    assert evidence.locator("li").first.is_visible()


@pytest.mark.parametrize("name", ["samples/mnist-1-worker", *more("samples/mnist-8-workers")])
def test_no_column_of_a_table_is_left_without_a_name(
    browser: Browser, name: str, real_report: RealReport, tmp_path: Path
) -> None:
    with opened(browser, write(real_report(name), tmp_path)) as page:
        named = page.locator("table.data thead th:not(.drawn)").evaluate_all(
            "(all) => all.map((one) => one.dataset.name)"
        )
    assert all(named)
    assert len(named) > 50
