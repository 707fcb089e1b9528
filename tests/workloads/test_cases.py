"""The programs of the gallery: each runs a few small steps on a CPU, with its phases inside the steps."""

import contextlib
import importlib
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

STEPS = 2
TRAINING = {"data", "copy", "forward", "backward", "optimizer"}
TINY = ["--images", "8", "--batch-size", "2", "--workers", "0"]
# Program and options, and the phases that its steps open.
RUNS = [
    ("image_models", ["--model", "lenet", *TINY], TRAINING),
    ("image_models", ["--model", "mlp", "--amp", *TINY[:-1], "1"], TRAINING),
    ("cifar_files", [*TINY[:-1], "1"], TRAINING),
    ("cifar_files", ["--normalize", "gpu", "--packed", "--channels-last", *TINY], TRAINING),
    ("bert_qa", ["--small", "--length", "16", "--batch-size", "2", "--workers", "0"], TRAINING),
    ("bert_qa", ["--small", "--length", "16", "--batch-size", "2", "--optimizer", "single", "--amp"], TRAINING),
    ("inference", ["--side", "32", "--batch-size", "1"], {"copy", "forward", "build"}),
    ("decoding", ["--small", "--prompt", "8"], {"forward", "read", "build", "prompt"}),
    ("convolution", ["--batch-size", "20"], {"copy", "forward", "read"}),
    ("alexnet_scaling", ["--side", "64", "--batch-size", "2", "--gpus", "2"], TRAINING),
]
WITHOUT_DATA = {"inference", "decoding", "alexnet_scaling"}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    """Restore the TF32 settings after each test, because programs change them."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def run(name: str, words: list[str], folder: Path) -> None:
    """Run a program for two steps on the CPU, in this process."""
    where = [] if name in WITHOUT_DATA else ["--data", str(folder)]
    importlib.import_module(name).main([*words, *where, "--steps", str(STEPS), "--device", "cpu"])


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(("name", "words", "phases"), RUNS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_program_does_its_steps(
    name: str, words: list[str], phases: set[str], events: list[str], tmp_path: Path
) -> None:
    run(name, words, tmp_path)
    steps = [each for each in events if each[1:].startswith("batch ")]
    assert steps == [f"{sign}batch {number}" for number in range(STEPS) for sign in "+-"]
    assert {each[1:] for each in events} - {each[1:] for each in steps} == phases


@pytest.mark.usefixtures("events")
def test_a_seed_decides_the_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The losses do not depend on the number of loader processes."""
    said = []
    for seed, workers in (("1", "0"), ("1", "2"), ("2", "0")):
        run("image_models", ["--model", "lenet", *TINY[:-1], workers, "--seed", seed], tmp_path)
        said.append(capsys.readouterr().out.split("loss ")[1].split(",")[0])
    assert said[0] == said[1] != said[2]


@pytest.mark.usefixtures("events")
def test_pictures_are_the_same_from_files_and_packed_and_wherever_normalized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for words in ([], ["--normalize", "gpu"], ["--packed"]):
        run("cifar_files", [*words, *TINY], tmp_path)
        said.append(float(capsys.readouterr().out.split("loss ")[1].split(",")[0]))
    assert said[1:] == pytest.approx([said[0]] * 2, abs=2e-4)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("inference", ["--engine", "graphs", "--side", "32", "--batch-size", "1"], "needs a GPU"),
        ("decoding", ["--graphs", "--small", "--prompt", "8"], "needs a GPU"),
        ("decoding", ["--small", "--prompt", "63"], "more than the 64 tokens"),
        ("bert_qa", ["--small", "--length", "65"], "more than the 64 tokens"),
        ("image_pipeline", ["--engine", "gpu"], "needs a GPU"),
        ("alexnet_scaling", ["--gpus", "2", "--mode", "ddp"], "start it with torchrun"),
        ("alexnet_scaling", ["--gpus", "2", "--batch-size", "3"], "cannot share 3 images"),
    ],
)
def test_what_cannot_be_is_said(name: str, words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=message):
        run(name, words, tmp_path)


@pytest.mark.usefixtures("shared")
def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.io", None)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", None)
    with pytest.raises(SystemExit, match="torchvision"):
        run("image_pipeline", ["--images", "2"], tmp_path)
    with pytest.raises(SystemExit, match="torch_tensorrt"):
        importlib.import_module("inference").tensorrt(torch.nn.Identity(), torch.zeros(1))


@pytest.mark.usefixtures("shared")
def test_no_range_of_the_pipeline_is_open_when_a_batch_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open range would be closed by the wrong call, because NVTX always ends the range that began last."""
    pipeline, common = importlib.import_module("image_pipeline"), importlib.import_module("common")
    opened: list[str] = []

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        opened.append(name)
        yield
        opened.remove(name)

    monkeypatch.setattr(common, "phase", phase)
    image = torch.zeros(3, pipeline.SIDE, pipeline.SIDE, dtype=torch.uint8)
    monkeypatch.setattr(pipeline, "decoded", lambda some, _: [image for _ in some])
    chosen = Namespace(seed=0, engine="cpu", steps=2, batch_size=1)
    for batch in pipeline.batches([Path("a.jpg")], chosen, torch.device("cpu")):
        assert batch.shape[0] == 1
        assert opened == []


@pytest.mark.usefixtures("shared")
def test_networks_have_the_sizes_that_were_published() -> None:
    """The sizes are parameters in millions, for 1000 classes. The networks are on no device and compute nothing."""
    networks = importlib.import_module("networks")
    published = {"alexnet": 61.1, "vgg16": 138.4, "resnet50": 25.6}
    for name, millions in published.items():
        make, side = networks.NETWORKS[name]
        with torch.device("meta"):
            model = make(1000, side)
            assert model(torch.empty(2, 3, side, side)).shape == (2, 1000)
        assert sum(each.numel() for each in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.1), name


@pytest.mark.usefixtures("shared")
def test_transformers_have_the_sizes_that_were_published() -> None:
    """BERT-base has 108.9 million parameters without its pooling, and the smallest GPT-2 has 124.4 million."""
    transformer = importlib.import_module("networks.transformer")
    gpt2 = importlib.import_module("decoding").GPT2
    with torch.device("meta"):
        models = transformer.Reader(transformer.Size()), transformer.Writer(gpt2)
    millions = [sum(each.numel() for each in model.parameters()) / 1e6 for model in models]
    assert millions == pytest.approx([108.9, 124.4], abs=0.1)


@pytest.mark.usefixtures("shared")
def test_tokens_one_by_one_are_those_of_a_longer_prompt() -> None:
    """With the cache, each token is the one that follows from the whole text before it."""
    transformer = importlib.import_module("networks.transformer")
    decoding = importlib.import_module("decoding")
    torch.manual_seed(0)
    model = transformer.Writer(transformer.SMALL).eval()
    prompt = torch.randint(transformer.SMALL.vocabulary, (1, 5))
    with torch.inference_mode():
        text = decoding.Text(model, transformer.SMALL, 1, torch.device("cpu"))
        text.read(prompt)
        whole = prompt
        for _ in range(4):
            whole = torch.cat([whole, text.token], 1)
            fresh = decoding.Text(model, transformer.SMALL, 1, torch.device("cpu"))
            fresh.read(whole)
            text.write()
            assert text.token.item() == fresh.token.item()
