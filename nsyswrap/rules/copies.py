"""Rules on memory copies."""

from nsyswrap.rules.code import PINNED, PYTORCH, CodeChange
from nsyswrap.rules.cuda_advice import COPY_PINNED, COPY_PINNED_BY_KIND
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Group, Rule

PAGEABLE = Rule(
    key="copies/pageable",
    tried_with=("pin_memory",),
    name="copies from pageable memory",
    headline="The GPU computes nothing for {share} of the time because copies of pageable memory block the host.",
    advice=Wording(
        "Copy from pinned memory without blocking: DataLoader(pin_memory=True) and tensor.to(device, "
        "non_blocking=True). To the host, copy into a pinned tensor, and less often.",
        COPY_PINNED,
        **COPY_PINNED_BY_KIND,
    ),
    code=PINNED,
    fixed="with pinned memory",
    hue="idle-wait",
    group=Group.COPIES,
)
EXPOSED = Rule(
    key="copies/exposed",
    tried_with=("non_blocking", "pin_memory"),
    name="exposed copies",
    headline="The GPU copies and computes nothing for {share} of the time.",
    code=(
        CodeChange(
            PYTORCH,
            "copies = torch.cuda.Stream()\n"
            "\n"
            "\n"
            "def on_gpu(loader):\n"
            '    """Yield each batch; the next one is copied meanwhile."""\n'
            "    following = None\n"
            "    for batch in loader:  # pin_memory=True\n"
            "        with torch.cuda.stream(copies):\n"
            "            copied = batch.to(device, non_blocking=True)\n"
            "        if following is not None:\n"
            "            yield following\n"
            "        torch.cuda.current_stream().wait_stream(copies)\n"
            "        copied.record_stream(torch.cuda.current_stream())\n"
            "        following = copied\n"
            "    if following is not None:\n"
            "        yield following",
        ),
    ),
    fixed="if the copies overlapped with kernels",
    hue="idle-wait",
    drawn_as=("gpu", "copy"),
    group=Group.COPIES,
)
