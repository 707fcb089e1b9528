"""Small PyTorch programs whose kernels are checked against hardware: one case each, a few steps, random data.

`python programs.py --case encoder_bf16` runs one, `python programs.py --list` names them.
"""

import argparse
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

STEPS = 3
Step = Callable[[], object]


def conv_net(*, amp: bool, channels_last: bool = False, name: str = "resnet50") -> Step:
    """Train a network of torchvision on random pictures, in FP32 (cuDNN then takes TF32) or mixed precision."""
    model = getattr(importlib.import_module("torchvision").models, name)(weights=None).cuda()
    pictures = torch.randn(32, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (32,), device="cuda")
    if channels_last:
        model, pictures = (each.to(memory_format=torch.channels_last) for each in (model, pictures))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step() -> None:
        with torch.autocast("cuda", torch.float16, enabled=amp):
            loss = functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def encoder(*, autocast: torch.dtype | None = None, tf32: bool = False, compiled: bool = False) -> Step:
    """Train six transformer layers of BERT-base's size; in FP32, an autocast type or TF32."""
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, activation="gelu", batch_first=True)
    model: Any = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
    run = torch.compile(model) if compiled else model
    words = torch.randn(16, 256, 768, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        with torch.autocast("cuda", autocast or torch.float16, enabled=autocast is not None):
            loss = run(words).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def triton_products() -> Step:
    """Multiply matrices in kernels that Inductor writes in Triton, in bfloat16 and in plain FP32."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.max_autotune_gemm_backends = "TRITON"
    torch.set_float32_matmul_precision("highest")
    left = {kind: torch.randn(2048, 1024, device="cuda", dtype=kind) for kind in (torch.bfloat16, torch.float32)}
    right = {kind: torch.randn(1024, 512, device="cuda", dtype=kind) for kind in left}

    def product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return torch.relu(first @ second).sum(0)

    run = torch.compile(product, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda: [run(left[kind], right[kind]) for kind in left]


def decoder(kind: torch.dtype) -> Step:
    """Generate tokens one by one with a cache of keys and values: products of matrices with single vectors."""
    width, heads, layers, vocabulary = 1024, 16, 8, 32_000
    weights = [
        [torch.randn(rows, width, device="cuda", dtype=kind) * 0.02 for rows in (3 * width, width, 4 * width)]
        + [torch.randn(width, 4 * width, device="cuda", dtype=kind) * 0.02]
        for _ in range(layers)
    ]
    words = torch.randn(vocabulary, width, device="cuda", dtype=kind) * 0.02

    def token(state: torch.Tensor, caches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        for at, (qkv, out, wide, narrow) in enumerate(weights):
            normed = functional.layer_norm(state, (width,))
            query, key, value = (
                each.view(1, -1, heads, width // heads).transpose(1, 2)
                for each in functional.linear(normed, qkv).chunk(3, -1)
            )
            key, value = (torch.cat(pair, 2) for pair in zip(caches[at], (key, value), strict=True))
            caches[at] = (key, value)
            mixed = functional.scaled_dot_product_attention(query, key, value)
            state = state + functional.linear(mixed.transpose(1, 2).reshape(state.shape), out)
            hidden = functional.gelu(functional.linear(functional.layer_norm(state, (width,)), wide))
            state = state + functional.linear(hidden, narrow)
        return functional.linear(state, words)

    def step() -> None:
        shape = (1, heads, 128, width // heads)
        caches = [
            (torch.randn(shape, device="cuda", dtype=kind), torch.randn(shape, device="cuda", dtype=kind))
            for _ in range(layers)
        ]
        chosen = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        with torch.no_grad():
            for _ in range(8):
                chosen = token(words[chosen], caches).argmax(-1)

    return step


def int8_products() -> Step:
    """Multiply matrices of 8-bit integers."""
    left = torch.randint(-128, 127, (4096, 1024), device="cuda", dtype=torch.int8)
    right = torch.randint(-128, 127, (2048, 1024), device="cuda", dtype=torch.int8).t()
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch._int_mm  # noqa: SLF001 - PyTorch's only name for it
    return lambda: product(left, right).float().relu().sum()


def fp8_products() -> Step:
    """Multiply matrices of 8-bit floating-point numbers."""
    left = torch.randn(4096, 1024, device="cuda").to(torch.float8_e4m3fn)
    right = torch.randn(2048, 1024, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    product: Callable[..., torch.Tensor] = torch._scaled_mm  # noqa: SLF001 - PyTorch's only name for it
    return lambda: product(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16).relu().sum()


def attention() -> Step:
    """Compute attention by each of PyTorch's ways, forward and backward, in the types that each takes."""
    backends = importlib.import_module("torch.nn.attention")
    ways = ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"]

    def one(way: str, kind: torch.dtype) -> None:
        parts = [torch.randn(4, 12, 512, 64, device="cuda", dtype=kind, requires_grad=True) for _ in range(3)]
        with backends.sdpa_kernel(getattr(backends.SDPBackend, way)):
            functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True).sum().backward()

    def step() -> None:
        for way in ways:
            for kind in (torch.float16, torch.bfloat16, torch.float32):
                if kind is not torch.float32 or way in {"EFFICIENT_ATTENTION", "MATH"}:
                    one(way, kind)

    return step


