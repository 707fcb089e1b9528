"""Identifying words are found wherever nsys stores them, and removed from every kind of text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from export_builder import ExportBuilder
from hypothesis import given
from hypothesis import strategies as st
from real_captures import Planted

from nsyswrap.base.privacy import Cleaner, Identity
from nsyswrap.trace.connection import opened
from nsyswrap.trace.identity import identity_of, variables

Found = Callable[[ExportBuilder], Identity]
ANN = Identity(
    ("/data/ann/venv", "/data/ann"), ("gpu-box.example.org", "gpu-box", "annabella"), ("s3cr3t!", "sk-12345678")
)


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Return a function that writes an export and collects the words in it."""

    def identity(builder: ExportBuilder) -> Identity:
        with opened(builder.write(tmp_path / "x.sqlite")) as export:
            return identity_of(export)

    return identity


@pytest.mark.parametrize("place", ["StringIds", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"])
def test_an_environment_is_read_from_each_place(found: Found, place: str) -> None:
    builder = ExportBuilder().environment({"HOME": "/data/ann", "USER": "annabella", "X_TOKEN": "s3cr3t!"})
    for other in {"StringIds", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"} - {place}:
        builder.without(other)
    assert found(builder) == Identity(
        ("/data/ann",), ("annabella",), ("czNjcjN0IQ==", "czNjcjN0IQ", "s3cr3t%21", "s3cr3t!")
    )


def test_the_description_of_an_export_is_read(found: Found) -> None:
    builder = ExportBuilder().system("Hostname", "gpu-box.example.org").option("PROCESS_0:USER_NAME", "annabella")
    builder.option("PROCESS_0:WORKING_DIR", "/data/ann/run/").row("META_DATA_EXPORT", name="EXPORT_HOST", value="other")
    builder.row("META_DATA_EXPORT", name="EXPORT_PARAM_INPUT_PATH_ABS", value="/scratch/x/a.nsys-rep")
    assert found(builder) == Identity(
        ("/data/ann/run", "/scratch/x"), ("gpu-box.example.org", "annabella", "gpu-box", "other"), ()
    )


def test_the_description_of_an_old_export_has_other_names(found: Found) -> None:
    builder = ExportBuilder(2022).row("EXPORT_META_DATA", name="EXPORT_USER", value="annabella")
    builder.row("EXPORT_META_DATA", name="EXPORT_OUTUPT_PATH_ABS", value="/scratch/x/a.sqlite")
    assert found(builder) == Identity(("/scratch/x",), ("annabella",), ())


def test_values_may_hold_the_separator_of_variables(tmp_path: Path) -> None:
    values = {"A": "1;2=3", "B": 'say "hi"', "C": "line\nline", "D": ""}
    with opened(
        ExportBuilder().environment(values).without("TARGET_INFO_SYSTEM_ENV").write(tmp_path / "x.sqlite")
    ) as export:
        assert set(variables(export)) == set(values.items())


@pytest.mark.parametrize(
    "user", ["root", "data", "forward", "step", "a", "", "next", "loss", "Loss", "zero_grad", "12"]
)
def test_names_that_identify_nobody_are_kept(found: Found, user: str) -> None:
    """Words that the analysis needs are kept too: for a user called "data", the phase data keeps its name."""
    assert found(ExportBuilder().environment({"USER": user, "PATH": "/bin"})).names == ()


@pytest.mark.parametrize("folder", ["/", "/opt", "/srv/", "relative"])
def test_common_folders_are_kept(found: Found, folder: str) -> None:
    assert found(ExportBuilder().environment({"HOME": folder, "PATH": "/bin"})).folders == ()


@pytest.mark.parametrize("value", ["1", "true", "forward", "short"])
def test_values_that_are_no_secrets_are_kept(found: Found, value: str) -> None:
    assert found(ExportBuilder().environment({"USE_AUTH_TOKEN": value, "PATH": "/bin"})).secrets == ()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("load /data/ann/x.bin", "load ~/x.bin"),
        ("load /data/ann/venv/x", "load ~/x"),
        ("load /data/annex/x", "load /data/annex/x"),
        ("run of annabella", "run of ***"),
        ("run_Annabella_3", "run_***_3"),
        ("annabellas run", "annabellas run"),
        ("on gpu-box.example.org", "on ***"),
        ("on GPU-BOX", "on ***"),
        ("token=s3cr3t!", "token=***"),
        ("read /home/bob/x", "read ~/x"),
        ("batch 3", "batch 3"),
        ("", ""),
    ],
)
def test_a_free_text_is_cleaned(text: str, clean: str) -> None:
    assert Cleaner(ANN).text(text) == clean


@pytest.mark.parametrize(
    ("symbol", "clean"),
    [
        ("void annabella::kernel<int>(T*)", "void annabella::kernel<int>(T*)"),
        ("lambda at /data/ann/x.cu:3", "lambda at ~/x.cu:3"),
        ("f<sk-12345678>", "f<***>"),
        ("f<s3cr3t!>", "f<s3cr3t!>"),
    ],
)
def test_a_symbol_keeps_its_words(symbol: str, clean: str) -> None:
    """Kernels are counted and classified by name, so only what cannot be code is removed."""
    assert Cleaner(ANN).symbol(symbol) == clean


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/data/ann/venv/lib/python3.12/site-packages/torch/nn/a.py", "lib/python3.12/site-packages/torch/nn/a.py"),
        ("/opt/x/dist-packages/a/b.py", "dist-packages/a/b.py"),
        ("/usr/lib/python3.12/threading.py", "lib/python3.12/threading.py"),
        ("/data/ann/secret-project/train.py", "train.py"),
        ("train.py", "train.py"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("/x/annabella.py", "***.py"),
    ],
)
def test_a_source_file_keeps_the_path_in_its_package(path: str, clean: str) -> None:
    assert Cleaner(ANN).file(path) == clean


@pytest.mark.parametrize(
    ("message", "clean"),
    [
        ("Number of CUDA events collected: 12.", "Number of CUDA events collected: 12."),
        ("see /tmp/nsight/streams/pid_1.log and more", "see pid_1.log and more"),
        ("'/opt/a b/c.so' failed: /opt/x/c.so: gone", "'c.so' failed: c.so: gone"),
        ("Loaded: /opt/x/libcupti.so.13", "Loaded: libcupti.so.13"),
        ("see ~/x/y.log, /data/ann/a/b.log and /home/bob/c.log", "see y.log, b.log and c.log"),
        ("ratio 3/4 of a/b / c", "ratio 3/4 of a/b / c"),
    ],
)
def test_a_message_loses_its_folders(message: str, clean: str) -> None:
    assert Cleaner(ANN).message(message) == clean


@given(st.text(max_size=20), st.sampled_from(ANN.names + ANN.secrets + ANN.folders), st.text(max_size=20))
def test_no_identifying_word_stays_between_others(before: str, word: str, after: str) -> None:
    assert word not in Cleaner(ANN).text(f"{before} {word} {after}")


def test_a_real_nsys_leaves_words_that_are_found(planted: Planted) -> None:
    with opened(planted.export) as export:
        identity = identity_of(export)
    assert str(planted.folder) in identity.folders
    assert "annabella" in identity.names
    assert planted.secret in identity.secrets
