"""Find the words and phrases of tests/data/words.toml in code and pages."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "data" / "words.toml"
FOLDERS = ("nsyswrap", "tests", "tools", "bench", "workloads", "docs", "reports/samples", ".ci")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
SUFFIXES = frozenset({".py", ".md", ".j2", ".js", ".css", ".sh", ".txt"})
# Licences, code of others, and the list, which contains its own examples.
LEFT_OUT = ("tests/vendor/", "tests/data/", "tests/test_words.py")
# Marks of a comment or text at the start of a line. A phrase over two lines has them between its words.
MARKS = re.compile(r"^([ \t]*)(#+:?|//+|\*)", re.MULTILINE)
# What Python takes for comments, texts and names. The module tokenize finds the same and takes three times as long.
TOKENS = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<text>(?:\b[bBrRfFuU]{1,2})?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>\b[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
QUOTES = re.compile(r"^[bBrRfFuU]*(\"{3}|'{3}|\"|')|(\"{3}|'{3}|\"|')$")


@dataclass(frozen=True, slots=True)
class Word:
    """One entry of the list.

    Attributes:
        pattern: Finds the word, in prose or in names; in lower case unless ``case`` is set.
        use: What to write instead.
        scope: "prose", "name" or "all".
        case: Whether upper and lower case differ.
    """

    pattern: re.Pattern[str]
    use: str
    scope: str
    case: bool


@dataclass(frozen=True, slots=True)
class Exemption:
    """A place where a word is allowed.

    Attributes:
        path: Glob of files, from the root.
    """

    path: str
    line: re.Pattern[str]
    why: str

    def covers(self, hit: "Hit") -> bool:
        return hit.path.match(self.path) and self.line.search(hit.line) is not None


@dataclass(frozen=True, slots=True)
class Hit:
    """A word that was found.

    Attributes:
        path: The file, from the root.
        number: The line, from 1.
        found: The word as it is in the file.
        use: What to write instead.
    """

    path: Path
    number: int
    line: str
    found: str
    use: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {' '.join(self.found.split())!r}: use {self.use}"


def word_list(path: Path = LIST) -> tuple[list[Word], list[Exemption]]:
    listed = tomllib.loads(path.read_text())
    words = [
        Word(_compiled(each["pattern"]), each["use"], each.get("scope", "prose"), each.get("case", False))
        for each in listed["word"]
    ]
    exempt = [Exemption(each["path"], re.compile(each["line"]), each["why"]) for each in listed.get("exemption", ())]
    return words, exempt


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which a blank matches any white space, so that a phrase over a line break is found.

    Raises:
        ValueError: The pattern may match inside a word, where the quick search does not look.
    """
    if not pattern.startswith(r"\b"):
        raise ValueError(f"{pattern} does not start with \\b, at the start of a word")
    return re.compile(pattern.replace(" ", r"\s+"), re.MULTILINE)


def files(root: Path = ROOT) -> list[Path]:
    """Return the files that are checked, relative to the root, sorted."""
    found = {path for name in FOLDERS for path in (root / name).rglob("*") if path.suffix in SUFFIXES or name == ".ci"}
    found |= {root / name for name in PAGES}
    relative = sorted(path.relative_to(root) for path in found if path.is_file())
    return [path for path in relative if not str(path).startswith(LEFT_OUT) and "__pycache__" not in path.parts]


def hits(path: Path, words: list[Word], root: Path = ROOT) -> Iterator[Hit]:
    """Yield the words of the list in a file.

    Args:
        path: The file, relative to the root.
        words: The list.
        root: Top of the project.
    """
    text = (root / path).read_text()
    prose, names = parts(text) if path.suffix == ".py" else (MARKS.sub(_blank, text), "")
    lines = text.split("\n")
    # Searching in lower case is three times as fast as ignoring the case.
    lower = prose.lower(), names.lower()
    listed = _any_of(tuple(words))
    if not any(listed.search(each) for each in (prose, names, *lower)):
        return
    for word in words:
        in_prose, in_names = (prose, names) if word.case else lower
        looked = [in_prose] * (word.scope != "name") + [in_names] * (word.scope != "prose")
        for each in looked:
            for found in word.pattern.finditer(each):
                at = each.count("\n", 0, found.start())
                yield Hit(path, at + 1, lines[at], found[0], word.use)


@cache
def _any_of(words: tuple[Word, ...]) -> re.Pattern[str]:
    """Return a pattern that finds each place where a word may be, ten times as fast as one search for each word."""
    every = [word.pattern.pattern.removeprefix(r"\b").replace(r"|\b", "|") for word in words]
    return re.compile(rf"\b(?:{'|'.join(every)})", re.MULTILINE)


def parts(code: str) -> tuple[str, str]:
    """Return the prose and the names of Python code; in each, all other characters but line breaks are blanks.

    Prose is the content of comments and texts. The underscores of names are blanks, too.
    """
    prose, names, until = [], [], 0
    for token in TOKENS.finditer(code):
        between, text = _blanks(code[until : token.start()]), token[0]
        until, blanks = token.end(), _blanks(text)
        is_name = token.lastgroup == "name"
        bare = text if is_name else (MARKS if token.lastgroup == "comment" else QUOTES).sub(_blank, text)
        prose += [between, blanks if is_name else bare]
        names += [between, text.replace("_", " ") if is_name else blanks]
    rest = _blanks(code[until:])
    return "".join([*prose, rest]), "".join([*names, rest])


def _blanks(text: str) -> str:
    """Return as many blanks as a text has characters, with its line breaks."""
    return "\n".join(" " * len(line) for line in text.split("\n")) if "\n" in text else " " * len(text)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])
