"""Programs that watch themselves: profilers, tracers, coverage, audit hooks, the garbage collector."""

import cProfile
import gc
import os
import pstats
import sys
import threading
import weakref
from contextlib import suppress

import torch
from program import digest, need, run, train
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

X = torch.ones(2, 4)
CPU = [ProfilerActivity.CPU]


def short(path):
    return path.rpartition("site-packages/")[2].rpartition("/tests/law/programs/")[2]


def work():
    """Do one of each thing: read data, train, move a module, save."""
    model = train(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), steps=2)
    for (batch,) in DataLoader(TensorDataset(torch.ones(4, 4)), batch_size=2):
        model.to("cpu")(batch.to(torch.float64).float())
    torch.save(model.state_dict(), "model.pt")
    torch.load("model.pt")
    return model


def counts(found):
    return sorted((each.key, each.count) for each in found.key_averages())


def program_profiler_with_stack():
    with profile(activities=CPU, with_stack=True) as found:
        nn.Sequential(nn.Linear(4, 4), nn.ReLU())(X)
    print(*sorted(each for each, _ in counts(found) if each.startswith(("aten", "nn.Module"))), sep="\n")
    print(
        {frame.partition("(")[0] for event in found.events() for frame in event.stack if "tests/law" in frame} and "own"
    )
    found.export_stacks("stacks.txt", "self_cpu_time_total")
    print(os.path.exists("stacks.txt"))


def program_profiler_after_compile():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    model = nn.Linear(4, 2)
    compiled(X)
    model(X)
    with profile(activities=CPU):
        model(X)
    with profile(activities=CPU, with_modules=True, with_stack=True) as found:
        model(X)
        compiled(X)
    print(sorted(each for each, _ in counts(found) if each.startswith("aten")))


def calls_of(stats, wanted):
    return sorted(
        (short(file), name, line, primitive, count)
        for (file, line, name), (primitive, count, *_) in stats.stats.items()
        if wanted in file
    )


def program_cprofile():
    profiler = cProfile.Profile()
    with_result = profiler.runcall(work)
    stats = pstats.Stats(profiler)
    print(digest(with_result))
    print(*calls_of(stats, "watching.py"), sep="\n")
    print(*calls_of(stats, "torch/"), sep="\n")
    print({short(file) for file, _, _ in stats.stats if "nsyswrap/" in file})


def program_trace_functions_stay():
    """What the program sets stays set through a training."""

    def watch(*_arguments):
        return None

    sys.setprofile(watch)
    work()
    print(sys.getprofile() is watch)
    sys.setprofile(None)
    sys.settrace(watch)
    work()
    print(sys.gettrace() is watch)
    sys.settrace(None)
    threading.setprofile(watch)
    threading.settrace(watch)
    print(threading.getprofile() is watch, threading.gettrace() is watch)


def program_monitoring_tools():
    """All six tool identifiers are free, and stay those of the program."""
    need(reason="" if hasattr(sys, "monitoring") else "needs sys.monitoring (Python 3.12)")
    monitoring = sys.monitoring
    print([monitoring.get_tool(number) for number in range(6)])
    work()
    for number in range(6):
        monitoring.use_tool_id(number, f"own {number}")
    print([monitoring.get_tool(number) for number in range(6)])
    work()
    print([monitoring.get_tool(number) for number in range(6)])
    for number in range(6):
        monitoring.free_tool_id(number)
    work()
    print([monitoring.get_tool(number) for number in range(6)])


def program_monitoring_events():
    need(reason="" if hasattr(sys, "monitoring") else "needs sys.monitoring (Python 3.12)")
    monitoring, events = sys.monitoring, []
    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "own")
    kinds = monitoring.events
    for kind in (kinds.PY_START, kinds.PY_RETURN, kinds.PY_UNWIND):
        monitoring.register_callback(
            tool, kind, lambda code, *_, kind=kind: events.append((kind, code.co_qualname)) or None
        )
    model = nn.Linear(4, 2)
    monitoring.set_events(tool, kinds.PY_START | kinds.PY_RETURN | kinds.PY_UNWIND)
    model(X).sum().backward()
    list(DataLoader(TensorDataset(X)))
    monitoring.set_events(tool, 0)
    print(monitoring.get_events(tool), len(events))
    print(*events, sep="\n")
    monitoring.free_tool_id(tool)


def program_monitoring_disables_and_restarts():
    """Callbacks that return DISABLE are called once for each place, until the program restarts events."""
    need(reason="" if hasattr(sys, "monitoring") else "needs sys.monitoring (Python 3.12)")
    monitoring, found = sys.monitoring, []
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "own")

    def line(code, number):
        found.append((short(code.co_filename), number))
        return monitoring.DISABLE

    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, line)
    model = nn.Linear(4, 2)
    for _ in range(2):
        found.clear()
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
        for _ in range(3):
            model(X).sum().backward()
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        print(len(found), digest(found))
        monitoring.restart_events()


