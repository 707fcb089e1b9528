"""Rules on kernels and what limits them."""

from nsyswrap.rules.code import CHANNELS_LAST, COMPILED, LIGHTNING, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Rule

ATTENTION_BY_PARTS = Rule(
    key="compute/attention_by_parts",
    tried_with=("attention",),
    name="attention written by parts",
    headline="Attention by parts takes {share} of the time: products, mask and softmax one by one, in {place}.",
    advice=Wording(
        "Use torch.nn.functional.scaled_dot_product_attention: one kernel that keeps the scores out of the memory.",
        "Use a fused kernel for attention, which keeps the scores out of the memory.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "mixed = torch.nn.functional.scaled_dot_product_attention(\n"
            "    queries,  # (batch, heads, length, width)\n"
            "    keys,\n"
            "    values,\n"
            "    is_causal=True,  # instead of a triangular mask; attn_mask=mask for any other one\n"
            "    dropout_p=dropout if self.training else 0.0,\n"
            ")",
        ),
        CodeChange(TRANSFORMERS, 'model = AutoModel.from_pretrained(name, attn_implementation="sdpa")'),
    ),
    fixed="with fused attention",
)
ACTIVATION_BY_PARTS = Rule(
    key="compute/activation_by_parts",
    tried_with=("compile",),
    name="activations written by parts",
    headline="Activations by parts take {share} of the time: each operation of them is a kernel, in {place}.",
    advice=Wording(
        "Use the operator for the whole function, such as torch.nn.functional.gelu, silu or mish: it reads and "
        "writes once.",
        "Use one kernel for the whole function: it reads and writes once.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            'bent = torch.nn.functional.gelu(values, approximate="tanh")  # "none": with the error function',
        ),
        CodeChange(
            TRANSFORMERS,
            'config = AutoConfig.from_pretrained(name, activation_function="gelu_pytorch_tanh")  # of GPT-2',
        ),
    ),
    fixed="with fused activations",
)
AUTOTUNING = Rule(
    key="compute/autotuning",
    name="algorithms timed in the steps",
    headline="cuDNN times its algorithms for {share} of the time: each new shape of a convolution starts that again.",
    advice=Wording(
        "Turn it off where shapes change: torch.backends.cudnn.benchmark = False. Or keep shapes: pad or crop to few "
        "sizes, and drop the last batch.",
        "Choose algorithms by cuDNN's heuristics, or keep the plans for each shape.",
    ),
    code=(
        CodeChange(PYTORCH, "torch.backends.cudnn.benchmark = False  # or few sizes: each is timed once"),
        CodeChange(LIGHTNING, "trainer = Trainer(benchmark=False)"),
    ),
    fixed="without timed algorithms",
)
BATCH_NORM = Rule(
    key="compute/batch_norm",
    tried_with=("channels_last",),
    name="batch norms with one block a channel",
    headline="Batch norms that give each channel one block take {share} of the time.",
    advice=Wording(
        "Keep images in channels-last layout: model.to(memory_format=torch.channels_last), and the same "
        "for each batch. Batch norms then spread each channel over many blocks. torch.compile generates "
        "other kernels for them, too. A larger batch adds no block.",
        "Keep images in the layout NHWC: batch norms then spread each channel over many blocks. A larger "
        "batch adds no block.",
    ),
    code=CHANNELS_LAST,
    fixed="with faster batch norms",
)
DEPTHWISE = Rule(
    key="compute/depthwise",
    tried_with=("cudnn_benchmark", "channels_last"),
    name="depthwise convolutions",
    headline="Depthwise convolutions in PyTorch's own kernels take {share} of the time.",
    advice=Wording(
        "Keep images in channels-last layout: model.to(memory_format=torch.channels_last), and the same "
        "for each batch. cuDNN then runs these convolutions. In float32, and above all with large filters, "
        "time both layouts: cuDNN's kernels can be slower there, and bfloat16 or float16 helps more.",
        "Keep images in the layout NHWC, so that cuDNN can run these convolutions. In float32, and above "
        "all with large filters, time both layouts; half precision helps more.",
    ),
    code=CHANNELS_LAST,
    fixed="with faster depthwise convolutions",
)
DOUBLE = Rule(
    key="compute/double",
    name="work in FP64",
    headline="Work in FP64 takes {share} of the time, in {place}.",
    advice=Wording(
        "Make tensors from NumPy and Python FP32 where they begin: torch.as_tensor(values, dtype=torch.float32). One "
        "tensor of FP64 makes all that it meets FP64.",
        "Use FP32 where the result allows it: half the bytes, and a higher peak.",
        jax="Leave jax_enable_x64 off, or make arrays float32 where they begin.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "mean = torch.as_tensor(mean, dtype=torch.float32, device=device)  # NumPy's numbers are FP64",
        ),
    ),
    fixed="with FP32",
)
KERNELS = Rule(
    key="compute/kernels",
    name="what limits the kernels",
    fixed="with faster kernels",
    tried_with=("cudnn_benchmark", "attention"),
)
LOSS_BY_PARTS = Rule(
    key="compute/loss_by_parts",
    name="losses written by parts",
    headline="A loss by parts takes {share} of the time: softmax, logarithm and choice, one kernel each, in {place}.",
    advice=Wording(
        "Use torch.nn.functional.cross_entropy, which keeps one tensor of the scores' size. It has weights, ignored "
        "classes and label smoothing, too.",
        "Use one kernel for softmax and cross entropy.",
    ),
    code=(
        CodeChange(PYTORCH, "loss = torch.nn.functional.cross_entropy(scores, wanted, label_smoothing=0.0)"),
        CodeChange(
            TRANSFORMERS,
            "def loss_of(outputs, labels, num_items_in_batch=None):\n"
            "    scores = outputs.logits[:, :-1].flatten(0, 1)\n"
            "    return torch.nn.functional.cross_entropy(scores, labels[:, 1:].flatten(), label_smoothing=0.1)\n"
            "\n"
            "trainer = Trainer(model, arguments, compute_loss_func=loss_of)  # without label_smoothing_factor",
        ),
    ),
    fixed="with a fused loss",
)
MISALIGNED = Rule(
    key="compute/misaligned",
    name="products with misaligned sizes",
    headline="Products of matrices with a size of {size} take {share} of the time: it prevents full loads, in {place}.",
    advice=Wording(
        "Make the size a multiple of 64 elements, of 8 in half precision at least: {change}. What is added is never "
        "used: rows of a vocabulary that no token has, or columns of zeros.",
        "Make the rows of matrices a multiple of 16 bytes, better of 128: {change}.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "vocabulary = -(-vocabulary // 64) * 64  # 50,257 becomes 50,304\n"
            "tokens = torch.nn.Embedding(vocabulary, width)\n"
            "head = torch.nn.Linear(width, vocabulary)",
        ),
        CodeChange(TRANSFORMERS, "model.resize_token_embeddings(pad_to_multiple_of=64)"),
    ),
    fixed="with padded sizes",
)
NORM_BY_PARTS = Rule(
    key="compute/norm_by_parts",
    tried_with=("compile",),
    name="norms written by parts",
    headline="Norms by parts take {share} of the time: mean, root and products one by one, in {place}.",
    advice=Wording(
        "Use torch.nn.RMSNorm or torch.nn.LayerNorm: one kernel that reads its input once.",
        "Use one kernel for the whole norm: it reads its input once.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "norm = torch.nn.RMSNorm(width, eps=1e-6)  # or torch.nn.LayerNorm, which subtracts the mean\n"
            "hidden = norm(hidden)",
        ),
        CodeChange(
            TRANSFORMERS,
            "for module in list(model.modules()):\n"
            "    for name, norm in list(module.named_children()):\n"
            '        if type(norm).__name__.endswith("RMSNorm"):\n'
            "            fused = torch.nn.RMSNorm(len(norm.weight), norm.variance_epsilon)\n"
            "            fused.weight = norm.weight\n"
            "            setattr(module, name, fused)",
        ),
    ),
    fixed="with fused norms",
)
OLDER_KERNEL = Rule(
    key="compute/older_kernel",
    name="products on kernels for an older GPU",
    headline="Products of matrices take {share} of the time on kernels for older GPUs, in {place}.",
    advice=Wording(
        "Use half precision for these products, for which the library has kernels for this GPU, and a PyTorch that is "
        "built with a CUDA no older than the GPU. The library chose these kernels itself, so measure the change.",
        "Use a library no older than the GPU, and half precision.",
    ),
    cases=(
        Advice(
            headline="Products of matrices take {share} of the time on kernels that load few bytes at once, in "
            "{place}: their data is not aligned.",
            advice=Wording(
                "Begin slices at a multiple of 16 bytes, 8 elements in half precision: leave out the last columns, not "
                "the first. Or copy the slice once, before the steps: .contiguous().",
                "Begin matrices at a multiple of 16 bytes.",
            ),
            code=(
                CodeChange(
                    PYTORCH,
                    "inputs = table[:, :width]  # labels in the last column, not in the first: table[:, 1:]\n"
                    "# or once, before the steps: inputs = table[:, 1:].contiguous()",
                ),
            ),
        ),
    ),
    fixed="with this GPU's kernels",
)
RECOMPUTATION = Rule(
    key="compute/recomputation",
    name="activations computed again",
    headline="Activations that are computed again in the backward pass take {share} of the time: {place}.",
    advice=Wording(
        "Keep them where the memory suffices: take checkpointing out, or use it for fewer modules.",
        "Keep them where the memory suffices.",
        jax="Keep them where the memory suffices: jax.checkpoint around fewer functions, or with a policy that keeps "
        "the results of products.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "for number, block in enumerate(blocks):\n"
            "    if number < checkpointed:  # as few as the memory allows; with 0 all is kept\n"
            "        hidden = checkpoint(block, hidden, use_reentrant=False)\n"
            "    else:\n"
            "        hidden = block(hidden)",
        ),
        CodeChange(TRANSFORMERS, "arguments = TrainingArguments(gradient_checkpointing=False)"),
    ),
    fixed="with activations kept",
)
REPEATED_CASTS = Rule(
    key="compute/repeated_casts",
    name="weights cast again in each micro-batch",
    headline="Casts of weights that were cast before in the same step take {share} of the time, in {place}.",
    advice=Wording(
        "Cast them once a step: one torch.autocast around all micro-batches keeps what it cast. Larger "
        "micro-batches, or weights in half precision, need fewer casts, too.",
        "Cast them once a step, before the first micro-batch.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            'with torch.autocast("cuda", dtype=torch.bfloat16):  # it keeps what it cast until it ends\n'
            "    for inputs, targets in micro_batches:\n"
            "        criterion(model(inputs), targets).backward()\n"
            "optimizer.step()",
        ),
    ),
    fixed="with each weight cast once",
)
SMALL_BATCHES = Rule(
    key="compute/small_batches",
    name="many small batches in a step",
    headline="Each step runs {place} {count} times, each with little data.",
    advice=Wording(
        "Give them all {count} at once: one larger micro-batch, or a stacked batch in place of a loop over samples. "
        "That needs memory for the activations of all of them.",
        "Compute them at once, as one batch.",
        jax="Compute them at once: jax.vmap in place of a loop.",
    ),
    code=(
        CodeChange(PYTORCH, "results = model(torch.stack(samples))  # in place of [model(each) for each in samples]"),
        CodeChange(LIGHTNING, "trainer = Trainer(accumulate_grad_batches=1)  # and a loader with a larger batch_size"),
        CodeChange(
            TRANSFORMERS,
            "arguments = TrainingArguments(per_device_train_batch_size=16, gradient_accumulation_steps=1)",
        ),
    ),
    fixed="with larger batches",
)
SMALL_MATRICES = Rule(
    key="compute/small_matrices",
    name="many products of small matrices",
    headline="Equal products of small matrices, one after the other, take {share} of the time.",
    advice=Wording(
        "Compute them at once: torch.bmm or torch.matmul over stacked tensors instead of a loop over "
        "heads, experts or samples; torch.vmap does that for a function.",
        "Compute them at once: a batched product (cublasGemmStridedBatchedEx), or a grouped one for different sizes.",
        jax="Compute them at once: jnp.einsum over stacked arrays, or jax.vmap, instead of a loop.",
    ),
    code=(CodeChange(PYTORCH, "products = torch.bmm(torch.stack(lefts), torch.stack(rights))  # one kernel, no loop"),),
    fixed="with batched products",
)
SORTED_GRADIENT = Rule(
    key="compute/sorted_gradient",
    name="lookups whose backward pass sorts",
    headline="Backward passes of lookups that sort take {share} of the time, in {place}.",
    advice=Wording(
        "Look up with index_select, whose backward pass adds without sorting. Sums are then added in another order "
        "each time. Time both: wide rows and equal indices take longer there.",
        "Add the rows with atomic additions in place of a sort.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "found = table.weight.index_select(0, index.flatten()).view(*index.shape, -1)  # not table(index)\n"
            "sent = nodes.index_select(0, source)  # not nodes[source]",
        ),
    ),
    fixed="without sorts",
)
UNFUSED = Rule(
    key="compute/unfused",
    tried_with=("compile",),
    name="elementwise kernels in chains",
    headline=Wording(
        "Elementwise kernels in chains take {share} of the time; torch.compile fuses such chains.",
        "Elementwise kernels in chains take {share} of the time; one kernel can do a chain.",
    ),
    advice=Wording(
        "Fuse them: torch.compile makes one kernel of a chain. By hand: operators that do several of these "
        "steps at once, such as functional.rms_norm, functional.layer_norm or scaled_dot_product_attention.",
        "Fuse them: one kernel that does all steps of a chain reads and writes the data once.",
        jax="Fuse them: what is under one jax.jit, XLA makes one kernel of.",
        server="Fuse them: let the engine compile the model (vLLM: without --enforce-eager), or use its fused kernels.",
    ),
    cases=(
        Advice(
            headline=Wording(
                "Elementwise kernels pass tensors on through the memory for {share} of the time, in {place}; "
                "torch.compile fuses such chains.",
                "Elementwise kernels pass tensors on through the memory for {share} of the time, in {place}; "
                "one kernel can do a chain.",
            )
        ),
    ),
    code=COMPILED,
    fixed="with fused kernels",
)
