"""What a release is built from."""

from pathlib import Path

import release
from committed_files import committed

ROOT = Path(__file__).resolve().parents[2]


def test_a_release_is_built_from_committed_files(tmp_path: Path) -> None:
    release.committed_tree(tmp_path)
    expected = {path.relative_to(ROOT) for path in committed("nsyswrap")}
    assert expected <= {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    assert not (tmp_path / ".git").exists()


def test_the_list_of_parts_names_no_folder_of_this_machine() -> None:
    given = '{"url": "file:///home/someone/dist/nsyswrap-1-py3-none-any.whl", "docs": "https://example.org/a/b"}'
    expected = '{"url": "nsyswrap-1-py3-none-any.whl", "docs": "https://example.org/a/b"}'
    assert release.without_folders(given) == expected
