"""Run operators on tensors of known sizes, to check what a report infers from the names and grids of their kernels.

Each runs in a range `case NAME`, its measured part in a range `measured`. Its true bytes and operations are printed as
JSON. Bytes are those of its tensors, each read or written once; operations are those of products only.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

HALF, FULL = torch.bfloat16, torch.float32
COUNT = 1 << 26


class Case(NamedTuple):
    """One operator."""

    name: str
    work: Callable[[], Tensor]
    read: tuple[Tensor, ...]
    operations: int = 0


def numbers(*shape: int, kind: torch.dtype = FULL) -> Tensor:
    return torch.rand(*shape, device=DEVICE).to(kind)


def elementwise() -> Iterator[Case]:
    """Yield operators that handle each element alone."""
    for kind, label in ((FULL, "fp32"), (HALF, "bf16")):
        a, b, c = (numbers(COUNT, kind=kind) for _ in range(3))
        yield Case(f"add_{label}", partial(lambda a, b: a + b, a, b), (a, b))
        yield Case(f"relu_{label}", partial(torch.relu, a), (a,))
        yield Case(f"gelu_{label}", partial(functional.gelu, a), (a,))
        yield Case(f"scaled_{label}", partial(lambda a: a * 1.5, a), (a,))
        yield Case(f"squared_{label}", partial(lambda a: a * a, a), (a,))
        yield Case(f"addcmul_{label}", partial(torch.addcmul, a, b, c), (a, b, c))
        yield Case(f"compared_{label}", partial(lambda a, b: a > b, a, b), (a, b))
        yield Case(f"added_in_place_{label}", partial(lambda a, b: a.add_(b), a, b), (a, b))
        yield Case(f"filled_{label}", partial(lambda a: a.fill_(0.5), a), ())
        yield Case(f"unaligned_{label}", partial(lambda a: torch.relu(a[1:]), a), (a[1:],))
        yield Case(f"odd_{label}", partial(lambda a: torch.relu(a[: COUNT - 77]), a), (a[: COUNT - 77],))
        yield Case(f"dropout_{label}", partial(lambda a: functional.dropout(a, 0.1), a), (a,))
        table, row = a.view(-1, 4096), b[:4096]
        yield Case(f"broadcast_{label}", partial(lambda table, row: table + row, table, row), (table, row))
        yield Case(f"transposed_{label}", partial(lambda table: table.t().contiguous(), table), (table,))
        yield Case(f"strided_{label}", partial(lambda table: torch.relu(table[:, :4000]), table), (table[:, :4000],))
        few = a[: 1 << 16]
        yield Case(f"small_{label}", partial(torch.relu, few), (few,))
    a, b = numbers(COUNT), numbers(COUNT, kind=HALF)
    flags = a > a.mean()
    yield Case("to_bf16", lambda: a.to(HALF), (a,))
    yield Case("to_fp32", lambda: b.to(FULL), (b,))
    yield Case("mixed_add", lambda: a + b, (a, b))
    yield Case("where", lambda: torch.where(flags, a, a), (flags, a))
    yield Case("not", lambda: ~flags, (flags,))
    whole = torch.randint(0, 9, (COUNT,), device=DEVICE)
    yield Case("int64_add", lambda: whole + whole, (whole,))


def rows() -> Iterator[Case]:
    """Yield operators over rows, images and tables."""
    for kind, label in ((FULL, "fp32"), (HALF, "bf16")):
        table = numbers(16384, 4096, kind=kind)
        scale = numbers(4096, kind=kind)
        yield Case(f"softmax_{label}", partial(lambda table: torch.softmax(table, 1), table), (table,))
        yield Case(
            f"layer_norm_{label}",
            partial(functional.layer_norm, table, (4096,), scale, scale),
            (table,),
        )
        yield Case(f"mean_of_rows_{label}", partial(lambda table: table.mean(1), table), (table,))
        yield Case(f"sum_of_columns_{label}", partial(lambda table: table.sum(0), table), (table,))
        yield Case(f"joined_{label}", partial(lambda table: torch.cat([table, table]), table), (table, table))
        images = numbers(64, 256, 56, 56, kind=kind)
        mean, var = numbers(2, 256)
        for form, ending in ((torch.contiguous_format, "nchw"), (torch.channels_last, "nhwc")):
            mine = images.contiguous(memory_format=form)
            yield Case(
                f"batch_norm_{ending}_{label}",
                partial(lambda mine, m, v: functional.batch_norm(mine, m, v, training=True), mine, mean, var),
                (mine,),
            )
            yield Case(
                f"max_pool_{ending}_{label}", partial(lambda mine: functional.max_pool2d(mine, 2), mine), (mine,)
            )


def convolved(images: Tensor, weight: Tensor, **options: int) -> Callable[[], Tensor]:
    """Return a convolution with both of its gradients; it returns what the forward pass made."""

    def work() -> Tensor:
        made = functional.conv2d(images, weight, **options)
        torch.autograd.grad(made, (images, weight), torch.ones_like(made))
        return made

    return work


def convolutions() -> Iterator[Case]:
    """Yield convolutions: depthwise, grouped and dense, in both layouts; with their gradients."""
    for kind, label in ((FULL, "fp32"), (HALF, "bf16"), (torch.float16, "fp16")):
        for form, ending in ((torch.contiguous_format, "nchw"), (torch.channels_last, "nhwc")):
            images = numbers(64, 256, 56, 56, kind=kind).contiguous(memory_format=form).requires_grad_()
            for size, stride, groups in ((3, 1, 256), (3, 2, 256), (7, 1, 256), (3, 1, 32), (3, 1, 1)):
                weight = numbers(256, 256 // groups, size, size, kind=kind).contiguous(memory_format=form)
                weight.requires_grad_()
                options = {"padding": size // 2, "stride": stride, "groups": groups}
                side = 56 // stride
                operations = 2 * 64 * 256 * side * side * size * size * (256 // groups)
                name = f"conv_{ending}_{label}_{size}x{size}_stride{stride}_groups{groups}"
                yield Case(name, convolved(images, weight, **options), (images,), operations)


def products() -> Iterator[Case]:
    """Yield products of matrices: large, skinny, small and batched."""
    sizes = ((8192, 8192, 8192), (4096, 4096, 4096), (16, 4096, 4096), (256, 256, 256), (1, 4096, 4096))
    for kind, label in ((HALF, "bf16"), (FULL, "tf32")):
        for m, n, k in sizes:
            a, b = numbers(m, k, kind=kind), numbers(k, n, kind=kind)
            yield Case(f"mm_{label}_{m}_{n}_{k}", partial(lambda a, b: a @ b, a, b), (a, b), 2 * m * n * k)
        batch = numbers(64, 256, 512, kind=kind)
        turned = batch.transpose(1, 2)
        yield Case(f"bmm_{label}", partial(lambda x, y: x @ y, batch, turned), (batch, batch), 2 * 64 * 256 * 256 * 512)


def plain_products() -> Iterator[Case]:
    """Yield products in FP32, without TF32."""
    torch.set_float32_matmul_precision("highest")
    for size in (2048, 256):
        a, b = numbers(size, size), numbers(size, size)
        yield Case(f"mm_fp32_{size}", partial(lambda a, b: a @ b, a, b), (a, b), 2 * size**3)


def run(case: Case, times: int) -> dict[str, object]:
    torch.cuda.nvtx.range_push(f"case {case.name}")
    made = case.work()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_push("measured")
    for _ in range(times):
        case.work()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_pop()
    read = sum(each.numel() * each.element_size() for each in case.read)
    written = made.numel() * made.element_size()
    return {"name": case.name, "elements": made.numel(), "read": read, "written": written, "flop": case.operations}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=20, help="how often each runs (%(default)s)")
    options.add_argument("--kinds", default="elementwise,rows,convolutions,products,plain_products")
    chosen = options.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = False
    found = []
    for kind in chosen.kinds.split(","):
        for case in globals()[kind]():
            try:
                found.append(run(case, chosen.times))
            except RuntimeError as error:
                print(f"{case.name}: {error}", flush=True)
    print(json.dumps(found))


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

if __name__ == "__main__":
    main()
