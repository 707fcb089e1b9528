"""The cases of the gallery: programs with their options, and the published claims that they reproduce."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One profile.

    Attributes:
        name: Folder in reports/gallery.
        program: File in workloads/ without `.py`.
    """

    name: str
    program: str
    options: str = ""
    keeps_page: bool = False
    keeps_capture: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A published claim and the cases that reproduce it.

    Attributes:
        title: Heading in docs/results.md.
        source: The claim with its figures and the device they were measured on.
        cases: Names of the cases, in the order of the table.
    """

    title: str
    source: str
    cases: tuple[str, ...]


def _files(name: str, options: str, *, kept: bool = False) -> Case:
    return Case(f"cifar-{name}", "cifar_files", options, kept, kept)


_IMAGES = tuple(
    Case(
        f"{model}-{'amp' if amp else 'fp32'}",
        "image_models",
        f"--model {model} --batch-size {size}{' --amp' if amp else ''}",
        keeps_page=model == "vgg16",
        keeps_capture=model == "vgg16" and bool(amp),
    )
    for model, size in (("mlp", 64), ("lenet", 64), ("alexnet", 128), ("vgg16", 32), ("resnet50", 32))
    for amp in (0, 1)
)
_THREE = "--workers 3"
_BYTES = f"{_THREE} --normalize gpu"
_RESNET = f"{_BYTES} --packed --model resnet50 --channels-last"

# The most important first: if time runs out, the last are left out.
CASES = (
    Case("mnist-1-worker", "mnist", "--epochs 1", keeps_page=True, keeps_capture=True),
    Case("mnist-8-workers", "mnist", "--epochs 1 --workers 8"),
    *_IMAGES,
    _files("1-worker", "", kept=True),
    _files("3-workers", _THREE),
    _files("normalized-on-gpu", _BYTES),
    _files("packed", f"{_BYTES} --packed"),
    _files("resnet50-fp32", _RESNET),
    _files("resnet50-amp", f"{_RESNET} --amp"),
    Case("bert-fp32", "bert_qa"),
    Case("bert-amp", "bert_qa", "--amp", keeps_page=True, keeps_capture=True),
    Case("decoding", "decoding", "--amp", keeps_page=True, keeps_capture=True),
    Case("decoding-graphs", "decoding", "--amp --graphs"),
    Case("inference-fp32", "inference"),
    Case("inference-fp16", "inference", "--half", keeps_page=True, keeps_capture=True),
    Case("inference-fp16-graphs", "inference", "--half --engine graphs"),
    Case("pipeline-cpu", "image_pipeline", "", keeps_page=True, keeps_capture=True),
    Case("pipeline-gpu", "image_pipeline", "--engine gpu"),
    Case("convolution-own-10000", "convolution", "--batch-size 10000", keeps_capture=True),
    Case("convolution-cudnn-10000", "convolution", "--engine cudnn --batch-size 10000"),
    Case("bert-amp-single", "bert_qa", "--amp --optimizer single"),
    Case("bert-amp-fused", "bert_qa", "--amp --optimizer fused"),
    *(Case(f"alexnet-{size}", "image_models", f"--model alexnet --batch-size {size}") for size in (8, 16, 32)),
    Case("convolution-own-1000", "convolution", "--batch-size 1000"),
    Case("convolution-cudnn-1000", "convolution", "--engine cudnn --batch-size 1000"),
    Case("convolution-own-100", "convolution", "--batch-size 100"),
    Case("convolution-cudnn-100", "convolution", "--engine cudnn --batch-size 100"),
    Case("inference-fp16-compile", "inference", "--half --engine compile"),
    Case("inference-fp32-graphs", "inference", "--engine graphs"),
    Case("inference-fp32-compile", "inference", "--engine compile"),
    Case("inference-tensorrt", "inference", "--half --engine tensorrt"),
    Case("pipeline-dali", "image_pipeline", "--engine dali"),
)

CLAIMS = (
    Claim(
        "Mixed precision on image networks",
        "T4: mixed precision turns tensor cores on for MLP, AlexNet, VGG and ResNet, not for LeNet. Kernels take from "
        "2 % (MLP) to 98 % (VGG) of the time. Kernel time of ResNet50 falls from 2282 ms to 715 ms, of VGG from "
        "1126 ms to 602 ms. The small networks are bound by the loader.",
        tuple(case.name for case in _IMAGES),
    ),
    Claim(
        "MNIST and the number of loader processes",
        "V100: the wait for a batch falls from 5.1 ms with one process to 60 us with eight, an epoch from 11.6 s "
        "to 8.0 s.",
        ("mnist-1-worker", "mnist-8-workers"),
    ),
    Claim(
        "One file for each image",
        "Titan RTX: a step takes 134 ms with one loader process, 39 ms with three, 33 ms with normalization on the "
        "GPU; GPU utilization grows from 3 % to 11 %. ResNet50 in channels_last: kernel time falls from 37 ms in "
        "float32 to 14 ms in mixed precision, and the tensor share grows to 25 %.",
        tuple(case.name for case in CASES if case.program == "cifar_files"),
    ),
    Claim(
        "AlexNet and the batch size",
        "Maxwell, nvprof: the ten GPU activities that take longest, for batches of 8, 16, 32 and 128; no "
        "figures are quoted.",
        ("alexnet-8", "alexnet-16", "alexnet-32", "alexnet-fp32"),
    ),
    Claim(
        "BERT-base answers questions",
        "V100: a step at length 384 takes 460 ms in float32 and 222 ms in mixed precision (2.1 times). Adam with "
        "kernels for each parameter keeps the GPU's utilization low.",
        ("bert-fp32", "bert-amp", "bert-amp-single", "bert-amp-fused"),
    ),
    Claim(
        "ResNet50 inference",
        "V100: float16 takes a batch from 27 ms to 11 ms in a framework, and from 6.4 ms to 1.2 ms in TensorRT.",
        tuple(case.name for case in CASES if case.program == "inference"),
    ),
    Claim(
        "Image pipeline",
        "Decoding, cropping, flipping and normalizing takes 3.3 ms on the CPU and 0.7 ms on the GPU.",
        tuple(case.name for case in CASES if case.program == "image_pipeline"),
    ),
    Claim(
        "Decoding token by token",
        "Kernels are shorter than their launches: the host decides how fast tokens come. With CUDA graphs it does not.",
        ("decoding", "decoding-graphs"),
    ),
    Claim(
        "Convolution of 28 × 28 images",
        "A kernel written by hand against cuDNN, for batches of 100, 1000 and 10000: times of kernels, and user, "
        "system and elapsed time of the program; no figures are quoted.",
        tuple(case.name for case in CASES if case.program == "convolution"),
    ),
)


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)
