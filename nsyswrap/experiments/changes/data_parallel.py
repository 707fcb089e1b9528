"""The experiments of DistributedDataParallel: how it gathers gradients into buckets."""

from ..tried.experiment import NOTHING, ROUNDING, Experiment, NotApplicableError, with_arguments
from ..tried.program import TriedProgram


def _check(program: TriedProgram) -> None:
    parallel = program.torch.nn.parallel.DistributedDataParallel
    if not any(isinstance(each, parallel) for each in program.models):
        raise NotApplicableError("the models are not wrapped in DistributedDataParallel")


def _sizes(program: TriedProgram) -> list[str]:
    _check(program)
    return ["50", "100"]


def _switch_values(program: TriedProgram) -> list[str]:
    _check(program)
    return [""]


def _experiment(key: str, place: int, name: str, argument: str, *, alters: str) -> Experiment:
    is_size = argument == "bucket_cap_mb"
    value = "{value}" if is_size else "True"

    def prepare(program: TriedProgram, wanted: str) -> None:
        changed = {argument: int(wanted) if is_size else True}
        with_arguments(program.torch.nn.parallel.DistributedDataParallel, lambda _module, named: {**named, **changed})

    return Experiment(
        key=key,
        place=place,
        name=name,
        alters=alters,
        values=_sizes if is_size else _switch_values,
        prepare=prepare,
        lines={
            "PyTorch": f"model = DistributedDataParallel(model, {argument}={value})",
            "Lightning": f"strategy = DDPStrategy({argument}={value})\ntrainer = Trainer(strategy=strategy)",
            **(
                {"Hugging Face Transformers": f"arguments = TrainingArguments(ddp_{argument}={value})"}
                if is_size
                else {}
            ),
        },
    )


EXPERIMENTS = (
    _experiment("bucket_size", 6, "buckets of {value} MB", "bucket_cap_mb", alters=ROUNDING),
    _experiment("bucket_view", 7, "gradients as views of buckets", "gradient_as_bucket_view", alters=NOTHING),
    _experiment("static_graph", 8, "a static graph", "static_graph", alters=NOTHING),
)