def recurrent() -> Step:
    """Train an LSTM and a GRU in FP32 and in half precision."""
    nets = [kind(256, 512, 2, batch_first=True).cuda() for kind in (nn.LSTM, nn.GRU)]
    words = torch.randn(32, 64, 256, device="cuda")

    def step() -> None:
        for net in nets:
            for amp in (False, True):
                with torch.autocast("cuda", torch.float16, enabled=amp):
                    out, _ = net(words)
                out.float().sum().backward()

    return step


def elementwise_half() -> Step:
    """Compute in packed half precision and multiply nothing: HFMA2 shares the tensor pipe's counter on Hopper."""
    values = [torch.randn(1 << 22, device="cuda", dtype=kind) for kind in (torch.float16, torch.bfloat16)]

    def step() -> None:
        for value in values:
            (functional.gelu(value, approximate="tanh") * value + value.mul(0.5).add(value)).softmax(-1).sum()
            functional.layer_norm(value.view(-1, 1024), (1024,)).cumsum(1)

    return step


def double_products() -> Step:
    """Multiply matrices in FP64, solve and convolve through FFT: matrix work outside the usual types."""
    left = torch.randn(1024, 1024, device="cuda", dtype=torch.float64)
    small = torch.randn(256, 24, 24, device="cuda")
    return lambda: (left @ left, torch.linalg.cholesky(left @ left.T + 1e4 * torch.eye(1024).to(left)), small @ small)


CASES: Mapping[str, Callable[[], Step]] = {
    "resnet50_fp32": lambda: conv_net(amp=False),
    "resnet50_fp16": lambda: conv_net(amp=True, channels_last=True),
    "mobilenet_fp16": lambda: conv_net(amp=True, name="mobilenet_v2"),
    "encoder_fp32": encoder,
    "encoder_tf32": lambda: encoder(tf32=True),
    "encoder_fp16": lambda: encoder(autocast=torch.float16),
    "encoder_bf16": lambda: encoder(autocast=torch.bfloat16),
    "encoder_compiled": lambda: encoder(autocast=torch.bfloat16, compiled=True),
    "triton_products": triton_products,
    "decoding_fp16": lambda: decoder(torch.float16),
    "decoding_fp32": lambda: decoder(torch.float32),
    "int8": int8_products,
    "fp8": fp8_products,
    "attention": attention,
    "recurrent": recurrent,
    "elementwise_half": elementwise_half,
    "fp64": double_products,
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--case", choices=CASES, help="which program to run")
    parser.add_argument("--steps", type=int, default=STEPS, help="how often")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args()


def lines() -> Iterator[str]:
    """Yield the names of the cases."""
    yield from CASES


def main() -> None:
    given = options()
    if given.list:
        print("\n".join(lines()))
        return
    torch.manual_seed(0)
    step = CASES[given.case]()
    for _ in range(given.steps):
        step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
