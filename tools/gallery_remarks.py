# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What docs/results.md adds by hand: where ours differ in direction from the source's, and why."""

# Title of a claim in gallery_cases -> a paragraph under its tables.
REMARKS: dict[str, str] = {
    "Mixed precision on image networks": """\
Where ours differ. LeNet does use tensor cores here: 24.1 % of its kernel time in mixed precision, in cuDNN
convolutions whose names say so (`sm80_xmma_wgrad_..._f16f16_..._tensor16x8x16`). For LeNet kernel time grows with
mixed precision, from 0.252 ms to 0.307 ms a step, and for MLP it hardly falls, from 0.15 ms to 0.144 ms. Kernels of
both run for less than 6 % of the time. In steps of MLP, LeNet and AlexNet, waits for the loader and host code take
most of the time, so precision does not decide how long they are. ResNet50's kernels run 3.3 times as fast, but its
step only 1.6 times: in mixed precision it is bound by launches. AlexNet, too, is bound by the loader on this GPU; VGG
is not. The source has no AlexNet figure to hold against that.""",
    "One file for each image": """\
Steps and kernel times fall as in the source. The GPU is busier than there (15.0 % to 94.6 %): this network keeps it
busy for 7 ms of each step, which had 512 images. Packing gains little after normalization has moved: three loader
processes then nearly keep up with files. For ResNet50 mixed precision cuts kernel time 7.4 times and the step only
1.3 times; it is then bound by launches.""",
    "AlexNet and the batch size": """\
From a batch of 16 on the wait for the loader is on top of the report; at 8, loader processes keep up and the GPU is
idle for host code and locks.""",
    "BERT-base answers questions": """\
The direction is the source's: mixed precision cuts the median step from 90.9 ms to 27.3 ms. The capture of `bert-amp`
has two steps of 66.7 ms and 73.5 ms among thirteen, 34 ms and 40 ms of the excess idle for host code: this is why
`steps/uneven` is on top, and why the mean is above the median. What held the host up the capture does not say. In
float32, PyTorch's memory-efficient attention (`fmha_cutlass..._f32_..._sm80`) is what counts as tensor core work. The
optimizer with kernels for each parameter keeps the GPU busy for 36.0 %, the fused one for 64.0 %.""",
    "ResNet50 inference": """\
In eager PyTorch float16 is no faster here, unlike in the source: 4.82 ms a batch against 4.59 ms. Kernels take a
quarter of the time, 1.01 ms instead of 4.05 ms, but the host launches them no faster, and the GPU is idle for 78 % of
the time. As one CUDA graph the same kernels give a batch in 1.19 ms. TensorRT was not installed.""",
    "Image pipeline": """\
No result is shown. The program had a range open when it handed a batch on, so that NVTX ranges ended in the wrong
order and steps and phases of the captures were wrong. The program is mended; its captures were thrown away. DALI was
not installed.""",
    "Convolution of 28 x 28 images": """\
The name of the hand-written kernel, `convolve`, does not tell whether it uses tensor cores, so its share is a range
up to nearly everything; it uses none. At 10000 images it takes 4.9 times the time of cuDNN's kernels. On the CPU both
ran without a profiler, for five batches.""",
}
