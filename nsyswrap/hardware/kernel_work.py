"""The work of a kernel as its name and its grid show it: how many elements it handles, and how many bytes it moves.

Both are bounds. A kernel of PyTorch's elementwise loops names its function, the types of its tensors and, in newer
versions, the elements of a thread; so its grid gives the number of elements up to one block. What a name does not show
stays unknown: the inner size of a product, the length of the rows of a norm, the sizes in generated kernels.

::

    vectorized_elementwise_kernel<8, CUDAFunctor_add<BFloat16>, array<char*, 3>>   grid of 1000 blocks
                                  |                  |                     |
                   8 elements a thread       2 bytes each         2 read, 1 written
                   1000 * 128 * 8 elements, or up to 1023 fewer, of 6 bytes

Source: CUDALoops.cuh, thread_constants.h and DepthwiseConv2d.cu of PyTorch.

Of operators, nsys's ``--pytorch=autograd-shapes-nvtx`` records the sizes:
``aten::mm, op_id = 7, sizes = [[64, 128], [128, 32]]``.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from nsyswrap.hardware.kernel_names.classify import subject

# Bytes of the types in names.
SIZES = {
    "double": 8, "float": 4, "c10::Half": 2, "c10::BFloat16": 2, "__half": 2, "__nv_bfloat16": 2, "bool": 1,
    "long": 8, "long long": 8, "unsigned long": 8, "int": 4, "unsigned int": 4, "short": 2, "unsigned short": 2,
    "char": 1, "signed char": 1, "unsigned char": 1,
    "c10::complex<float>": 8, "c10::complex<double>": 16, "c10::complex<c10::Half>": 4,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2fnuz": 1,
}  # fmt: skip
# Elements of a thread of a vectorized kernel: 4 in older versions, 8 in newer ones, and 16 for tensors of one byte that
# are only written or only read. A vector of 8 exists in newer versions only.
OLDER, NEWER, OF_BYTES = 4, 8, 16
_LOOPS = re.compile(r"^at::native::(vectorized|unrolled|index)?_?elementwise_kernel<")
_DEPTHWISE = re.compile(r"^(?:at::native::)?conv_depthwise[23]d_(forward|backward)_kernel(?:_generic)?<")
_BLOCK_A_CHANNEL = re.compile(
    r"(?:^|[ :])(?:batch_norm_(?:collect_statistics|backward|backward_reduce)_kernel\b"
    r"|bn_(?:fw|bw)_(?:tr_)?1C11_(?!\w*NHWC))"
)
_TENSORS = re.compile(r"(?:std::array|at::detail::Array)<char \*, (\d+)>")
_LAMBDA = re.compile(r"\[lambda\(([^()]*)\) \(instance \d+\)\]$")
_CAST = re.compile(r"LoadWithCast|StoreWithCast|gpu_kernel_impl<")
# Functions over elements whose result is true or false.
_PREDICATE = re.compile(r"isnan|isinf|isposinf|isneginf|isfinite|signbit|compare_|logical_|_eq_kernel|_ne_kernel")
_COPY_TO = re.compile(r"(bfloat16|float16|float8\w*)_copy_kernel_cuda")
_COPIED = {"bfloat16": 2, "float16": 2}


_TEXT = re.compile(r"^(?:aten::)?(\w+),.*?\bsizes = (\[\[[\d, ]*\](?:, \[[\d, ]*\])*\])", re.DOTALL)
# Dimensions of the matrices of an operator. Operators around these, such as linear, call them.
_DIMENSIONS = {"mm": 2, "addmm": 2, "bmm": 3, "baddbmm": 3}
# The matrices of these come after what is added to their product.
_ADDS = frozenset({"addmm", "baddbmm"})
SIZES_MARK = "sizes = [["


@dataclass(frozen=True, slots=True)
class ElementWork:
    """What a kernel does for each element, as its name shows it.

    Attributes:
        a_thread_low: Elements of a thread, at least.
        a_thread_high: At most.
        read: Bytes of one element of each tensor that it reads; None where the name does not show them.
        written: Bytes of one element of the tensor that it writes; None where the name does not show it.
        tensors: How many tensors it reads and writes; 0 where the name does not show it.
        contiguous: Whether it moves each element of each tensor once. Otherwise a tensor may be smaller than the
            result, or have gaps.
    """

    a_thread_low: int
    a_thread_high: int
    read: tuple[int, ...] | None
    written: int | None
    tensors: int
    contiguous: bool


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """The work of one launch, as bounds.

    Attributes:
        elements_low: Elements of its result, at least.
        elements_high: At most.
        bytes_low: Bytes that it reads and writes, at least; None where they are not known.
        bytes_high: At most; None where they are not known.
    """

    elements_low: int
    elements_high: int
    bytes_low: int | None
    bytes_high: int | None


def launch_work(work: ElementWork, blocks: int, block_threads: int) -> LaunchWork:
    """Return the work of one launch.

    Args:
        work: What the kernel does for each element.
        blocks: Blocks of its grid; the last one may have as little as one element.
        block_threads: Threads of a block.
    """
    low = max(blocks - 1, 0) * block_threads * work.a_thread_low + 1
    high = blocks * block_threads * work.a_thread_high
    if work.read is None or work.written is None:
        return LaunchWork(low, high, None, None)
    # Tensors that a kernel reads may be one and the same, as in a product with itself.
    least = max(work.read, default=0) if work.contiguous else 0
    return LaunchWork(low, high, low * (least + work.written), high * (sum(work.read) + work.written))


@lru_cache(maxsize=4096)
def element_work(name: str, *, newer: bool = False) -> ElementWork | None:
    """Return what a kernel does for each element; None where its name does not show it.

    Args:
        name: The demangled name.
        newer: Whether the capture has a kernel with a vector of 8, so PyTorch is of a newer version.
    """
    text = subject(name).replace("(unsigned long)", "")
    depthwise = _DEPTHWISE.match(text)
    if depthwise:
        # One result a thread. The stride of the convolution decides how much it reads.
        size = next((SIZES[each] for each in _split(text[depthwise.end() :]) if each in SIZES), None)
        return ElementWork(1, 1, None, size, 2, contiguous=False)
    loop = _LOOPS.match(text)
    if loop is None:
        return None
    arguments = list(_split(text[loop.end() :]))
    match loop[1]:
        case "vectorized":
            if len(arguments) < 3 or not arguments[0].isdigit():  # noqa: PLR2004 - vector, function, tensors
                return None
            read, written = _types(arguments[1])
            tensors = _tensor_count(arguments[2])
            if read is not None and len(read) != tensors - 1:
                read = None
            total = None if read is None or written is None else sum(read) + written
            sure = newer or int(arguments[0]) >= NEWER
            may_be_bytes = total == 1 if total else tensors <= 1
            high = OF_BYTES if may_be_bytes else NEWER
            low = OLDER if not sure else OF_BYTES if total == 1 else NEWER
            return ElementWork(low, high, read, written, tensors, contiguous=True)
        case "unrolled":
            return _unrolled(arguments)
        case _:
            return _indexed(arguments)


def has_block_a_channel(name: str) -> bool:
    """Return whether it is a batch norm in channels-first layout whose grid has one block for each channel.

    Source: Normalization.cuh of PyTorch; for cuDNN's, the grids in captures of ResNet and MobileNet.
    """
    return _BLOCK_A_CHANNEL.search(name) is not None


def has_blocks_of_columns(name: str) -> bool:
    """Return whether its grid covers columns alone, as that of the gradients of layer norms: more rows add no block.

    Source: layer_norm_kernel.cu of PyTorch; up to 65,536 rows.
    """
    return "GammaBetaBackward" in name


def is_newer(name: str) -> bool:
    """Return whether only newer versions of PyTorch have a kernel of this name."""
    return re.search(r"vectorized_elementwise_kernel<(?:\(int\))?(?:8|16),", name) is not None


def _unrolled(arguments: list[str]) -> ElementWork | None:
    if len(arguments) < 3:  # noqa: PLR2004 - function, tensors, elements of a thread
        return None
    tensors = _tensor_count(arguments[1])
    a_thread = int(arguments[2]) if arguments[2].isdigit() else OLDER
    if any(_CAST.search(each) for each in arguments[2:]):
        return ElementWork(a_thread, a_thread, None, None, tensors, contiguous=False)
    read, written = _types(arguments[0])
    plain = any(each.startswith("TrivialOffsetCalculator") for each in arguments[2:])
    known = read is not None and len(read) == tensors - 1
    return ElementWork(a_thread, a_thread, read if known else None, written, tensors, contiguous=plain)


def _indexed(arguments: list[str]) -> ElementWork | None:
    """Return the work of a kernel that computes where each element is, so tensors may be repeated or have gaps."""
    if len(arguments) < 3 or not (arguments[0].isdigit() and arguments[1].isdigit()):  # noqa: PLR2004 - as it is launched
        return None
    a_thread, function = int(arguments[1]), arguments[2]
    inner = re.match(r"(?:void )?at::native::gpu_kernel_impl_nocast<", function)
    read, written = _types(next(_split(function[inner.end() :]), "")) if inner else (None, None)
    tensors = 0 if read is None else len(read) + 1
    return ElementWork(a_thread, a_thread, read, written, tensors, contiguous=False)


def _tensor_count(text: str) -> int:
    tensors = _TENSORS.search(text)
    return int(tensors[1]) if tensors else 0


def _types(function: str) -> tuple[tuple[int, ...] | None, int | None]:
    """Return the bytes of the elements that a function reads and of what it returns; None where that is not shown."""
    function = function.strip()
    of_lambda = _LAMBDA.search(function)
    if of_lambda:
        return _of_lambda(function, of_lambda[1])
    head, _, rest = function.partition("<")
    sizes = [SIZES.get(each) for each in _split(rest)]
    first, second, third = (*sizes, None, None, None)[:3]
    known = {
        "BinaryFunctor": ((first, second), third),
        "AUnaryFunctor": ((second,), third),
        "BUnaryFunctor": ((first,), third),
        "CUDAFunctor_add": ((first, first), first),
        "CUDAFunctorOnSelf_add": ((first,), first),
        "CUDAFunctorOnOther_add": ((first,), first),
        "AbsFunctor": ((first,), first),
        "CompareFunctor": ((first, first), 1),
        "CompareEqFunctor": ((first, first), 1),
        "FillFunctor": ((), first),
    }
    read, written = known.get(head.rpartition("::")[2], ((None,), None))
    sure = tuple(each for each in read if each is not None)
    return (sure if len(sure) == len(read) else None), written


def _of_lambda(function: str, arguments: str) -> tuple[tuple[int, ...] | None, int | None]:
    """Return the bytes of the elements that a lambda reads and returns; None where its arguments do not show them.

    Its result has the widest type that it takes, or is true or false.
    """
    named = [each.strip() for each in arguments.split(",") if each.strip()]
    read = tuple(SIZES[each] for each in named if each in SIZES)
    if len(read) != len(named) or not read:
        return None, None
    copied = _COPY_TO.search(function)
    if copied:
        return read, _COPIED.get(copied[1], 1)
    return read, 1 if _PREDICATE.search(function) else max(read)


def _split(text: str) -> Iterator[str]:
    """Yield the template arguments at the beginning of a text, up to the end of their list."""
    depth, since = 0, 0
    for at, sign in enumerate(text):
        if sign in "<([{":
            depth += 1
        elif sign in ">)]}" and text[at - 1] != "-":
            if not depth:
                yield text[since:at].strip()
                return
            depth -= 1
        elif sign == "," and not depth:
            yield text[since:at].strip()
            since = at + 1


@dataclass(frozen=True, slots=True)
class ProductWork:
    """What a product of matrices does.

    Attributes:
        operations: Floating point operations: two for each multiplication with addition.
        elements: Elements of both matrices and of the result.
    """

    operations: int
    elements: int


@lru_cache(maxsize=4096)
def product_work(text: str) -> ProductWork | None:
    """Return the work of the product in a range; None where it is no product of matrices with recorded sizes."""
    match = _TEXT.match(text)
    if match is None or match[1] not in _DIMENSIONS:
        return None
    try:
        sizes = json.loads(match[2])
    except json.JSONDecodeError:
        return None
    first = 1 if match[1] in _ADDS else 0
    left, right = (sizes[at] if len(sizes) > at else [] for at in (first, first + 1))
    dimensions = _DIMENSIONS[match[1]]
    if len(left) != dimensions or len(right) != dimensions or left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    batch = left[0] if dimensions > 2 else 1  # noqa: PLR2004 - rows and columns
    rows, inner, columns = left[-2], left[-1], right[-1]
    return ProductWork(2 * batch * rows * inner * columns, batch * (rows * inner + inner * columns + rows * columns))
