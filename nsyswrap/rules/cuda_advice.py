"""Advice that several rules share: for programs that are not PyTorch's, in general and for some kinds."""

WAIT_LESS = (
    "Wait less often: keep cudaDeviceSynchronize and cudaStreamSynchronize out of the loop, queue the "
    "next kernels first, and wait with an event for what the host really reads."
)
WAIT_LESS_BY_KIND = {
    "jax": "Keep block_until_ready, float(), np.asarray and prints of device arrays out of the step: dispatch "
    "the next step first, and read values every n steps.",
    "server": "Each step's tokens are read back. Let the engine prepare the next step meanwhile (vLLM: "
    "--async-scheduling), and ask for less: log probabilities only where they are needed.",
    "openacc": "Wait less often: async on regions and updates, and one wait where the host needs the result. Keep "
    "data on the GPU in data regions.",
}
COPY_PINNED = (
    "Copy from pinned memory without blocking: cudaMallocHost or cudaHostRegister, and cudaMemcpyAsync "
    "on a stream of its own. To the host, less often."
)
COPY_PINNED_BY_KIND = {
    "jax": "Put the next batch on the device (jax.device_put) while this step runs, and read results less often.",
    "openacc": "Pin the host's memory (the compiler's option for pinned memory, or cudaHostRegister), update with "
    "async, and keep data on the GPU in data regions.",
}
ALLOCATE_ONCE = (
    "Allocate once, before the loop. Or use a pool that keeps what is freed: cudaMallocAsync with a "
    "release threshold (cudaMemPoolAttrReleaseThreshold)."
)
ALLOCATE_ONCE_BY_KIND = {
    "jax": "Let JAX keep its memory: unset XLA_PYTHON_CLIENT_ALLOCATOR=platform and "
    "XLA_PYTHON_CLIENT_PREALLOCATE=false.",
    "openacc": "Allocate once: a data region, or enter data create, around the loop instead of copies in each region.",
}
