"""ResNet50 classifies images: in float32 and float16, kernel by kernel, compiled, as one CUDA graph, or by TensorRT.

python workloads/inference.py                            float32, eager; other engines likewise
python workloads/inference.py --half                     float16, channels last
python workloads/inference.py --half --engine graphs     all kernels of a batch in one launch
python workloads/inference.py --half --engine compile    through torch.compile
python workloads/inference.py --half --engine tensorrt   where torch_tensorrt is installed
"""

import argparse
import importlib
from collections.abc import Callable

import common
import networks
import pictures
import torch
from faults.training import Pace
from torch import Tensor, nn

EXPECTS = {
    "": ("tensor_cores/not_used or launches/launch_bound or gpu/between_operations", "tensor_cores/not_used"),
    "--engine graphs": ("tensor_cores/not_used",),
    "--engine compile": ("tensor_cores/not_used",),
    "--half": ("launches/launch_bound",),
    "--half --engine graphs": ("gpu/between_operations or compute/unfused", "copies/exposed"),
    "--half --engine compile": ("launches/launch_bound",),
}

ENGINES = ("eager", "compile", "graphs", "tensorrt")
SIDE = 224
WARM_UP = 3
HELD = 4  # different batches

Run = Callable[[Tensor], Tensor]


def captured(model: nn.Module, example: Tensor) -> Run:
    """Return the model as one CUDA graph for inputs like the example."""
    if example.device.type != "cuda":
        raise SystemExit("inference.py: --engine graphs needs a GPU")
    given = example.clone()
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            model(given)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores: Tensor = model(given)

    def run(images: Tensor) -> Tensor:
        given.copy_(images)
        graph.replay()
        return scores

    return run


def tensorrt(model: nn.Module, example: Tensor) -> Run:
    """Return the model as TensorRT builds it for inputs like the example."""
    try:
        library = importlib.import_module("torch_tensorrt")
    except ImportError as error:
        raise SystemExit(f"inference.py: --engine tensorrt needs torch_tensorrt, which is not here: {error}") from error
    built: Run = library.compile(model, ir="dynamo", inputs=[example], enabled_precisions={example.dtype})
    return built


def engine(name: str, model: nn.Module, example: Tensor) -> Run:
    """Return the model as an engine runs it, ready for batches like the example."""
    if name == "graphs":
        return captured(model, example)
    if name == "tensorrt":
        return tensorrt(model, example)
    run: Run = torch.compile(model) if name == "compile" else model
    for _ in range(WARM_UP):
        run(example)
    return run


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=8, steps=40)
    parser.add_argument("--engine", choices=ENGINES, default="eager", help="what runs the model (%(default)s)")
    parser.add_argument("--half", action="store_true", help="float16 in place of float32")
    parser.add_argument("--side", type=common.positive, default=SIDE, metavar="N", help="pixels (%(default)s)")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Classify all batches, and print the spread of the scores."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    networks.full_precision()
    device = common.device_named(chosen.device)
    dtype = torch.float16 if chosen.half else torch.float32
    layout = torch.channels_last if chosen.half else torch.contiguous_format
    model = networks.resnet50(networks.CLASSES, chosen.side).eval().to(device, dtype, memory_format=layout)
    drawn = torch.from_numpy(pictures.draw(HELD * chosen.batch_size, chosen.side, chosen.seed))
    images = pictures.normalised(drawn).to(dtype).contiguous(memory_format=layout).split(chosen.batch_size)
    held = [each.pin_memory() if device.type == "cuda" else each for each in images]
    pace = Pace(device)
    with torch.inference_mode():
        with common.phase("build"):
            run = engine(chosen.engine, model, held[0].to(device))
        for number in range(chosen.steps):
            with common.batch(number):
                with common.phase("copy"):
                    batch = held[number % HELD].to(device, non_blocking=True)
                with common.phase("forward"):
                    scores = run(batch)
                pace.wait()
    print(f"{chosen.steps} batches of {chosen.batch_size}, {chosen.engine}, {dtype}, {device.type}: {scores.std():.4f}")


if __name__ == "__main__":
    main()
