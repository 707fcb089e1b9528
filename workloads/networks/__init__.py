"""Networks for images, as first published, with sizes for the number of classes and pixels.

Each takes images float32 [n, channels, side, side] and gives scores [n, classes].
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 1000
# Channels of the blocks of VGG16, and how many convolutions each has.
VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
# Bottlenecks of each stage of ResNet50.
RESNET50 = (3, 4, 6, 3)


def mlp(classes: int = CLASSES, side: int = 32) -> nn.Module:
    """Return three linear layers over all pixels of an image with three channels."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(3 * side * side, 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes)),
    )


def lenet(classes: int = CLASSES, side: int = 32) -> nn.Module:
    """Return LeNet-5 (LeCun et al., 1998), with maxima and ReLU, for three channels."""
    left = (side - 4) // 2
    left = (left - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * left * left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, classes),
    )


def alexnet(classes: int = CLASSES, side: int = 224) -> nn.Module:
    """Return AlexNet in the form for one GPU (Krizhevsky, 2014)."""
    del side  # the pooling before the linear layers takes any
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(6)),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, classes)),
    )


def vgg16(classes: int = CLASSES, side: int = 224) -> nn.Module:
    """Return VGG16 (Simonyan and Zisserman, 2015)."""
    del side
    parts: list[nn.Module] = []
    channels = 3
    for width, count in VGG16:
        for _ in range(count):
            parts += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        parts.append(nn.MaxPool2d(2))
    parts += [nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout()]
    return nn.Sequential(*parts, nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, classes))


class Bottleneck(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Three convolutions, each normalised, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        """Take the input channels, the middle channels (a quarter of the output channels), and the stride."""
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Return the sum of body and shortcut after ReLU."""
        return functional.relu(self.body(images) + self.shortcut(images))


def resnet50(classes: int = CLASSES, side: int = 224) -> nn.Module:
    """Return ResNet50 (He et al., 2016), with the stride in the 3x3 convolutions."""
    del side
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    parts.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, count in enumerate(RESNET50):
        width = 64 << stage
        for number in range(count):
            parts.append(Bottleneck(channels, width, 2 if stage and not number else 1))
            channels = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def cifar_cnn(classes: int = 10, side: int = 32) -> nn.Module:
    """Return six convolutions in three blocks, and two linear layers."""
    parts: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 128):
        parts += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
        parts += [nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    left = side // 8
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(128 * left * left, 128), nn.ReLU(), nn.Linear(128, classes))


# Each network, and the side of the images that it is made for.
NETWORKS: dict[str, tuple[Callable[[int, int], nn.Module], int]] = {
    "mlp": (mlp, 32),
    "lenet": (lenet, 32),
    "alexnet": (alexnet, 224),
    "vgg16": (vgg16, 224),
    "resnet50": (resnet50, 224),
}


def full_precision() -> None:
    """Disable TF32 in all products of float32; PyTorch allows it in convolutions by default."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
