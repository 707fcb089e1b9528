"""The programs that people know: both forms run, their captures become pages, and a GPU is taken by one at a time."""

import importlib
import json
import lzma
import re
import shutil
from pathlib import Path
from threading import Thread

import gallery_index as cards
import known_programs as known
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
OF_ONE_GPU = [each for each in known.KNOWN if each.module.startswith("known.")]


def test_there_are_twelve_with_a_story_of_short_sentences() -> None:
    assert len({each.name for each in known.KNOWN}) == len(known.KNOWN) == 12
    for each in known.KNOWN:
        assert (ROOT / "workloads" / f"{each.module.replace('.', '/')}.py").exists()
        assert max(len(each.what.split()), len(each.change.split())) <= 20
        assert each.command(known.BEFORE, Path("data")) != each.command(known.AFTER, Path("data"))


@pytest.mark.slow
@pytest.mark.parametrize("form", known.FORMS)
@pytest.mark.parametrize("program", OF_ONE_GPU, ids=lambda each: each.name)
def test_both_forms_of_a_program_run_on_a_cpu(
    program: object, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.syspath_prepend(str(ROOT / "workloads"))
    words = program.command(form, Path())  # type: ignore[attr-defined]  # a class of a tool
    importlib.import_module(words[2]).main([*words[3:-1], "3", "--device", "cpu"])
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.slow
def test_pages_and_the_story_are_made_of_two_captures(tmp_path: Path) -> None:
    program = next(each for each in known.KNOWN if each.name == "vit")
    for form, sample in zip(known.FORMS, ("mnist-1-worker", "mnist-8-workers"), strict=True):
        (tmp_path / "vit" / form).mkdir(parents=True)
        for file in (known.PACKED, "run.json"):
            shutil.copyfile(SAMPLES / sample / file, tmp_path / "vit" / form / file)
    assert known.main(["--again", "--out", str(tmp_path)]) == 0
    (story,) = json.loads((tmp_path / known.STORIES).read_text()).values()
    assert story["title"] == program.title
    assert (
        story["story"][1]
        == "Its report said: “The GPU waits for data 57.3 % of the time: the data loader is too slow.”"
    )
    assert len(story["story"]) == 5
    assert "without the profiler" in story["story"][3]
    shown = cards.known(tmp_path)
    for page in ("before/report.html", "after/report.html", "compare.html"):
        assert f"programs/vit/{page}" in shown
        assert (tmp_path / "vit" / page).exists()


def test_a_program_of_two_gpus_waits_until_both_are_free() -> None:
    gpus, seen = known.Gpus(2), list[str]()

    def take(count: int) -> None:
        with gpus.taken(count) as visible:
            seen.append(visible)

    with gpus.taken(1) as first:
        pair = Thread(target=take, args=(2,))
        pair.start()
        assert first == "0"
    pair.join(10)
    assert seen == ["1,0"]


def test_no_programs_are_no_part_of_the_gallery(tmp_path: Path) -> None:
    assert cards.known(tmp_path) == ""


@pytest.mark.parametrize("file", sorted(known.PROGRAMS.rglob("*.*")), ids=lambda file: "/".join(file.parts[-3:]))
def test_a_committed_file_is_small_and_holds_nothing_private(file: Path) -> None:
    content = file.read_bytes()
    assert len(content) <= (2_500_000 if file.suffix == ".xz" else 1_500_000)
    content = lzma.decompress(content) if file.suffix == ".xz" else content
    assert re.findall(rb"/(?:home|Users)/\w+|/root/|(?i:token|secret|password|api_?key)=", content) == []
