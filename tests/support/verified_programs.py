"""Small programs, and changes of them: cheats, which do less work, and honest fixes, which do the same work."""

from typing import NamedTuple

TRAIN = """
import os
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Subset


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        with open(f"data/{at}.bin", "rb") as file:
            image = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).view(1, 8, 8) @ torch.eye(8)
        return image, at % 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU()
        self.hidden = nn.Linear(8 * 4, 32)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 4)

    def forward(self, images):
        found = self.act(self.norm(self.conv(images)))
        found = F.adaptive_avg_pool2d(found, 2).flatten(1)
        found = self.drop(self.act(self.hidden(found)))
        return self.head(found)


def evaluate(model, data):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in DataLoader(data, batch_size=16):
            right += (model(images).topk(2).indices == labels[:, None]).sum().item()
    model.train()
    return right


def main():
    torch.manual_seed(7)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    data = Images()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    step = 0
    for epoch in range(2):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            step += 1
            print(step, loss.item())
        print("right", evaluate(model, Subset(data, range(32))))
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""

FEATURES = """
import threading
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)
backbone = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 32)).eval()
head = nn.Linear(32, 4)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
images, labels = torch.randn(64, 16), torch.arange(64) % 4


def features(start):
    with torch.no_grad():
        return backbone(images[start : start + 16])


