"""A sweep as TOML: what it may hold, and a message for each mistake."""

import pytest
from made_sweeps import GPUS, WORKERS, spec_of

from nsyswrap.base.errors import UsageError
from nsyswrap.sweep.spec import parse


def test_what_is_not_given_has_a_default() -> None:
    spec = parse(WORKERS.replace('name = "Workers"\n', ""), "some/folder/loaders.toml")
    assert (spec.name, spec.seed, spec.tolerance, spec.options) == ("loaders", None, 0.02, ())
    assert spec.budget.repeats == 1
    assert spec.budget.time_s is None
    assert [value.name for value in spec.axes[0].values] == ["0", "1", "2", "4", "8"]


def test_texts_tables_and_numbers_are_values() -> None:
    spec = spec_of('command = "a {x}"\n[axes]\nx = ["a b", 1.5, true, {name = "n", words = "--flag --on"}]\n')
    assert [(each.name, each.words) for each in spec.axes[0].values] == [
        ("a b", "'a b'"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("n", "--flag --on"),
    ]
    assert [each.number for each in spec.axes[0].values] == [None, 1.5, None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command = ", "is no TOML"),
        ('command = "a"', "table \\[axes\\]"),
        ("[axes]\nx = [1]", "command is missing"),
        ('comand = "a"\n[axes]\nx = [1]', "unknown key 'comand'"),
        ('command = "a"\n[axes]\nx = [1, 2]', "axis x is used nowhere"),
        ('command = "a {y}"\n[axes]\nx = [1]', "{y} is no axis"),
        ('command = "a {x}"\n[axes]\nx = [1, 1]', "each once"),
        ('command = "a {x}"\n[axes]\nx = []', "needs values"),
        ('command = "a {x}"\n[axes]\nx = 3', "axes.x is a list"),
        ('command = "a {x}"\n[axes]\nx = [[1]]', "a value is a text, a number"),
        ('command = "a {gpus}"\n[axes]\ngpus = [1, 2]', "batch_of"),
        ('command = "a {gpus}"\nbatch_of = "all"\n[axes]\ngpus = [1, 2]', "batch_of is 'all GPUs'"),
        ('command = "a {batch}"\n[axes]\nbatch = ["many"]', "axes.batch needs numbers"),
        ('command = "a {x}"\n[axes]\nx = [1]\n[[skip]]\nx = 2', "there is no x = 2"),
        ('command = "a {x}"\n[axes]\nx = [1]\n[[same]]\nwhere = {x = 1}', "same needs 'where' and 'as'"),
        ('command = "a {x}"\n[axes]\nx = [1]\n[budget]\ntime = 2', "unknown key 'budget.time'"),
        ('command = "a {x}"\n[axes]\nx = [1]\n[budget]\nrepeats = 0', "budget.repeats is a number of at least 1"),
        ('command = "a {x} \'"\n[axes]\nx = [1]', "cannot be split"),
        ('command = "a {x}"\nseed = "s"\n[axes]\nx = [1]', "seed is a number"),
        ('command = "a {x}"\n[axes]\nx = [{name = "a", words = "{x}"}]', "name themselves"),
    ],
)
def test_each_mistake_has_its_message(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec_of(text)


def test_visible_gpus_follow_from_the_axis_of_gpus() -> None:
    """An axis that only its environment uses is used; without that axis there is no such placeholder."""
    spec_of('command = "a"\nbatch_of = "each GPU"\n[axes]\ngpus = [1, 2]\n[environment]\nX = "{visible_gpus}"')
    with pytest.raises(UsageError, match="visible_gpus"):
        spec_of('command = "a {visible_gpus}"\n[axes]\nx = [1]')
    assert spec_of(GPUS).environment == {"CUDA_VISIBLE_DEVICES": "{visible_gpus}"}
