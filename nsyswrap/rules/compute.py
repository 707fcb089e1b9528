"""Rules on kernels and what limits them."""

from nsyswrap.rules.code import CHANNELS_LAST, COMPILED, PYTORCH, TRANSFORMERS, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Advice, Rule

ATTENTION_BY_PARTS = Rule(
    key="compute/attention_by_parts",
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
BATCH_NORM = Rule(
    key="compute/batch_norm",
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
KERNELS = Rule(key="compute/kernels", name="what limits the kernels", fixed="with faster kernels")
MISALIGNED = Rule(
    key="compute/misaligned",
    name="products with misaligned sizes",
    headline="Products of matrices with a size of {size} take {share} of the time: it forbids full loads, in {place}.",
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
UNFUSED = Rule(
    key="compute/unfused",
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
