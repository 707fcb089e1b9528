"""Programs with threads, event loops, signals, children and ranks."""

import os
import signal
import sys
import threading

import torch
import torch.distributed as dist
import torch.multiprocessing
from program import digest, run, train
from torch import nn

X = torch.ones(2, 4)
# Some runs hang where the last reference to a model of DDP ends: PyTorch then waits, with Python's lock, for a thread.
KEPT = []


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def train_without_seed(model, steps=4):
    """Train without the generator that threads share."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()
    return digest(model)


def in_ranks(function, count=2):
    """Run a function in forked ranks that use gloo through a file."""
    torch.multiprocessing.start_processes(function, (count, f"{os.getcwd()}/store"), count, start_method="fork")
    for rank in range(count):
        print(open(f"rank{rank}.txt").read(), end="")


def rank_of_ddp(rank, count, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    model = nn.parallel.DistributedDataParallel(linear())
    KEPT.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        with model.no_sync() if step % 2 == 0 else torch.enable_grad():
            model(X + rank).square().sum().backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    with open(f"rank{rank}.txt", "w") as file:
        print(rank, digest(model.module), float(total), sorted(model.state_dict()), file=file)
    dist.barrier()
    dist.destroy_process_group()


def rank_of_fsdp(rank, count, store):
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    mesh = dist.init_device_mesh("cpu", (count,))
    for each in model:
        fully_shard(each, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        model(X + rank).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    with open(f"rank{rank}.txt", "w") as file:
        print(
            rank,
            [digest(each.full_tensor()) for each in model.parameters()],
            type(model).__mro__[0].__name__,
            file=file,
        )
    dist.destroy_process_group()


def program_ranks_of_ddp():
    in_ranks(rank_of_ddp)


def program_ranks_of_fsdp():
    in_ranks(rank_of_fsdp)


def program_threads_train_at_once():
    def work(number):
        results[number] = train_without_seed(models[number])

    models = [linear() for _ in range(4)]
    results = {}
    threads = [threading.Thread(target=work, args=(number,), name=f"trainer {number}") for number in range(4)]
    print([each.name for each in threading.enumerate()])
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(sorted(results.items()), threading.active_count())


def program_thread_ends_inside_a_training():
    def work():
        model(X).square().sum().backward()
        raise ValueError("thread fails")

    model = linear()
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    print(train_without_seed(model))


def program_signal_handlers():
    caught = []
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda number, frame: caught.append((number, frame.f_code.co_name)))

    class Interrupted(nn.Module):
        def forward(self, x):
            os.kill(os.getpid(), signal.SIGUSR1)
            return x

    Interrupted()(X)
    print(caught)
    signal.signal(signal.SIGALRM, lambda *_: caught.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while "alarm" not in caught:
        train_without_seed(linear(), 1)
    print(caught[-1], signal.getitimer(signal.ITIMER_REAL))


def program_interrupt_in_forward():
    class Interrupted(nn.Module):
        def forward(self, x):
            signal.raise_signal(signal.SIGINT)
            return x

    model = nn.Sequential(linear(), Interrupted())
    try:
        model(X)
    except KeyboardInterrupt:
        print("interrupted", train_without_seed(model[0]))
    model(X)


def program_killed_in_training():
    print("before", train_without_seed(linear()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def program_exit_in_forward():
    class Leaving(nn.Module):
        def forward(self, x):
            sys.exit(7)

    Leaving()(X)


def program_immediate_exit():
    train()
    print("not flushed")
    os._exit(5)


def program_forked_children():
    model = linear()
    train_without_seed(model)
    sys.stdout.flush()
    for number in range(2):
        pid = os.fork()
        if pid == 0:
            print(number, train_without_seed(model), threading.current_thread().name, flush=True)
            os._exit(number)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        sys.stdout.flush()
    print(train_without_seed(model))


def program_fork_inside_a_forward():
    class Forking(nn.Module):
        def forward(self, x):
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                print("child", train_without_seed(linear()), flush=True)
                os._exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            return x

    Forking()(X)


if __name__ == "__main__":
    run(globals())
