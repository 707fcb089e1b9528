"""Rules on the capture itself: what it lost, and what recording it cost."""

from nsyswrap.rules.code import PYTORCH, CodeChange
from nsyswrap.rules.rule import Group, Rule

OVERHEAD = Rule(
    key="capture/overhead",
    name="recording of NVTX ranges",
    headline="The CPU records NVTX ranges for {share} of the time while the GPU waits.",
    advice="Take ranges out of inner loops, or profile with --trace cuda,osrt. The saving is one of profiled "
    "runs alone.",
    code=(
        CodeChange(
            PYTORCH,
            "for number, batch in enumerate(loader):\n"
            '    with torch.cuda.nvtx.range(f"batch {number}"):  # around the step, and not in its inner loops\n'
            "        train(batch)",
        ),
    ),
    fixed="without the ranges in inner loops",
    group=Group.PROFILER,
)
IMPOSSIBLE_ROWS = Rule(key="capture/impossible_rows", name="impossible rows in the capture")
INCOMPLETE = Rule(key="capture/incomplete", name="incomplete capture")
NO_RANGES = Rule(key="capture/no_ranges", name="no NVTX ranges")
