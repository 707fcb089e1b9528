"""The experiment "cuda_graphs": forward and backward pass of the model as CUDA graphs, where its inputs allow it."""

from typing import Any

from ..tried.experiment import NOTHING, Experiment, NotApplicableError, Undo, require
from ..tried.program import TriedProgram, with_forward


def _values(program: TriedProgram) -> list[str]:
    require(program.uses_gpu, "the program uses no GPU")
    require(len(program.models) == 1, "the loop does not call exactly one model")
    inputs = program.inputs_of(program.models[0])
    if inputs is None or not all(isinstance(each, program.torch.Tensor) and each.is_cuda for each in inputs):
        raise NotApplicableError("the inputs of the model are not only tensors on the GPU of constant shapes")
    return [""]


def _switch(program: TriedProgram, _value: str) -> Undo:
    model = program.models[0]
    graphed, shapes = program.kept.get("cuda_graphs") or _captured(program, model)
    program.kept["cuda_graphs"] = graphed, shapes

    def in_graphs(inner: Any) -> Any:
        def forward(*inputs: Any, **named: Any) -> Any:
            # The last batch of an epoch may be smaller.
            fits = not named and model.training and _shapes(program, inputs) == shapes
            return graphed(*inputs) if fits else inner(*inputs, **named)

        return forward

    return with_forward([model], in_graphs)


def _captured(program: TriedProgram, model: Any) -> tuple[Any, Any]:
    """Return the graphs of a model, and the shapes of its inputs; its buffers are as before."""
    torch, inputs = program.torch, program.inputs_of(model)
    if inputs is None:
        raise RuntimeError("the inputs of the model are not known")
    samples = tuple(each.detach().clone().requires_grad_(each.requires_grad) for each in inputs)
    buffers = [(each, each.clone()) for each in model.buffers()]
    own = vars(model).get("forward")
    torch.cuda.make_graphed_callables(model, samples)
    graphed = model.forward
    if own is None:
        del model.forward
    else:
        model.forward = own
    for each, before in buffers:
        each.copy_(before)
    return graphed, _shapes(program, inputs)


def _shapes(program: TriedProgram, inputs: Any) -> Any:
    tensor = program.torch.Tensor
    return [(each.shape, each.dtype) if isinstance(each, tensor) else None for each in inputs]


EXPERIMENTS = (
    Experiment(
        key="cuda_graphs",
        place=800,
        name="CUDA graphs of the model",
        alters=NOTHING,
        values=_values,
        switch=_switch,
        lines={"PyTorch": "model = torch.cuda.make_graphed_callables(model, (sample_input,))"},
    ),
)
