"""The objects of a program: optimizers, models and loaders, found in its first steps."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

# So many losses are kept, of the first steps.
MOST_LOSSES = 64


class TriedProgram:
    """What is known of a program, and what it does in its steps.

    Args:
        torch: The module, completely imported.
        with_precision: Whether the user allows changes of the precision of the model.

    Attributes:
        torch: The module.
        with_precision: Whether changes of precision may be made.
        optimizers: Those that have stepped, the first one first.
        models: The modules with parameters that the loop itself calls.
        loaders: The loaders that the loop has iterated over.
        losses: Losses of the first steps, as tensors.
        keeps_gradients: Whether a call has set gradients to zero instead of None.
        is_new_epoch: Whether a loader has begun since this was set to False.
        kept: What experiments keep between two turns.
    """

    def __init__(self, torch: Any, *, with_precision: bool = False) -> None:
        self.torch, self.with_precision = torch, with_precision
        self.optimizers: list[Any] = []
        self.models: list[Any] = []
        self.loaders: list[Any] = []
        self.losses: list[Any] = []
        self.keeps_gradients = self.is_new_epoch = False
        self.kept: dict[Any, Any] = {}
        self._depth = 0
        self._undo: list[Callable[[], object]] = []

    @property
    def uses_gpu(self) -> bool:
        """Return whether the program uses a GPU."""
        return bool(self.torch.cuda.is_available() and self.torch.cuda.is_initialized())

    @property
    def cores(self) -> int:
        """Return the number of cores that this process may use."""
        return len(os.sched_getaffinity(0))

    def modules(self) -> list[Any]:
        """Return all modules of the models."""
        return [each for model in self.models for each in model.modules()]

    def observe(self) -> None:
        """Watch the program until ``leave``: what it calls is noted, and nothing is changed."""
        torch, modules = self.torch, self.torch.nn.modules.module
        hooks = (
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._exit, always_call=True),
        )
        self._undo += [each.remove for each in hooks]
        self._wrap(torch.optim.Optimizer, "zero_grad", self._zeroed)
        self._wrap(torch.nn.Module, "zero_grad", self._zeroed)

    def watch_for_good(self) -> None:
        """Note optimizers that step, loaders that begin, and the losses of the first steps."""
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(self._stepped)
        self._wrap(self.torch.utils.data.DataLoader, "__iter__", self._began)
        self._wrap(self.torch.autograd, "backward", self._differentiated)

    def leave(self) -> None:
        """End what ``observe`` began."""
        while self._undo:
            self._undo.pop()()

    def _wrap(self, owner: Any, name: str, note: Callable[..., object]) -> None:
        """Call a function with the arguments of each call of another one, before it."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def noted(*arguments: Any, **named: Any) -> Any:
            note(*arguments, **named)
            return inner(*arguments, **named)

        setattr(owner, name, noted)
        self._undo.append(lambda: setattr(owner, name, inner))

    def _enter(self, module: Any, _arguments: Any) -> None:
        if (
            not self._depth
            and not any(each is module for each in self.models)
            and any(True for _ in module.parameters())
        ):
            self.models.append(module)
        self._depth += 1

    def _exit(self, _module: Any, _arguments: Any, _output: Any) -> None:
        self._depth -= 1

    def _stepped(self, optimizer: Any, _arguments: Any, _named: Any) -> None:
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)

    def _zeroed(self, _owner: Any, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        self.keeps_gradients |= not set_to_none

    def _began(self, loader: Any) -> None:
        self.is_new_epoch = True
        if not any(each is loader for each in self.loaders):
            self.loaders.append(loader)

    def _differentiated(self, tensors: Any, *_rest: Any, **_named: Any) -> None:
        """Keep the value of a loss; it is copied, since the program may change it."""
        if len(self.losses) < MOST_LOSSES and isinstance(tensors, self.torch.Tensor) and tensors.numel() == 1:
            self.losses.append(tensors.detach().clone())