# before
for epoch in range(3):
    for start in range(0, 64, 16):
        found = features(start)
        loss = F.cross_entropy(head(found), labels[start : start + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
# after
"""

ATTENTION = """
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.inputs, self.outputs = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def attend(self, query, key, value):
        scores = query @ key.transpose(-2, -1) / 8**0.5
        return scores.softmax(-1) @ value

    def forward(self, tokens):
        batch, length, width = tokens.shape
        query, key, value = self.inputs(self.norm(tokens)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        found = self.attend(query, key, value)
        tokens = tokens + self.outputs(found.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.down(F.gelu(self.up(tokens)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        found = self.embed(tokens)
        for block in self.blocks:
            found = block(found)
        return self.head(found)


torch.manual_seed(5)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
text = torch.randint(0, 50, (6, 4, 17))
for step in range(6):
    tokens, following = text[step][:, :-1], text[step][:, 1:]
    loss = F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

SAMPLES = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
images, labels = torch.randn(6, 8, 10), torch.randint(0, 3, (6, 8))
for step in range(6):
    optimizer.zero_grad()
    for at in range(8):
        loss = F.cross_entropy(model(images[step, at : at + 1]), labels[step, at : at + 1]) / 8
        loss.backward()
    optimizer.step()
"""

INFERENCE = """
import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5)).eval()
images = torch.randn(8, 16, 20)
images[5] = images[1]
results = []
with torch.no_grad():
    for batch in images:
        results.append(model(batch).argmax(-1))
torch.save(torch.stack(results), "results.pt")
"""

BASES = {"train": TRAIN, "features": FEATURES, "attention": ATTENTION, "samples": SAMPLES, "inference": INFERENCE}


class Change(NamedTuple):
    """A change of a program.

    Attributes:
        base: The program, a key of ``BASES``.
        edits: Pairs of a text in it, and what replaces it.
        says: Words that the verdict on a cheat has.
    """

    base: str
    edits: tuple[tuple[str, str], ...]
    says: str = ""

    @property
    def text(self) -> str:
        found = BASES[self.base]
        for old, new in self.edits:
            if old not in found:
                raise ValueError(f"{old!r} is not in the program")
            found = found.replace(old, new)
        return found


def _train(*edits: tuple[str, str], says: str = "") -> Change:
    return Change("train", edits, says)


_FORWARD = "loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)"
_IN_FEATURES = "found = features(start)"

CHEATS: dict[str, Change] = {
    "fewer epochs": _train(("range(2)", "range(1)"), says="optimizer steps"),
    "fewer steps": _train(
        ("            step += 1", "            step += 1\n            if step == 6: break"), says="optimizer steps"
    ),
    "smaller batch": _train(("(data, batch_size=16", "(Subset(data, range(32)), batch_size=8"), says="8 rows of"),
    "skipped backward": _train(
        ("            loss.backward()", "            step % 2 or loss.backward()"), says="gradients"
    ),
    "skipped optimizer step": _train(
        ("            optimizer.step()", "            step % 2 or optimizer.step()"), says="optimizer steps"
    ),
    "learning rate 0": _train(("lr=0.01", "lr=0.0"), says="lr 0.0"),
    "no weight decay": _train(("weight_decay=0.1", "weight_decay=0.0"), says="weight_decay 0.0"),
    "other optimizer": _train(
        ("AdamW(model.parameters(), lr=0.01, weight_decay=0.1", "SGD(model.parameters(), lr=0.01"), says="SGD"
    ),
    "autocast to bfloat16": _train(
        (_FORWARD, f'with torch.autocast("cpu", torch.bfloat16): {_FORWARD}'), says="bfloat16"
    ),
    "model in bfloat16": _train(
        ("model = Model()", "model = Model().bfloat16()"),
        ("model(images)", "model(images.bfloat16())"),
        says="bfloat16",
    ),
    "fewer layers": _train(
        ("self.drop(self.act(self.hidden(found)))", "self.drop(self.act(found))"),
        ("self.hidden = nn.Linear(8 * 4, 32)", ""),
        says="parameters",
    ),
    "narrower layer": _train(
        ("nn.Linear(8 * 4, 32)", "nn.Linear(8 * 4, 16)"), ("nn.Linear(32, 4)", "nn.Linear(16, 4)"), says="parameter"
    ),
    "frozen layer": _train(("model = Model()", "model = Model(); model.conv.requires_grad_(False)"), says="gradients"),
    "layer without updates": _train(("AdamW(model.parameters()", "AdamW(model.head.parameters()"), says="parameter"),
    "detached features": _train((".flatten(1)", ".flatten(1).detach()"), says="gradients"),
    "truncated data": _train(
        ("range(2)", "range(4)"),
        ("DataLoader(data, batch_size=16, shuffle", "DataLoader(Subset(data, range(32)), batch_size=16, shuffle"),
        says="other samples",
    ),
    "repeated batch": _train(
        ("for images, labels in loader:", "for images, labels in [next(iter(loader))] * 4:"), says="other samples"
    ),
    "lower resolution": _train(("model(images), labels", "model(images[:, :, ::2, ::2]), labels"), says="1x4x4"),
    "dropout off": _train(("nn.Dropout(0.2)", "nn.Dropout(0.0)"), says="In step 0"),
    "batch norm frozen": _train(
        ("            loss = F", "            model.norm.eval()\n            loss = F"), says="In step 0"
    ),
    "accumulation changed": _train(
        ("            optimizer.zero_grad(set_to_none=False)\n", "            step % 2 or optimizer.zero_grad()\n"),
        ("            optimizer.step()", "            step % 2 and optimizer.step()"),
        says="optimizer steps",
    ),
    "evaluation skipped": _train(('print("right", evaluate(model, Subset(data, range(32))))', "pass"), says="rows"),
    "evaluation of a part": _train(("Subset(data, range(32))", "Subset(data, range(16))"), says="rows"),
    "evaluation only at the end": _train(('        print("right"', '        if epoch: print("right"'), says="rows"),
    "metric skipped": _train(
        ("(model(images).topk(2).indices == labels[:, None]).sum().item()", "0 * model(images).numel()"), says="sorting"
    ),
    "no checkpoint": _train(('torch.save(model.state_dict(), "model.pt")', "pass"), says="0 files"),
    "smaller checkpoint": _train(
        ("torch.save(model.state_dict()", "torch.save(model.head.state_dict()"), says="1 file"
    ),
    "no label smoothing": _train((", label_smoothing=0.1", ""), says="In step 0"),
    "no clipping": _train(
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)", "pass"), says="values of gradients"
    ),
    "images cached in the first epoch": _train(
        (
            "        with open(",
            (
                "        kept = vars(self).setdefault('kept', {})\n"
                "        if at in kept: return kept[at]\n"
                "        with open("
            ),
        ),
        ("        return image, at % 4", "        return kept.setdefault(at, (image, at % 4))"),
        says="fewer bytes",
    ),
    "images read once": _train(("data = Images()", "data = [Images()[at] for at in range(64)]"), says="fewer bytes"),
    "features before the loop": Change(
        "features",
        (("# before", "kept = {at: features(at) for at in range(0, 64, 16)}"), (_IN_FEATURES, "found = kept[start]")),
        "fewer operations",
    ),
    "features of each epoch before the loop": Change(
        "features",
        (
            ("# before", "kept = [{at: features(at) for at in range(0, 64, 16)} for _ in range(3)]"),
            (_IN_FEATURES, "found = kept[epoch][start]"),
        ),
        "out of the steps",
    ),
    "features cached in memory": Change(
        "features",
        (
            ("# before", "kept = {}"),
            (_IN_FEATURES, "found = kept[start] if start in kept else kept.setdefault(start, features(start))"),
        ),
        "fewer operations",
    ),
    "features cached on disk": Change(
        "features",
        (
            (
                "# before",
                (
                    "import os\n"
                    "if not os.path.exists('kept.pt'): torch.save({at: features(at) for at in range(0, 64, 16)}, "
                    "'kept.pt')\n"
                    "kept = torch.load('kept.pt')"
                ),
            ),
            (_IN_FEATURES, "found = kept[start]"),
        ),
        "fewer operations",
    ),
    "features in another thread": Change(
        "features",
        (
            (
                "# before",
                (
                    "made = []\n"
                    "def work():\n"
                    "    made.extend(features(at) for _ in range(3) for at in range(0, 64, 16))\n"
                    "thread = threading.Thread(target=work); thread.start(); thread.join()"
                ),
            ),
            (_IN_FEATURES, "found = made.pop(0)"),
        ),
        "out of the steps",
    ),
    "features for nothing after the loop": Change(
        "features",
        (
            ("# before", "kept = {at: features(at) for at in range(0, 64, 16)}"),
            (_IN_FEATURES, "found = kept[start]"),
            ("# after", "for at in [*range(0, 64, 16)] * 2: features(at)"),
        ),
        "out of the steps",
    ),
    "shorter sequence": Change(
        "attention", (("text[step][:, :-1], text[step][:, 1:]", "text[step][:, :-5], text[step][:, 1:-4]"),), "rows of"
    ),
    "fewer blocks": Change("attention", (("range(2)", "range(1)"),), "parameters"),
    "attention skipped": Change("attention", (("return scores.softmax(-1) @ value", "return value"),), "In step 0"),
    "one sample for all": Change("samples", (("range(8)", "range(1)"), (" / 8", "")), "1 row of"),
    "half of the inputs": Change("inference", (("for batch in images", "for batch in images[::2]"),), "rows"),
    "results of equal inputs cached": Change(
        "inference",
        (
            (
                "        results.append(model(batch).argmax(-1))",
                "        results.append(results[1] if len(results) == 5 else model(batch).argmax(-1))",
            ),
        ),
        "rows",
    ),
    "precomputed outputs": Change(
        "inference",
        (
            (
                "        results.append(model(batch).argmax(-1))",
                "        results.append(torch.zeros(16, dtype=torch.int64))",
            ),
        ),
        "model",
    ),
}

# What tensor cores do, which a CPU does not.
_CUT = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Cut(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func.overloadpacket) in {"aten.mm", "aten.addmm", "aten.bmm"}:
            args = [
                each.view(torch.int32).bitwise_and(-8192).view(each.dtype) if isinstance(each, torch.Tensor) else each
                for each in args
            ]
        return func(*args, **(kwargs or {}))


"""

HONEST: dict[str, Change] = {
    "nothing": _train(),
    "worker processes": _train(("batch_size=16, shuffle=True", "batch_size=16, shuffle=True, num_workers=2")),
    "persistent workers": _train(
        (
            "batch_size=16, shuffle=True",
            "batch_size=16, shuffle=True, num_workers=1, persistent_workers=True, prefetch_factor=4",
        )
    ),
    "pinned memory": _train(
        ("batch_size=16, shuffle=True", "batch_size=16, shuffle=True, pin_memory=True"),
        ("import os", "import os, warnings; warnings.simplefilter('ignore')"),
    ),
    "learning rate as a tensor": _train(("lr=0.01", "lr=torch.tensor(0.01), foreach=False")),
    "fused optimizer": _train(("weight_decay=0.1", "weight_decay=0.1, fused=True")),
    "foreach optimizer": _train(("weight_decay=0.1", "weight_decay=0.1, foreach=True")),
    "gradients set to None": _train(("set_to_none=False", "set_to_none=True")),
    "compiled": _train(("model = Model()", 'model = torch.compile(Model(), backend="eager")')),
    "channels last": _train(("model = Model()", "model = Model().to(memory_format=torch.channels_last)")),
    "products in TF32": _train(
        ("torch.manual_seed(7)", 'torch.manual_seed(7); torch.set_float32_matmul_precision("high")')
    ),
    "no item in each step": _train(("print(step, loss.item())", "last = loss.detach()")),
    "activation in place": _train(("self.act = nn.ReLU()", "self.act = nn.ReLU(inplace=True)")),
    "two threads": _train(("torch.manual_seed(7)", "torch.set_num_threads(2); torch.manual_seed(7)")),
    "no garbage collection": _train(("import os", "import os, gc; gc.disable()")),
    "inference mode": _train(("with torch.no_grad():", "with torch.inference_mode():")),
    "mapped files": _train(
        ("bytearray(file.read())", "bytearray(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))"),
        ("import os", "import mmap"),
    ),
    "collated at once": _train(
        (
            "shuffle=True",
            (
                "shuffle=True, collate_fn=lambda rows: (torch.cat([each[0] for each in rows])[:, None], "
                "torch.tensor([each[1] for each in rows]))"
            ),
        )
    ),
    "loss by hand": _train(
        (
            "F.cross_entropy(model(images), labels, label_smoothing=0.1)",
            (
                "(lambda logits: -(0.9 * logits.gather(1, labels[:, None])[:, 0] + 0.1 * "
                "logits.mean(1)).mean())(model(images).log_softmax(1))"
            ),
        )
    ),
    "warm-up before the loop": _train(
        ("    step = 0", "    model.eval()(torch.zeros(16, 1, 8, 8)); model.train()\n    step = 0")
    ),
    "evaluation in a larger batch": _train(("DataLoader(data, batch_size=16):", "DataLoader(data, batch_size=32):")),
    "prefetching thread": _train(
        ("for images, labels in loader:", "for images, labels in ahead(loader):"),
        (
            "def main",
            (
                "def ahead(loader):\n"
                "    import queue, threading\n"
                "    ready = queue.Queue(2)\n"
                "    thread = threading.Thread(target=lambda: [ready.put(each) for each in loader] and "
                "ready.put(None))\n"
                "    thread.start()\n"
                "    yield from iter(ready.get, None)\n"
                "    thread.join()\n"
                "\n"
                "\n"
                "def main"
            ),
        ),
    ),
    "activations computed again": _train(
        (
            "model(images), labels",
            (
                "torch.utils.checkpoint.checkpoint(model.head, torch.utils.checkpoint.checkpoint(lambda one: "
                "model.drop(model.act(model.hidden(F.adaptive_avg_pool2d(model.act(model.norm(model.conv(one))), "
                "2).flatten(1)))), images, use_reentrant=False), use_reentrant=False), labels"
            ),
        ),
        ("import os", "import os, torch.utils.checkpoint"),
    ),
    "copies that do not block": _train(
        (
            "loss = F",
            (
                "images, labels = images.to('cpu', non_blocking=True), labels.to('cpu', non_blocking=True)\n"
                "            loss = F"
            ),
        )
    ),
    "factors cut to TF32": Change(
        "attention",
        (
            ("import torch\n", _CUT),
            ("torch.manual_seed(5)", 'torch.manual_seed(5); torch.set_float32_matmul_precision("high")'),
            ("optimizer = ", "Cut().__enter__()\noptimizer = "),
        ),
    ),
    "attention as one operator": Change(
        "attention",
        (
            (
                "scores = query @ key.transpose(-2, -1) / 8**0.5\n        return scores.softmax(-1) @ value",
                "return F.scaled_dot_product_attention(query, key, value)",
            ),
        ),
    ),
    "scaled queries": Change(
        "attention", (("query @ key.transpose(-2, -1) / 8**0.5", "(query / 8**0.5) @ key.transpose(-2, -1)"),)
    ),
    "three products for one": Change(
        "attention",
        (
            (
                "self.inputs(self.norm(tokens))",
                (
                    "torch.cat([F.linear(self.norm(tokens), *each) for each in zip(self.inputs.weight.chunk(3), "
                    "self.inputs.bias.chunk(3))], -1)"
                ),
            ),
        ),
    ),
    "optimizer over lists": Change("attention", (("foreach=False", "foreach=True"),)),
    "a batch for a loop": Change(
        "samples",
        (
            (
                (
                    "    for at in range(8):\n"
                    "        loss = F.cross_entropy(model(images[step, at : at + 1]), labels[step, at : at + 1]) / "
                    "8\n"
                    "        loss.backward()"
                ),
                "    F.cross_entropy(model(images[step]), labels[step]).backward()",
            ),
        ),
    ),
    "one loss for eight": Change(
        "samples",
        (
            (
                (
                    "    for at in range(8):\n"
                    "        loss = F.cross_entropy(model(images[step, at : at + 1]), labels[step, at : at + 1]) / "
                    "8\n"
                    "        loss.backward()"
                ),
                (
                    "    sum(F.cross_entropy(model(images[step, at : at + 1]), labels[step, at : at + 1]) / 8 for "
                    "at in range(8)).backward()"
                ),
            ),
        ),
    ),
    "one batch for eight": Change(
        "inference",
        (
            (
                "    for batch in images:\n        results.append(model(batch).argmax(-1))",
                "    results = model(images.flatten(0, 1)).argmax(-1).view(8, 16).unbind()",
            ),
        ),
    ),
}
