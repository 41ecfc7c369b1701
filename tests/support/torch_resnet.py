"""ResNet-18 and -50 (He et al., CVPR 2016) in torch, with the names and strides of the common implementation."""

from typing import Any

from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sizes = [(inputs, width, 1), (width, width, 3), (width, outputs, 1)] if bottleneck else [
            (inputs, width, 3), (width, width, 3)
        ]  # fmt: skip
        strided = 1 if bottleneck else 0
        for i, (a, b, kernel) in enumerate(sizes):
            conv = nn.Conv2d(a, b, kernel, stride if i == strided else 1, kernel // 2, bias=False)
            self.add_module(f"conv{i + 1}", conv)
            self.add_module(f"bn{i + 1}", nn.BatchNorm2d(b))
        self.depth = len(sizes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: Any = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = self.relu(y) if i < self.depth else y
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet(layers: int) -> nn.Module:
    """18, 34 or 50 layers, 1000 classes."""
    bottleneck = layers == 50
    depths = (2, 2, 2, 2) if layers == 18 else (3, 4, 6, 3)
    stages, inputs = [], 64
    for stage, depth in enumerate(depths):
        width, blocks = 64 << stage, []
        for i in range(depth):
            blocks.append(Block(inputs, width, 2 if stage and i == 0 else 1, bottleneck))
            inputs = 4 * width if bottleneck else width
        stages.append((f"layer{stage + 1}", nn.Sequential(*blocks)))
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(3, 64, 7, 2, 3, bias=False))
    net.add_module("bn1", nn.BatchNorm2d(64))
    net.add_module("relu", nn.ReLU(inplace=True))
    net.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    for name, module in stages:
        net.add_module(name, module)
    net.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc", nn.Linear(inputs, 1000))
    return net
