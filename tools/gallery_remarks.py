# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What docs/results.md adds by hand: how cases were run, where ours differ in direction from the source's, and why.

Figures stand as `{case:measure}` or `{case / case:measure}`: gallery_figures.py fills them in from the reports.
"""

RUNS = """\
26 cases were profiled in one go on one machine, one program after another with nothing beside it. The other 15 are of
an earlier run on another machine of the same kind, whose host was faster: `inference-fp32`, `inference-fp16`,
`inference-fp16-graphs`, `inference-fp16-compile`, `bert-amp-single`, `bert-amp-fused`, `alexnet-8`, `alexnet-16`,
`alexnet-32` and the six of `convolution`. There nsyswrap wrote the reports of finished cases while the next program
ran, on the same cores. 24 cases were profiled both times. Their kernels took the same time within 1.9 %, and the
tensor share differed by less than 0.3 points; but a step took from 0.65 to 1.96 times as long, as far as the host or
the loader decided it.

The reports are those of these runs. Of `bert-amp`, `bert-amp-fused`, `cifar-packed` and `cifar-normalized-on-gpu`
they hold a note `tensor_cores/layout` for kernels that concatenate, or belong to complex products; the rule now counts
only what a convolution has turned.

What was not run:

- TensorRT (`inference-tensorrt`) and DALI (`pipeline-dali`): they were not installed where the cases were profiled.
- AlexNet on several GPUs.
"""

# Title of a claim in gallery_cases -> a paragraph under its tables.
REMARKS: dict[str, str] = {
    "Mixed precision on image networks": """\
As in the source, kernels run for a few percent of the time (MLP, {mlp-fp32:busy}) up to nearly all of it (VGG,
{vgg16-fp32:busy}). Where ours differ: LeNet does use tensor cores here, for {lenet-amp:tensor} of its kernel time in
mixed precision, in cuDNN convolutions whose names say so (`sm80_xmma_wgrad_..._f16f16_..._tensor16x8x16`). For LeNet
kernel time grows with mixed precision, from {lenet-fp32:kernels} to {lenet-amp:kernels} a step, and for MLP it hardly
falls, from {mlp-fp32:kernels} to {mlp-amp:kernels}. In the source the small networks are bound by the loader. Here two
loader processes crop images of 32 by 32 pixels about as fast as the host launches a step, and which of the two MLP and
LeNet wait for depends on the machine: on this one for launches, in the earlier run mostly for the loader. Either
way precision does not decide how long their steps are. VGG's kernels run {vgg16-fp32 / vgg16-amp:kernels} times as
fast, and so does its step ({vgg16-fp32 / vgg16-amp:step} times). ResNet50's kernels run
{resnet50-fp32 / resnet50-amp:kernels} times as fast, but its step takes {resnet50-amp:step}, in float32
{resnet50-fp32:step}: in mixed precision it is bound by launches, and by this host. On the earlier one it took 26 ms and
40.4 ms. AlexNet
waits for the loader, with images of 224 by 224; VGG does not. The source has no AlexNet figure to hold against
that.""",
    "MNIST and the number of loader processes": """\
The direction is the source's: the wait for a batch falls from {mnist-1-worker:data} to {mnist-8-workers:data}, the step
from {mnist-1-worker:step} to {mnist-8-workers:step}, and an epoch of 937 steps, by the program's own clock and under
nsys, from {mnist-1-worker:epoch} to {mnist-8-workers:epoch}.""",
    "One file for each image": """\
Steps and kernel times fall as in the source. The GPU is busier than there ({cifar-1-worker:busy} to
{cifar-packed:busy}): this network keeps it busy for {cifar-1-worker:kernels} of each step, which had 512 images.
Three loader processes bring batches three at a time, so that the mean wait says more than the median that the program
prints. On the faster host of the earlier run they nearly kept up with files once normalization had moved: a step
took 7.7 ms, and packing gained little. For ResNet50 mixed precision cuts kernel time
{cifar-resnet50-fp32 / cifar-resnet50-amp:kernels} times, but the step takes {cifar-resnet50-amp:step}, in float32
{cifar-resnet50-fp32:step}; it is then bound by launches, as on the earlier host (24.5 and 32.4 ms).""",
    "AlexNet and the batch size": """\
