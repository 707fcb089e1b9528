"""Compare the measured alternatives of a profile with programs that are edited by hand, on a GPU.

    python tools/judge_alternatives.py --out FOLDER [GROUP ...]

Each group of operators is a program that runs once under `nsyswrap profile`. Its alternatives are measured as `profile`
does it, and for a minute, so that none is left out. Then each operator is a program of its own, as it is and edited,
without nsyswrap, in turns. A row says which share of its time an operator needs after the edit: as measured beside the
profile, and in the edited program. They should differ by at most a tenth.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STEPS, RECORDED, LONGEST_S, MEASURED_S = 300, 10, 180, 60
TURNS, REPEATS = 7, 10
# The highest clock of a GPU, in Hz. Source: NVIDIA's data sheets.
CLOCK_HZ = 2.0e9
ALLOWED = 0.10
DEVICE = "cuda"
Tensor = Any


class EditedOperator(NamedTuple):
    """An operator of a program.

    Attributes:
        shapes: Sizes of the tensors that it takes and learns.
        edited: Computes it as edited; None where a switch or a layout is changed.
        wide: Sizes of the edited program's tensors; empty for the same.
    """

    kind: str
    dtype: str
    shapes: Sequence[Sequence[int]]
    function: Callable[..., Tensor]
    edited: Callable[..., Tensor] | None = None
    wide: Sequence[Sequence[int]] = ()


def linear(hidden: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    import torch  # noqa: PLC0415

    return torch.nn.functional.linear(hidden, weight, *bias)


def product(left: Tensor, right: Tensor) -> Tensor:
    return left @ right


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention by parts, with a triangular mask."""
    length = query.shape[-2]
    mask = query.new_ones(length, length).tril() == 0
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ value


