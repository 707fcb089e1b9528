"""The experiments "cudnn_benchmark" and "channels_last" of programs with convolutions on a GPU."""

from typing import Any

from ..tried.experiment import ROUNDING, Experiment, NotApplicableError, Undo, require
from ..tried.program import TriedProgram

_IMAGES = 4  # dimensions of a batch of images, and of the weight of a convolution


def _check(program: TriedProgram) -> None:
    """Raise ``NotApplicableError`` for a program without convolutions of images on a GPU."""
    require(program.uses_gpu, "the program uses no GPU")
    if not any(isinstance(each, program.torch.nn.Conv2d) for each in program.modules()):
        raise NotApplicableError("the models have no convolutions of images")


def _benchmark_values(program: TriedProgram) -> list[str]:
    _check(program)
    require(not program.torch.backends.cudnn.benchmark, "it is on already")
    return [""]


def _benchmark(program: TriedProgram, _value: str) -> None:
    """Let cuDNN measure its algorithms from the first convolution on, also where the program sets it to False.

    PyTorch keeps the algorithm of a shape that has run, whether it was measured or not.

    Source: ``benchmark_cache`` in aten/src/ATen/native/cudnn/Conv_v8.cpp, whose key has no such flag.
    """
    cudnn = program.torch.backends.cudnn
    cudnn.benchmark = True
    type(cudnn).benchmark = property(lambda _module: True, lambda _module, _value: None)


def _layout_values(program: TriedProgram) -> list[str]:
    _check(program)
    last = program.torch.channels_last
    weights = [each.weight for each in program.modules() if isinstance(each, program.torch.nn.Conv2d)]
    if all(each.is_contiguous(memory_format=last) and not each.is_contiguous() for each in weights):
        raise NotApplicableError("the weights have this layout already")
    return [""]


def _layout(program: TriedProgram, _value: str) -> Undo:
    """Give weights, the state of their optimizers, and inputs the layout."""
    torch = program.torch
    hooks = [
        each.register_forward_pre_hook(lambda _module, given: tuple(_laid(torch, one) for one in given))
        for each in program.models
    ]
    _lay_out(program, torch.channels_last)

    def undo() -> None:
        for each in hooks:
            each.remove()
        _lay_out(program, torch.contiguous_format)

    return undo


def _laid(torch: Any, value: Any) -> Any:
    is_batch = isinstance(value, torch.Tensor) and value.dim() == _IMAGES
    return value.contiguous(memory_format=torch.channels_last) if is_batch else value


def _lay_out(program: TriedProgram, layout: Any) -> None:
    """Give weights and the state of their optimizers a layout."""
    for model in program.models:
        model.to(memory_format=layout)
    for optimizer in program.optimizers:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, program.torch.Tensor) and value.dim() == _IMAGES:
                    state[name] = value.contiguous(memory_format=layout)


EXPERIMENTS = (
    Experiment(
        key="cudnn_benchmark",
        place=6,
        name="cuDNN benchmark",
        alters=ROUNDING,
        values=_benchmark_values,
        prepare=_benchmark,
        lines={"PyTorch": "torch.backends.cudnn.benchmark = True", "Lightning": "trainer = Trainer(benchmark=True)"},
    ),
    Experiment(
        key="channels_last",
        place=70,
        name="channels last",
        alters=ROUNDING,
        values=_layout_values,
        switch=_layout,
        lines={
            "PyTorch": "model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(device, memory_format=torch.channels_last)",
            "Lightning": "module = module.to(memory_format=torch.channels_last)",
        },
    ),
)
