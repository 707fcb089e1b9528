"""Programs that import torch in their own way, or need a Python in which nothing was imported yet."""

import atexit
import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

from program import digest, failing, run, train

# Programs for other processes.
TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
model(torch.ones(2, 4)).square().sum().backward()
print(model.weight.grad.tolist())
"""
FEW_PARTS = """
class nn:
    class Module: pass
class optim:
    class Optimizer: pass
class Tensor: pass
save = load = print
"""
RANK = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    model(torch.ones(2, 4) + dist.get_rank()).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
with open(f"rank{dist.get_rank()}.txt", "w") as file:
    file.write(f"{dist.get_rank()} {float(sum(each.detach().sum() for each in model.parameters()))}")
dist.barrier()
os._exit(0 if len(sys.argv) < 2 else dist.get_rank())
"""


def python(*arguments, **named):
    """Run a Python, and print its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, **named
    )
    print(done.returncode, done.stdout, done.stderr, sep="|", flush=True)


def linear():
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


def gradients(model=None):
    """Return a digest after a pass forward and backward; without an optimizer, whose import takes long."""
    import torch

    model = model or linear()
    model(torch.ones(2, 4)).square().sum().backward()
    return digest(*(each.grad for each in model.parameters()))


def imported():
    """Print which large parts of torch are imported."""
    print(
        [
            name
            for name in (
                "torch",
                "torch._dynamo",
                "torch._inductor",
                "torch.export",
                "torch.profiler",
                "torch.distributed",
                "torch.distributed.checkpoint",
                "torch.fx",
                "torch.jit",
                "sympy",
                "numpy",
                "nvtx",
                "ctypes",
            )
            if name in sys.modules
        ]
    )


def program_own_class_compiled_first():
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x).relu()

    print(digest(torch.compile(Net(), backend="eager")(torch.ones(2, 4))))


def program_parts_that_training_imports():
    """Nothing is imported earlier than without marks: the compiler takes seconds."""
    import torch

    imported()
    model = linear()
    loss = model(torch.ones(2, 4)).sum()
    imported()
    loss.backward()
    imported()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    imported()
    optimizer.step()
    imported()
    torch.save(1, "a.pt")
    list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(1))))
    imported()


def program_modules_after_training():
    importlib.import_module("torch")
    train()
    print(*sorted(name for name in sys.modules if not name.startswith("_nsyswrap")), sep="\n")


def program_import_system_after_torch():
    import torch

    print(sys.meta_path, [name for name in sys.path if "nsyswrap" in name])
    print(
        type(torch.__spec__.loader).__name__,
        sorted(vars(torch.__spec__.loader)),
        torch.__loader__ is torch.__spec__.loader,
    )
    print(importlib.util.find_spec("torch").origin[-20:], importlib.util.find_spec("torch.nn").name)
    print([each.name for each in threading.enumerate()])


def program_import_in_a_thread():
    def work():
        import torch

        results.append((torch.__name__, gradients()))

    results = []
    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
        each.join()
    print(results)


def program_lazy_import():
    spec = importlib.util.find_spec("torch")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch"] = module
    spec.loader.exec_module(module)
    print(type(module).__name__)
    with failing():
        print(module.ones(2).sum(), gradients())


def program_torch_of_the_program():
    """A package of the program with the name of torch."""
    Path("torch").mkdir()
    Path("torch", "__init__.py").write_text("import sys\n__version__ = 'own'\nprint('own torch', __name__, sys.argv)\n")
    sys.path.insert(0, os.getcwd())
    import torch

    print(torch.__version__, sorted(name for name in vars(torch) if name[0] != "_"))


def program_torch_with_few_parts():
    Path("torch.py").write_text(FEW_PARTS)
    sys.path.insert(0, os.getcwd())
    import torch

    torch.save("own save")
    print(sorted(name for name in vars(torch) if name[0] != "_"), sorted(vars(torch.nn.Module)))


def program_torch_that_fails():
    """A failing import is tried again, and succeeds."""
    Path("torch.py").write_text(
        "import os\nif not os.path.exists('ready'):\n    raise OSError('libtorch.so is missing')\nvalue = 3\n"
    )
    sys.path.insert(0, os.getcwd())
    for _ in range(2):
        try:
            importlib.import_module("torch")
        except OSError:
            import traceback

            traceback.print_exc()
    Path("ready").touch()
    print(importlib.import_module("torch").value, "torch" in sys.modules)


def program_torch_through_own_finder():
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "torch":
                print("asked for torch", path)
            return None

    sys.meta_path.insert(0, Finder())
    import torch

    print(gradients(), [type(each).__name__ for each in sys.meta_path])


def program_order_at_exit():
    class Last:
        def __del__(self):
            print("deleted", flush=True)

    atexit.register(print, "registered before torch")
    import torch

    atexit.register(print, "registered after torch")
    model = linear()
    model.last = globals()["kept"] = Last()
    atexit.register(lambda: print("trained at exit", digest(train(model))))
    import weakref

    weakref.finalize(model, print, "model gone")
    globals()["model"] = model
    print(digest(train(model)))


def program_training_in_a_thread_at_exit():
    import time

    import torch

    def work(name, model, steps):
        print(name, digest(train(model, steps=steps)), flush=True)
        while name == "daemon":
            time.sleep(0.01)

    importlib.import_module("torch._dynamo")
    for name, daemon in (("thread", False), ("daemon", True)):
        thread = threading.Thread(target=work, args=(name, linear(), 3), daemon=daemon)
        thread.start()
        time.sleep(0.5)
    print("main ends")


def program_end_while_a_step_is_open():
    import torch

    model = linear()
    model.register_forward_hook(lambda *_: sys.exit(3))
    loader = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), num_workers=1))
    model(next(loader)[0])


def program_replaced_by_another_program():
    print("lost when the program is replaced")
    print(digest(train(linear())), flush=True)
    print("not flushed")
    os.execv(sys.executable, [sys.executable, "-c", TRAINING])


def program_children_that_train():
    Path("train.py").write_text(TRAINING)
    python("train.py")
    python("-I", "train.py")
    python("-W", "error::DeprecationWarning", "-X", "dev", "-c", TRAINING)


def program_child_whose_environment_is_its_own():
    python("-c", TRAINING, env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")})


def program_environment_changed():
    import torch

    os.environ.clear()
    print(gradients())
    torch.save(1, "a.pt")
    os.environ["NVTX_INJECTION64_PATH"] = "/gone"
    print(torch.load("a.pt"), gradients(), sorted(os.environ))


def program_ranges_of_the_program():
    import torch

    with failing():
        torch.cuda.nvtx.range_push("own")
    if importlib.util.find_spec("nvtx"):
        import nvtx

        with nvtx.annotate("own", domain="own", color="red"):
            print(gradients())

        @nvtx.annotate()
        def own():
            return gradients()

        print(own(), nvtx.__name__, own.__name__, nvtx.push_range.__module__, nvtx.enabled() in {True, False})


def program_warnings_as_errors():
    warnings.simplefilter("error")
    with failing():
        import torch

        torch.manual_seed(0)
        print(digest(linear()(torch.ones(2, 4))))
        linear().to(torch.complex64)
    with failing():
        print(digest(train()))


def program_torchrun():
    Path("rank.py").write_text(RANK)
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "rank.py")
    python(*command)
    print(*(Path(f"rank{rank}.txt").read_text() for rank in range(2)), sep="\n")


def program_spawned_ranks():
    Path("ranks.py").write_text(
        textwrap.dedent("""
            import os, sys, torch
            def work(rank):
                os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT=sys.argv[1])
                exec(compile(source, "rank", "exec"), {"__name__": "rank"})
            source = %r
            if __name__ == "__main__":
                torch.multiprocessing.spawn(work, nprocs=2)
        """)
        % RANK.replace("len(sys.argv) < 2", "True")
    )
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    python("ranks.py", str(port))
    print(*(Path(f"rank{rank}.txt").read_text() for rank in range(2)), sep="\n")


if __name__ == "__main__":
    run(globals())
