"""Adam goes through the parameters one by one: a dozen tiny kernels for each of its tensors.

Fixed, fused=True does the same in a few kernels.
"""

from torch import nn, optim

from faults import training

SHAPE = "linear layers and norms; Adam from torch.optim, tensor by tensor"
EXPECTS = {"": ("optimizer/many_kernels",), "--fixed": ()}

LAYERS, WIDTH, ROWS, STEPS = 24, 1024, 16384, 20


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    layers = [
        part
        for _ in range(run.size(LAYERS, 3))
        for part in (nn.LayerNorm(width, device=run.device), nn.Linear(width, width, device=run.device), nn.ReLU())
    ]
    model = nn.Sequential(*layers)
    kinds = {"fused": True} if run.fixed else {"foreach": False, "fused": False}
    optimizer = optim.Adam(model.parameters(), lr=1e-4, **kinds)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), width)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {sum(1 for _ in model.parameters())} tensors")


if __name__ == "__main__":
    main()