def program_monitoring_local_events():
    need(reason="" if hasattr(sys, "monitoring") else "needs sys.monitoring (Python 3.12)")
    monitoring, calls = sys.monitoring, []
    tool, code = monitoring.DEBUGGER_ID, nn.Module._wrapped_call_impl.__code__
    print([monitoring.get_local_events(number, code) for number in range(6) if monitoring.get_tool(number)])
    monitoring.use_tool_id(tool, "own")
    monitoring.register_callback(tool, monitoring.events.PY_START, lambda code, offset: calls.append(code.co_name))
    monitoring.set_local_events(tool, code, monitoring.events.PY_START)
    nn.Sequential(nn.ReLU())(X)
    print(calls, monitoring.get_local_events(tool, code))
    monitoring.set_local_events(tool, code, 0)
    monitoring.free_tool_id(tool)


def program_coverage():
    need("coverage")
    import coverage

    measured = coverage.Coverage(data_file=None, include=[__file__, train.__code__.co_filename], config_file=False)
    measured.start()
    work()
    measured.stop()
    data = measured.get_data()
    for file in sorted(data.measured_files()):
        print(short(file), sorted(data.lines(file)))


def program_collector_callbacks():
    phases = []

    def called(phase, info):
        phases.append((phase, info["generation"]))

    gc.disable()
    gc.callbacks.append(called)
    for generation in (0, 1, 2):
        gc.collect(generation)
    gc.collect()
    gc.callbacks.remove(called)
    print(phases, called in gc.callbacks)
    print(gc.collect.__name__, type(gc.collect).__name__, gc.collect.__self__.__name__, gc.get_threshold())


def program_collected_numbers():
    """How much garbage each collection finds, and how many objects of torch live."""

    class Node:
        def __init__(self):
            self.itself = self

    gc.disable()
    work()
    print(gc.collect() >= 0)
    for count in (3, 5):
        for _ in range(count):
            Node()
        print(gc.collect(), [each["uncollectable"] for each in gc.get_stats()])
    model = work()
    gc.collect()
    print(sum(isinstance(each, torch.Tensor) for each in gc.get_objects()))
    print(
        sum(isinstance(each, (nn.Module, torch.optim.Optimizer, DataLoader)) for each in gc.get_objects()),
        digest(model),
    )


def program_objects_that_training_leaves():
    """A further training leaves no object behind."""
    found = []
    for _ in range(4):
        work()
        gc.collect()
        found.append(len(gc.get_objects()))
    print(found[-1] - found[-2], len(gc.garbage))


def program_lifetimes():
    """Objects of torch die as soon as the program drops them, without the collector."""
    gc.disable()
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer)
    loader = DataLoader(TensorDataset(X))
    batches = iter(loader)
    next(batches)
    loss = model(X).sum()
    loss.backward()
    counts = [sys.getrefcount(each) for each in (model, optimizer, loader, batches, loss)]
    print(counts)
    for each in (model, optimizer, loader, batches, loss):
        weakref.finalize(each, print, "gone", type(each).__name__)
    del each, loss, batches, loader
    print("data")
    del model, optimizer
    print("model")
    gc.collect()


def opened(nvtx):
    """Yield functions that make a range with a text: of the package nvtx, and of torch where it is built with them."""
    yield nvtx.annotate
    yield lambda text: torch.cuda.nvtx.range(text) if torch.cuda.is_available() else nvtx.annotate(text)


def program_own_ranges():
    need("nvtx")
    import nvtx

    model = train()
    called = []
    gc.disable()  # a profiler sees callbacks of collections
    for made in opened(nvtx):
        for number in range(8):
            sys.setprofile(lambda frame, event, _: called.append((event, frame.f_code.co_name, sorted(frame.f_locals))))
            with made(f"batch {number}"):
                nvtx.push_range("forward")
                loss = model(X + number).sum()
                nvtx.pop_range()
                loss.backward()
                with torch.no_grad():
                    for each in model.parameters():
                        each -= 0.1 * each.grad
                model.zero_grad()
            sys.setprofile(None)
            with suppress(RuntimeError):
                torch.cuda.nvtx.range_push(f"step {number}")
                torch.cuda.nvtx.range_pop()
    print(digest(model), len(called), digest(called))
    print(vars(nvtx.annotate("batch 3")).keys(), nvtx.push_range.__code__.co_code.hex())


def program_own_ranges_in_compiled_code():
    need("nvtx")
    import nvtx

    model = torch.compile(nn.Linear(4, 2), backend="eager")
    for number in range(10):
        with nvtx.annotate(f"batch {number}"), torch.no_grad():
            model(X + number)

    @torch.compile(backend="eager")
    def step(x, number):
        with nvtx.annotate("batch 1"):
            return x * number

    print(digest([step(X, number) for number in range(8)]))
    print(torch._dynamo.utils.counters["frames"], torch._dynamo.utils.counters["graph_break"])


if __name__ == "__main__":
    run(globals())