From a batch of 16 on the wait for the loader is on top of the report; at 8, loader processes keep up and the GPU is
idle for host code and locks.""",
    "BERT-base answers questions": """\
The direction is the source's: mixed precision cuts the step from {bert-fp32:step} to {bert-amp:step},
{bert-fp32 / bert-amp:step} times. Kernels run {bert-fp32 / bert-amp:kernels} times as fast, and the GPU is then idle
for {bert-amp:idle} of the time, {bert-amp:idle_for_host} for host code between launches. In float32, PyTorch's
memory-efficient attention (`fmha_cutlass..._f32_..._sm80`) is what counts as tensor core work. The optimizer shows what
the source says of Adam: with kernels for each parameter it launches {bert-amp-single:optimizer_kernels} of them a step,
and the GPU is idle for {bert-amp-single:optimizer_idle} of the {bert-amp-single:optimizer} that the host takes; with
`foreach` these are {bert-amp:optimizer_kernels} kernels, fused {bert-amp-fused:optimizer_kernels}. Over the whole step
the GPU is busy for {bert-amp-single:busy}, {bert-amp:busy} and {bert-amp-fused:busy}; the first and the last are of the
faster host.""",
    "ResNet50 inference": """\
In eager PyTorch float16 is no faster here, unlike in the source: {inference-fp16:step} a batch against
{inference-fp32:step}. Kernels take a quarter of the time, {inference-fp16:kernels} instead of {inference-fp32:kernels},
but the host launches them no faster, and the GPU is idle for {inference-fp16:idle} of the time. As one CUDA graph the
same kernels give a batch in {inference-fp16-graphs:step}, and `torch.compile` gives one in
{inference-fp16-compile:step}. In float32 kernels fill the time already, and the two give {inference-fp32-graphs:step}
and {inference-fp32-compile:step}. TensorRT was not installed.""",
    "Image pipeline": """\
The direction is the source's, the factor is larger: to prepare 32 images (`data`) takes {pipeline-cpu:data} on the CPU
and {pipeline-gpu:data} on the GPU in the mean, {pipeline-cpu / pipeline-gpu:data} times less, where the source has 4.7
times (medians {pipeline-cpu:data_median} and {pipeline-gpu:data_median}). On the CPU, decoding takes
{pipeline-cpu:decode} of it and cropping, flipping and normalizing {pipeline-cpu:augment}; on the GPU
{pipeline-gpu:decode} and {pipeline-gpu:augment}. An earlier run of it, beside processes that wrote reports on the same
cores, took 232 ms a batch: PyTorch spreads these operations over threads that wait for each other after each. Kernels
run for {pipeline-gpu:busy} of the time even on the GPU: images are decoded and cropped one by one, and the host cannot
launch that fast. DALI was not installed.""",
    "Decoding token by token": """\
As the source says. The host launches every {decoding:launch_interval} what the GPU does in {decoding:operation}
(medians), and a token takes {decoding:step}, of which kernels run for {decoding:kernels}. On the faster host of the
earlier run it took 5.49 ms, with the same time in kernels. As a CUDA graph, which needs the host once a token, they
give one in {decoding-graphs:step}, and the GPU is busy for {decoding-graphs:busy}; what is left is that the
host reads each token before it asks for the next.""",
    "Convolution of 28 x 28 images": """\
The name of the hand-written kernel, `convolve`, does not tell whether it uses tensor cores, so its share is a range
up to nearly everything; it uses none. At 10000 images it takes
{convolution-own-10000 / convolution-cudnn-10000:kernels} times the time of all of cuDNN's kernels. The programs timed
themselves: on the GPU for twenty batches under nsys, on the CPU, where PyTorch's own convolution takes cuDNN's place,
for five batches without a profiler. What `own` does there, products of patches, was not timed.""",
}
