"""Rules on kernels and what limits them."""

from nsyswrap.rules.code import CHANNELS_LAST, COMPILED, PYTORCH, CodeChange
from nsyswrap.rules.rule import Rule

BATCH_NORM = Rule(
    key="compute/batch_norm",
    name="batch norms with one block a channel",
    code=CHANNELS_LAST,
    fixed="with faster batch norms",
)
DEPTHWISE = Rule(
    key="compute/depthwise",
    name="depthwise convolutions",
    code=CHANNELS_LAST,
    fixed="with faster depthwise convolutions",
)
KERNELS = Rule(key="compute/kernels", name="what limits the kernels", fixed="with faster kernels")
SMALL_MATRICES = Rule(
    key="compute/small_matrices",
    name="many products of small matrices",
    code=(CodeChange(PYTORCH, "products = torch.bmm(torch.stack(lefts), torch.stack(rights))  # one kernel, no loop"),),
    fixed="with batched products",
)
UNFUSED = Rule(key="compute/unfused", name="elementwise kernels in chains", code=COMPILED, fixed="with fused kernels")