def causal_at_once(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the same by the fused operator."""
    import torch  # noqa: PLC0415

    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention by parts, with the softmax in FP32."""
    scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
    return scores.float().softmax(-1).to(query.dtype) @ value


def attention_at_once(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the same by the fused operator."""
    import torch  # noqa: PLC0415

    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def padding(query: Tensor) -> Tensor:
    """Return a mask that is added for samples of different length."""
    mask = query.new_zeros(query.shape[0], 1, 1, query.shape[2])
    mask[::2, ..., query.shape[2] // 2 :] = -1e4
    return mask


def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention by parts of samples of different length."""
    scores = (query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1]) + padding(query)
    return scores.softmax(-1) @ value


def masked_at_once(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the same by the fused operator."""
    import torch  # noqa: PLC0415

    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=padding(query))


def rms_norm(hidden: Tensor, weight: Tensor) -> Tensor:
    """Return a norm by parts, in FP32."""
    full = hidden.float()
    return (full * (full.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(hidden.dtype) * weight


def layer_norm(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centered = hidden - hidden.mean(-1, keepdim=True)
    return centered / (centered.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def gelu(hidden: Tensor) -> Tensor:
    """Return an activation by parts."""
    return 0.5 * hidden * (1 + (0.7978845608 * (hidden + 0.044715 * hidden**3)).tanh())


def gated(gate: Tensor, hidden: Tensor) -> Tensor:
    return gate * gate.sigmoid() * hidden


def casts(hidden: Tensor, scale: Tensor) -> Tensor:
    return ((hidden.float() * scale).half().float() * 0.5 + 1).to(hidden.dtype)


def convolution(images: Tensor, weight: Tensor) -> Tensor:
    import torch  # noqa: PLC0415

    return torch.nn.functional.conv2d(images, weight, padding=weight.shape[-1] // 2)


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    made: list[Callable[..., Tensor]] = []

    def call(*inputs: Tensor) -> Tensor:
        import torch  # noqa: PLC0415

        if not made:
            made.append(torch.compile(function, dynamic=False))
        return made[0](*inputs)

    return call


def chain(dtype: str, function: Callable[..., Tensor], *shapes: Sequence[int]) -> EditedOperator:
    return EditedOperator("compiled", dtype, shapes, function, compiled(function))


BF16, HALF, FULL = "bfloat16", "float16", "float32"
PADDED, FUSED, LAYOUT, TF32 = "padded", "fused", "channels_last", "tf32"
GROUPS: Mapping[str, Mapping[str, EditedOperator]] = {
    "products": {
        "vocabulary": EditedOperator(
            PADDED, BF16, [(4096, 768), (50257, 768)], linear, linear, [(4096, 768), (50304, 768)]
        ),
        "odd_inner": EditedOperator(
            PADDED, BF16, [(8192, 2047), (4096, 2047)], linear, linear, [(8192, 2048), (4096, 2048)]
        ),
        "odd_batches": EditedOperator(
            PADDED, BF16, [(48, 1021, 509), (48, 509, 1021)], product, product, [(48, 1024, 512), (48, 512, 1024)]
        ),
        "odd_bias": EditedOperator(
            PADDED, HALF, [(6144, 640), (30523, 640), (30523,)], linear, linear, [(6144, 640), (30528, 640), (30528,)]
        ),
        "causal": EditedOperator(FUSED, BF16, [(8, 16, 1024, 64)] * 3, causal, causal_at_once),
        "full": EditedOperator(FUSED, HALF, [(16, 12, 768, 64)] * 3, attention, attention_at_once),
        "padded_samples": EditedOperator(FUSED, BF16, [(12, 12, 640, 80)] * 3, masked, masked_at_once),
    },
    "chains": {
        "rms_norm": chain(BF16, rms_norm, (8192, 4096), (4096,)),
        "gelu": chain(BF16, gelu, (8192, 8192)),
        "casts": chain(BF16, casts, (12288, 4096), (4096,)),
        "convolution": EditedOperator(LAYOUT, BF16, [(64, 128, 56, 56), (128, 128, 3, 3)], convolution),
        "wide_convolution": EditedOperator(LAYOUT, HALF, [(32, 64, 112, 112), (96, 64, 5, 5)], convolution),
    },
    "full_precision": {
        "square": EditedOperator(TF32, FULL, [(4096, 4096), (4096, 4096)], product),
        "layer": EditedOperator(TF32, FULL, [(8192, 1024), (3072, 1024), (3072,)], linear),
        "heads": EditedOperator(TF32, FULL, [(96, 512, 256), (96, 256, 512)], product),
        "layer_norm": chain(FULL, layer_norm, (16384, 2048), (2048,), (2048,)),
        "gated": chain(BF16, gated, (8192, 11008), (8192, 11008)),
    },
}


def tensors(judged: EditedOperator, *, edited: bool) -> list[Tensor]:
    import torch  # noqa: PLC0415

    dtype, found = getattr(torch, judged.dtype), []
    for shape in judged.wide if edited and judged.wide else judged.shapes:
        made = torch.randn(*shape, device=DEVICE, dtype=dtype)
        if edited and judged.kind == LAYOUT:
            made = made.to(memory_format=torch.channels_last)
        found.append(made.requires_grad_())
    return found


class Layers:
    """The operators of a group, each with its tensors and the gradient of what it returns."""

    def __init__(self, group: str) -> None:
        import torch  # noqa: PLC0415

        self._made = []
        for judged in GROUPS[group].values():
            inputs = tensors(judged, edited=False)
            with torch.no_grad():
                gradient = torch.randn_like(judged.function(*inputs))
            self._made.append((judged.function, inputs, gradient))
        self.parameters = [each for _, inputs, _ in self._made for each in inputs[1:2]]

    def step(self) -> None:
        for function, inputs, gradient in self._made:
            for each in inputs:
                each.grad = None
            function(*inputs).backward(gradient)


def run_group(group: str, steps: int) -> None:
    """Run the program of a group: its operators one after the other, and an optimizer."""
    import torch  # noqa: PLC0415

    torch.backends.cudnn.allow_tf32 = False
    layers = Layers(group)
    optimizer = torch.optim.SGD(layers.parameters, 1e-6, foreach=True)
    for _ in range(steps):
        layers.step()
        optimizer.step()
    torch.cuda.synchronize()


def run_edited(group: str) -> None:
    """Print which share of its time each operator of a group needs after the edit, as JSON."""
    import torch  # noqa: PLC0415

    found = {}
    for name, judged in GROUPS[group].items():
        variants = [_variant(judged, edited=edited) for edited in (False, True)]
        ratios = []
        for _ in range(TURNS):
            before, after = (_milliseconds(*each) for each in variants)
            ratios.append(after / before)
        found[name] = [min(ratios), statistics.median(ratios), max(ratios)]
        del variants
        torch.cuda.empty_cache()
    print(json.dumps(found))


def _variant(judged: EditedOperator, *, edited: bool) -> tuple[Callable[[], None], bool]:
    """Return a function that runs an operator forward and backward, after it has run, and whether it may use TF32."""
    import torch  # noqa: PLC0415

    function = judged.edited if edited and judged.edited is not None else judged.function
    inputs = tensors(judged, edited=edited)
    gradient = torch.randn_like(function(*inputs).detach())

    def run() -> None:
        for each in inputs:
            each.grad = None
        function(*inputs).backward(gradient)

    tf32 = edited and judged.kind == TF32
    run()  # the first run may compile, and a turn waits for twice as long as its first launches take
    for _ in range(3):
        _milliseconds(run, tf32)
    return run, tf32


def _milliseconds(run: Callable[[], None], tf32: bool) -> float:  # noqa: FBT001
    """Return how long a run takes on the GPU, in ms."""
    import torch  # noqa: PLC0415

    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    launching = time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # The GPU waits while the CPU launches: in a program there is other work before.
    torch.cuda._sleep(int(2 * launching * REPEATS * CLOCK_HZ))  # noqa: SLF001 - PyTorch's own tests use it
    start.record()
    for _ in range(REPEATS):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / REPEATS


def ratio_of(judged: EditedOperator, alternatives: Sequence[Mapping[str, Any]]) -> list[float] | str:
    """Return the measured share of an operator, from the file of alternatives; why there is none.

    The alternative is that of its kind whose first operator takes a tensor of the size of its first one, in which batch
    and heads may be one.
    """
    wanted = _large(judged.shapes[0])
    for each in alternatives:
        taken = [_large(one["shape"]) for one in each["operators"][0]["inputs"] if isinstance(one, Mapping)]
        if each["kind"] == judged.kind and wanted in taken:
            found: list[float] | str = each.get("ratio") or each.get("reason", "the time was over")
            return found
    return "not picked"


def _large(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the last two sizes of a tensor, and the others as one."""
    return (math.prod(shape[:-2]), *shape[-2:])


def row(name: str, judged: EditedOperator, beside: list[float] | str, edited: Sequence[float]) -> tuple[str, bool]:
    """Return a row of the table, and whether both shares agree."""
    said = f"{edited[1]:.3f} ({edited[0]:.3f} to {edited[2]:.3f})"
    if isinstance(beside, str):
        return f"| {name.replace('_', ' ')} | {judged.kind} | {beside} | {said} | |", False
    apart = beside[1] / edited[1] - 1
    measured = f"{beside[1]:.3f} ({beside[0]:.3f} to {beside[2]:.3f})"
    text = f"| {name.replace('_', ' ')} | {judged.kind.replace('_', ' ')} | {measured} | {said} | {apart:+.1%} |"
    return text, abs(apart) <= ALLOWED


def judge(group: str, folder: Path) -> list[tuple[str, bool]]:
    """Profile the program of a group, run the edited ones, and return its rows."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    program = (str(Path(__file__).resolve()), "--run", group)
    options = (
        "--steps",
        str(RECORDED),
        "--stop-after",
        "--no-profiler-cost",
        "--no-alternatives",
        "--quiet",
        "--output",
        str(folder / group),
    )
    outputs = []
    for words in (
        ("-m", "nsyswrap", "profile", *options, "--", sys.executable, *program),
        (*program, "--edited"),
    ):
        done = subprocess.run(  # noqa: S603 - words of ours
            [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        if done.returncode:
            raise OSError(f"{words}: {(done.stdout + done.stderr)[-900:]}")
        outputs.append(done.stdout)
    edited, alternatives = json.loads(outputs[1].splitlines()[-1]), measured(folder / group)
    return [row(name, each, ratio_of(each, alternatives), edited[name]) for name, each in GROUPS[group].items()]


def measured(folder: Path) -> list[dict[str, Any]]:
    """Measure the alternatives of a profile, and return them as the file has them."""
    # The profiled program is this file, too, and needs nothing of nsyswrap.
    from nsyswrap.capture.alternatives import measure_alternatives  # noqa: PLC0415
    from nsyswrap.capture.result_folder import ALTERNATIVES_NAME  # noqa: PLC0415
    from nsyswrap.capture_file import with_recorded  # noqa: PLC0415
    from nsyswrap.loop.context import Settings  # noqa: PLC0415
    from nsyswrap.operators.candidates import pick  # noqa: PLC0415
    from nsyswrap.report import build_report  # noqa: PLC0415
    from nsyswrap.trace.load import load_export  # noqa: PLC0415

    capture = folder / "capture.sqlite"
    trace, settings = with_recorded(load_export(capture), capture, Settings())
    picked = [each.written() for each in pick(build_report(trace, settings=settings).findings)]
    found = measure_alternatives([sys.executable], picked, MEASURED_S)
    (folder / ALTERNATIVES_NAME).write_text(json.dumps(found), encoding="utf-8")
    if "failure" in found:
        print(f"{folder.name}: {found['failure']}", flush=True)
    alternatives: list[dict[str, Any]] = found["alternatives"]
    return alternatives


def main() -> int:
    """Judge all groups, or those that are named; return 1 where fewer than nine of ten operators agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--out", type=Path, default=Path("alternatives"))
    parser.add_argument("--run", choices=GROUPS, help="run the program of a group")
    parser.add_argument("--edited", action="store_true", help="with --run: its operators, as they are and edited")
    chosen = parser.parse_args()
    if chosen.run:
        if chosen.edited:
            run_edited(chosen.run)
        else:
            run_group(chosen.run, STEPS)
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)
    print("| operator | change | share measured beside the profile | share in the edited program | apart |")
    print("|---|---|---|---|---|", flush=True)
    agree = []
    for group in chosen.groups or GROUPS:
        for text, agrees in judge(group, chosen.out):
            agree.append(agrees)
            print(text, flush=True)
    print(f"{sum(agree)} of {len(agree)} operators agree within {ALLOWED:.0%}")
    return 0 if agree and all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
