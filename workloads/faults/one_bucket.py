"""The trainer is set to send all gradients in one bucket, so it can only send them when the backward pass is over.

ddp_bucket_cap_mb=10000. Fixed, buckets have the usual 25 MB, and most travel during the backward pass. It needs two
GPUs.
"""

from torch import distributed
from transformers import GPT2Config, GPT2LMHeadModel

from faults import ranks, trainer_loop, training
from faults.training import Run

SHAPE = "a language model in the library's loop on two GPUs; a setting makes one bucket of all gradients"
LIBRARY = "transformers"
EXPECTS = {"": ("communication/exposed",), "--fixed": ()}
GPUS = 2

VOCABULARY, WIDTH, LAYERS, ROWS, LENGTH, STEPS = 4096, 1536, 8, 8, 512, 16


def rank(number: int, run: Run, port: int) -> None:
    """Train as one of two processes."""
    own = ranks.one_of_two(number, run, port)
    width = own.size(WIDTH)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=width,
        n_layer=own.size(LAYERS, 2),
        n_head=max(width // 64, 2),
        n_positions=LENGTH,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    tokens = next(trainer_loop.tokens(own, VOCABULARY, ROWS, LENGTH))
    batches = [{"input_ids": tokens, "labels": tokens}]
    megabytes = 25 if own.fixed else 10_000
    loss = trainer_loop.train(
        *(own, GPT2LMHeadModel(config), batches),
        ddp_bucket_cap_mb=megabytes,
        ddp_find_unused_parameters=False,
        ddp_backend="nccl" if own.device.type == "cuda" else "gloo",
    )
    # One write, so that the lines of two ranks do not mix.
    print(f"rank {number}: mean loss {loss:.4f}\n", end="")
    distributed.barrier()
    distributed.destroy_process_group()


def main(arguments: list[str] | None = None) -> None:
    """Train in two processes."""
    ranks.spawn(rank, training.started(__doc__, arguments, STEPS, gpus=GPUS))


if __name__ == "__main__":
    main()
