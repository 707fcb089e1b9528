"""Rules on code that is compiled or loaded."""

from nsyswrap.rules.code import PYTORCH, CodeChange
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.rule import Rule

IN_WINDOW = Rule(
    key="modules/in_window",
    name="kernels compiled or loaded in steps",
    headline="The GPU is idle for {share} of the time while kernels are compiled{warm}.",
    advice=Wording(
        "Compile once, before the loop. Pass numbers that change as tensors or arguments instead of "
        "writing them into code. Mark changing sizes with torch.compile(dynamic=True). Run each shape "
        "once before the first step.",
        "Compile and load before the loop: build for this GPU (-arch), so that the driver need not compile "
        "PTX, keep what NVRTC compiled, and launch each kernel once to warm up.",
        jax="Compile once, before the loop: the same shapes and static arguments in each call of jax.jit "
        "(jax_log_compiles shows each compilation), and each shape once before the first step.",
        server="Let the engine compile and capture all batch sizes at its start, and keep its compilation cache.",
    ),
    code=(
        CodeChange(
            PYTORCH,
            "model = torch.compile(model, dynamic=True)  # one compilation for all sizes\n"
            "for shape in shapes:  # before the first step\n"
            "    model(torch.zeros(shape, device=device))",
        ),
    ),
    fixed="if everything were compiled before",
    hue="idle-setup",
)
