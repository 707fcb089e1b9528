# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What docs/results.md adds by hand: how cases were run, where ours differ in direction from the source's, and why."""

RUNS = """\
The nine cases `mnist-1-worker`, `vgg16-amp`, `cifar-1-worker`, `bert-amp`, `decoding`, `inference-fp16`,
`pipeline-cpu`, `pipeline-gpu` and `convolution-own-10000` were profiled in a later run than the others, and eight
of them with their capture kept. In both runs nsyswrap wrote the reports of finished cases while the next program
ran, on the same cores. This does not change what kernels take (`mnist-1-worker` and `mnist-8-workers`, one of each
run, both have 0.38 ms a step), but it lengthens what the host and the loader take, not equally in all cases. `make
gallery` now leaves the machine to the program, and `pipeline-cpu` was profiled once more in this way, on another
machine of the same kind.

What was not run:

- TensorRT (`inference-tensorrt`) and DALI (`pipeline-dali`): they were not installed where the cases were profiled.
- Inference in float32 through `torch.compile` and CUDA graphs: these were run in float16 only.
- A whole epoch of MNIST: both cases ran 60 steps.
- AlexNet on several GPUs.
"""

# Title of a claim in gallery_cases -> a paragraph under its tables.
REMARKS: dict[str, str] = {
    "Mixed precision on image networks": """\
As in the source, kernels run for a few percent of the time (MLP, 5.4 %) up to nearly all of it (VGG, 97.7 %). Where
ours differ: LeNet does use tensor cores here, for 24.1 % of its kernel time in mixed precision, in cuDNN
convolutions whose names say so (`sm80_xmma_wgrad_..._f16f16_..._tensor16x8x16`). For LeNet kernel time grows with
mixed precision, from 0.252 ms to 0.307 ms a step, and for MLP it hardly falls, from 0.15 ms to 0.144 ms. Kernels of
both run for less than 6 % of the time. In steps of MLP, LeNet and AlexNet, waits for the loader and host code take
most of the time, so precision does not decide how long they are. VGG's kernels run 3.0 times as fast, and so does
its step (2.7 times). ResNet50's kernels run 3.3 times as fast, but its step only 1.6 times: in mixed precision it
is bound by launches. AlexNet, too, is bound by the loader on this GPU; VGG is not. The source has no AlexNet figure
to hold against that.""",
    "MNIST and the number of loader processes": """\
The direction is the source's: the wait for a batch falls from 5.42 ms to 0.104 ms, and the step from 8.53 ms to
3.18 ms. The two are of different runs. The pair in [the samples](../reports/samples/README.md) ran one after the
other: there the wait falls from 3.39 ms to 0.0716 ms and the step from 5.7 ms to 2.45 ms.""",
    "One file for each image": """\
Steps and kernel times fall as in the source. The GPU is busier than there (10.4 % to 94.6 %): this network keeps it
busy for 7 ms of each step, which had 512 images. `cifar-1-worker` is of the later run, in which the loader was
slower. Packing gains little after normalization has moved: three loader processes then nearly keep up with files.
For ResNet50 mixed precision cuts kernel time 7.4 times and the step only 1.3 times; it is then bound by launches.""",
    "AlexNet and the batch size": """\
From a batch of 16 on the wait for the loader is on top of the report; at 8, loader processes keep up and the GPU is
idle for host code and locks.""",
    "BERT-base answers questions": """\
The direction is the source's: mixed precision cuts the step from 88.8 ms to 29.2 ms, 3.0 times. Kernels run 5.4
times as fast, and the GPU is then idle for 44.3 % of the time, 27.1 % for host code between launches. In float32,
PyTorch's memory-efficient attention (`fmha_cutlass..._f32_..._sm80`) is what counts as tensor core work. The
optimizer shows what the source says of Adam: with kernels for each parameter it launches 1219 of them a step, and
the GPU is idle for 15.5 ms of the 19 ms that the host takes; with `foreach` these are 59 kernels, fused 22. Over
the whole step the GPU is busy for 36.0 %, 55.3 % and 64.0 %.""",
    "ResNet50 inference": """\
In eager PyTorch float16 is no faster here, unlike in the source: 5.29 ms a batch against 4.59 ms. Kernels take a
quarter of the time, 1.01 ms instead of 4.05 ms, but the host launches them no faster, and the GPU is idle for 80.0
% of the time. As one CUDA graph the same kernels give a batch in 1.19 ms, and `torch.compile` gives one in 2.28 ms.
TensorRT was not installed.""",
    "Image pipeline": """\
The direction is the source's, the factor is larger: to prepare 32 images (`data`) takes 29.3 ms on the CPU and 3.16
ms on the GPU in the mean, 9.3 times less, where the source has 4.7 times (medians 27.4 and 3.02 ms). On the CPU,
decoding takes 21.9 ms of it and cropping, flipping and normalizing 7.36 ms (3.94 ms in the median, 48 ms in the
slowest batch); on the GPU 1.98 and 1.16 ms. The two were profiled on two machines of one kind, of which that of
`pipeline-cpu` had the slower host. An earlier run of it, beside processes that wrote reports on the same cores, took
232 ms a batch: PyTorch spreads these operations over threads that wait for each other after each. Kernels run for 7.5
% of the time even on the GPU: images are decoded and cropped one by one, and the host cannot launch that fast. DALI
was not installed.""",
    "Decoding token by token": """\
As the source says. The host launches every 21.7 us what the GPU does in 2.08 us (medians), and a token takes 5.49
ms, of which kernels run for 0.62 ms. As a CUDA graph the same kernels give a token in 0.877 ms, and the GPU is busy
for 72.1 %; what is left is that the host reads each token before it asks for the next.""",
    "Convolution of 28 x 28 images": """\
The name of the hand-written kernel, `convolve`, does not tell whether it uses tensor cores, so its share is a range
up to nearly everything; it uses none. At 10000 images it takes 4.9 times the time of all of cuDNN's kernels. The
programs timed themselves: on the GPU for twenty batches under nsys, on the CPU, where PyTorch's own convolution
takes cuDNN's place, for five batches without a profiler. What `own` does there, products of patches, was not timed.""",
}
