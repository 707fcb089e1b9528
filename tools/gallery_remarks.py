"""The hand-written text of docs/results.md: how cases were run, where ours differ from the source, and why.

Figures are written as `{case:measure}` or `{case / case:measure}`; gallery_figures.py fills them in from the reports.
"""

RUNS = """\
All cases ran on one machine, one after another. Its cores are shared, so what the CPU does takes up to twice as long in
one case as in the next. Where the CPU sets the pace, compare cases by their kernels and limits, not by their steps.

TensorRT (`inference-tensorrt`) and DALI (`pipeline-dali`) were not installed.
"""

# Title of a claim in gallery_cases -> a paragraph under its tables.
REMARKS: dict[str, str] = {
    "Mixed precision on image networks": """\
As in the source, kernels run for a few percent of the time (MLP, {mlp-fp32:busy}) up to nearly all of it (VGG,
{vgg16-fp32:busy}). Three results differ. LeNet uses tensor cores here, for {lenet-amp:tensor} of its kernel time in
mixed precision. Mixed precision does not speed up its kernels: {lenet-fp32:kernels} and {lenet-amp:kernels} a step. And
two loader processes are about as fast as the CPU launches a step, so either may limit MLP and LeNet. VGG's step
is {vgg16-fp32 / vgg16-amp:step} times as fast in mixed precision. ResNet50's kernels run
{resnet50-fp32 / resnet50-amp:kernels} times as fast, but its step takes {resnet50-amp:step} against
{resnet50-fp32:step}: launches limit it then. AlexNet, with images of 224 by 224, waits for the loader.""",
    "MNIST and the number of loader processes": """\
As in the source, the wait for a batch falls from {mnist-1-worker:data} to {mnist-8-workers:data},
the step from {mnist-1-worker:step} to {mnist-8-workers:step}, and an epoch of 937 steps (the program's own clock, under
nsys) from {mnist-1-worker:epoch} to {mnist-8-workers:epoch}.""",
    "One file for each image": """\
Step and kernel times fall as in the source. The GPU is busier than there ({cifar-1-worker:busy} to
{cifar-packed:busy}), since this network keeps it busy for {cifar-1-worker:kernels} of each step of 512 images. For
ResNet50, mixed precision cuts kernel time {cifar-resnet50-fp32 / cifar-resnet50-amp:kernels} times, but the step takes
{cifar-resnet50-amp:step} against {cifar-resnet50-fp32:step} in float32. Launches limit it then.""",
    "AlexNet and the batch size": """\
From a batch of 16 on, the wait for the loader is what limits the run. At 8 the GPU is idle for many reasons, and no
single change is predicted to save much.""",
    "BERT-base answers questions": """\
As in the source, mixed precision cuts the step from {bert-fp32:step} to {bert-amp:step},
{bert-fp32 / bert-amp:step} times. Kernels run {bert-fp32 / bert-amp:kernels} times as fast, and the GPU is then idle
for {bert-amp:idle} of the time, {bert-amp:idle_for_cpu} because of CPU work between launches. With kernels for each
parameter, Adam launches {bert-amp-single:optimizer_kernels} of them a step, and the GPU is idle for
{bert-amp-single:optimizer_idle} of the {bert-amp-single:optimizer} that the phase takes on the CPU. With `foreach` it
launches {bert-amp:optimizer_kernels} kernels, fused {bert-amp-fused:optimizer_kernels}. While the fused optimizer ran,
the host launched an operation every {bert-amp-fused:launch_interval}, with `foreach` every {bert-amp:launch_interval}
(medians), so the two steps cannot be compared.""",
    "ResNet50 inference": """\
Unlike in the source, float16 is no faster in eager PyTorch: {inference-fp16:step} a batch against
{inference-fp32:step}. Kernels take {inference-fp16:kernels} instead of {inference-fp32:kernels}, but the CPU launches
them no faster, and the GPU is idle for {inference-fp16:idle} of the time. As one CUDA graph the same kernels take
{inference-fp16-graphs:step} a batch, and with `torch.compile` {inference-fp16-compile:step}.""",
    "Image pipeline": """\
The direction is that of the source, the factor is larger. Preparing 32 images (`data`) takes {pipeline-cpu:data} on the
CPU and {pipeline-gpu:data} on the GPU, {pipeline-cpu / pipeline-gpu:data} times less. On the CPU, decoding takes
{pipeline-cpu:decode} of it, and cropping, flipping and normalizing {pipeline-cpu:augment}; on the GPU
{pipeline-gpu:decode} and {pipeline-gpu:augment}. Images are decoded and cropped one by one, and the CPU cannot launch
faster: kernels run for {pipeline-gpu:busy} of the time.""",
    "Decoding token by token": """\
The source is confirmed. The CPU launches an operation every {decoding:launch_interval}, and the GPU runs it in
{decoding:operation} (medians). A token takes {decoding:step}; kernels run for {decoding:kernels} of it. As a CUDA
graph, with one launch a token, it takes {decoding-graphs:step}, and the GPU is busy for {decoding-graphs:busy}. The
rest is the CPU reading each token before it launches the next.""",
    "Convolution of 28 × 28 images": """\
The name of the hand-written kernel, `convolve`, does not show whether it uses tensor cores, so its share is a range up
to nearly everything; it uses none. At 10000 images it takes {convolution-own-10000 / convolution-cudnn-10000:kernels}
times the time of all of cuDNN's kernels. The programs timed themselves: on the GPU for twenty batches under nsys, on
the CPU for five batches without a profiler.""",
}
