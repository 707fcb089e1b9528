"""The files for CI jobs: their shell steps run, with a server that answers like GitHub or GitLab."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CI = Path(__file__).parents[2] / "ci"
MARKER = "<!-- nsyswrap gate -->"
LIMIT_S = 60


@dataclass
class Comments:
    """The comments of one request, and what was sent."""

    bodies: dict[int, str] = field(default_factory=dict)
    sent: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    address: str = ""


@pytest.fixture
def comments() -> Iterator[Comments]:
    """Serve comments on a free port."""
    kept = Comments()

    class Handler(BaseHTTPRequestHandler):
        def answer(self, value: Any) -> None:  # noqa: ANN401 - any JSON
            text = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            """Return one page of comments."""
            kept.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or "")
            page = int(parse_qs(urlsplit(self.path).query)["page"][0])
            listed = sorted(kept.bodies.items())[100 * (page - 1) : 100 * page]
            self.answer([{"id": number, "body": body} for number, body in listed])

        def keep(self) -> None:
            """Add a comment, or replace the one that the address names."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
            kept.sent.append((self.command, self.path))
            number = len(kept.bodies) + 1 if self.command == "POST" else int(self.path.rpartition("/")[2])
            kept.bodies[number] = body
            self.answer({"id": number})

        do_POST = do_PATCH = do_PUT = keep  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()
    thread.join(LIMIT_S)


def environment(kept: Comments, kind: str) -> dict[str, str]:
    """Return the variables of a job."""
    if kind == "github":
        return {
            "GITHUB_TOKEN": "secret",
            "GITHUB_REPOSITORY": "one/two",
            "GITHUB_API_URL": kept.address,
            "PULL_REQUEST": "7",
        }
    return {
        "GITLAB_TOKEN": "secret",
        "CI_API_V4_URL": kept.address,
        "CI_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7",
    }


def shell(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without a proxy between it and the server."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(
        command, cwd=folder, env=kept | variables, timeout=LIMIT_S, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("github", ("POST", "/repos/one/two/issues/7/comments"), ("PATCH", "/repos/one/two/issues/comments/1")),
        ("gitlab", ("POST", "/projects/5/merge_requests/7/notes"), ("PUT", "/projects/5/merge_requests/7/notes/1")),
    ],
)
def test_a_comment_is_posted_once_and_then_updated(
    tmp_path: Path, comments: Comments, kind: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """The text arrives unchanged, with quotes, backslashes and letters beyond ASCII."""
    for text in ("first \"quoted\" \\ 'µs' $HOME `x`", "second"):
        (tmp_path / "gate.md").write_text(f"{MARKER}\n{text}\n", encoding="utf-8")
        done = shell(
            tmp_path, sys.executable, "-S", str(CI / "comment.py"), kind, "gate.md", **environment(comments, kind)
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert comments.bodies == {1: f"{MARKER}\n{text}\n"}
    assert comments.sent == [first, second]
    assert comments.tokens == {"Bearer secret" if kind == "github" else "secret"}


def test_the_comment_is_found_behind_a_hundred_others(tmp_path: Path, comments: Comments) -> None:
    comments.bodies = dict.fromkeys(range(1, 131), f"a comment that quotes {MARKER}")
    comments.bodies[117] = f"{MARKER}\nold"
    (tmp_path / "gate.md").write_text(f"{MARKER}\nnew\n")
    done = shell(
        tmp_path, sys.executable, "-S", str(CI / "comment.py"), "github", "gate.md", **environment(comments, "github")
    )
    assert (done.returncode, comments.bodies[117]) == (0, f"{MARKER}\nnew\n")
    assert len(comments.bodies) == 130


def test_a_server_that_does_not_answer_fails_the_step(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text(f"{MARKER}\nnew\n")
    variables = environment(Comments(address="http://127.0.0.1:9"), "github")
    done = shell(tmp_path, sys.executable, "-S", str(CI / "comment.py"), "github", "gate.md", **variables)
    assert done.returncode != 0
    assert "secret" not in done.stdout + done.stderr


def stand_in(folder: Path, code: int, *, writes: bool = True) -> str:
    """Put a program `nsyswrap` into a folder that keeps its arguments and ends with a code; return PATH."""
    program = folder / "bin" / "nsyswrap"
    program.parent.mkdir()
    lines = [
        f"#!{sys.executable}",
        "import pathlib, sys",
        "pathlib.Path('arguments').write_text(' '.join(sys.argv[1:]))",
        *([f"pathlib.Path('gate.md').write_text({MARKER!r} + chr(10) + 'text' + chr(10))"] if writes else []),
        f"sys.exit({code})",
    ]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_gate_writes_its_comment_and_its_code(tmp_path: Path, code: int) -> None:
    """Patterns and options are split into words."""
    for name in ("new-1", "main-1", "main-2"):
        (tmp_path / name).mkdir()
    variables = {"NEW": "new-*", "AGAINST": "main-*", "OPTIONS": "--find 10", "PATH": stand_in(tmp_path, code)}
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = shell(tmp_path, str(CI / "gate.sh"), **variables, **files)
    assert done.returncode == 0
    assert (tmp_path / "arguments").read_text() == "gate new-1 --against main-1 main-2 --find 10 -o gate.md"
    assert (tmp_path / "output").read_text() == f"code={code}\n"
    assert (tmp_path / "gate.code").read_text() == f"{code}\n"
    assert (tmp_path / "summary").read_text().startswith(MARKER)


def test_a_gate_without_a_result_fails_the_step(tmp_path: Path) -> None:
    """An old gate.md is not taken for the result."""
    (tmp_path / "gate.md").write_text("old")
    (tmp_path / "y").mkdir()
    done = shell(tmp_path, str(CI / "gate.sh"), NEW="x", AGAINST="y", PATH=stand_in(tmp_path, 2, writes=False))
    assert done.returncode == 2
    assert not (tmp_path / "gate.md").exists()


@pytest.mark.parametrize(
    ("code", "strict", "expected"), [("0", "false", 0), ("1", "false", 1), ("3", "false", 0), ("3", "true", 3)]
)
def test_the_last_step_of_the_action_decides(tmp_path: Path, code: str, strict: str, expected: int) -> None:
    text = (CI / "gate" / "action.yml").read_text()
    steps = re.findall(r"run: \|\n((?: {8}.*\n)+)", text)
    assert len(steps) == 1
    script = re.sub(r"^ {8}", "", steps[0], flags=re.MULTILINE)
    done = shell(tmp_path, "bash", "-e", "-c", script, CODE=code, STRICT=strict)
    assert done.returncode == expected
    assert ("::warning::" in done.stdout) == (code == "3" and strict == "false")


def test_no_expression_stands_inside_a_script() -> None:
    """Values reach scripts as variables, so a name that a contributor chose is never run as shell."""
    text = (CI / "gate" / "action.yml").read_text()
    scripts = re.findall(r"^ +run: (?:\|\n(?: {8}.*\n)+|.*\n)", text, re.MULTILINE)
    assert len(scripts) == 3
    assert not any("${{" in script for script in scripts)


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text(f"{MARKER}\nnew\n")
    done = shell(tmp_path, sys.executable, "-S", str(CI / "comment.py"), "gitlab", "gate.md", CI_API_V4_URL="http://x")
    assert (done.returncode, done.stderr) == (2, "comment.py: the variable CI_PROJECT_ID is not set\n")
