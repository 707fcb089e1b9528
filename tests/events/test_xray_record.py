"""What PyTorch said of the X-ray step, as a file holds it."""

import json

from xray_program import record

from nsyswrap.events.xray_record import Tensor, cleaned_xray, read_xray


def test_operators_sites_and_modules_are_read() -> None:
    (process,) = read_xray(record())
    assert [each.line for each in process.sites] == [7, 8, 30]
    assert process.modules[2].path == "layers.0.linear"
    assert process.operators[2].inputs[0] == Tensor((64, 64), (64, 1), "bfloat16", 20)
    assert (process.operators[5].sequence, process.operators[5].forward_thread) == (5, 1)


def test_lists_of_tensors_and_scalars_are_arguments() -> None:
    found = record()
    found["processes"][0]["operators"][0]["inputs"] = [[{"shape": [2]}, None], 0.5, True, {"shape": [], "dtype": "x"}]
    (process,) = read_xray(found)
    assert process.operators[1].inputs == ((Tensor((2,)), None), 0.5, True, Tensor((), dtype="x"))


def test_a_process_that_cannot_be_read_is_left_out() -> None:
    """The others are read."""
    found = record()
    found["processes"] += [{"pid": "?"}, {"pid": 1, "operators": [{"id": 1}]}, 7, None]
    assert [each.pid for each in read_xray(found)] == [read_xray(record())[0].pid]
    assert read_xray({"schema": "nsyswrap.xray/2"}) == read_xray(None) == read_xray([]) == ()


def test_repeated_elements_are_no_bytes() -> None:
    """A dimension with stride 0 repeats them. The size of an unknown type is not known."""
    assert Tensor((4, 8), (1, 0), "bfloat16").bytes == 8
    assert Tensor((4, 8), None, "float32").bytes == 128
    assert Tensor((4,), None, "of the future").bytes is None


def test_a_shared_record_says_the_same_without_texts_of_the_program() -> None:
    """Files and names are cleaned, texts among arguments are left out."""
    found = record()
    found["processes"][0]["operators"][0]["inputs"] = ["/home/someone/data", 3]
    shared = cleaned_xray(read_xray(found), str, lambda path: path.rpartition("/")[2])
    assert "someone" not in json.dumps(shared)
    (process,) = read_xray(json.loads(json.dumps(shared)))
    assert process.operators[1].inputs == (None, 3)
    assert process.operators[2] == read_xray(found)[0].operators[2]
    assert process.sites[1].file == "model.py"
