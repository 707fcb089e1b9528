"""A page as its elements: which there are, what they say, and that they nest."""

from html.parser import HTMLParser
from typing import ClassVar

VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})


class Page(HTMLParser):
    """A parsed page: elements in order, text by element, and a check that tags nest."""

    shapes: ClassVar[frozenset[str]] = frozenset({"rect", "path", "circle", "line", "polygon"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an element that closes itself."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        """Keep the visible text."""
        if not {"style", "script", "template", "title"} & set(self.open):
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element of that kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    @property
    def text(self) -> str:
        """Return the visible text, with white space joined."""
        return " ".join(" ".join(self.words).split())
