"""ResNet-18, -34 and -50: He et al., "Deep residual learning for image recognition" (CVPR 2016), as in torchvision.

ResNet-50 is torchvision's "v1.5": the 3×3 convolution of a bottleneck takes the stride.
"""

from __future__ import annotations

from ..graph import Graph, GraphBuilder, Tensor
from ._layers import batch_normed, convolved
from ._network import network

__all__ = ["resnet18", "resnet34", "resnet50"]


class _ResNet:
    """Builds convolutions and batch normalizations with named weights."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.b = builder

    def conv(self, x: Tensor, filters: int, kernel: int, stride: int, name: str) -> Tensor:
        return convolved(self.b, x, filters, kernel, stride, name)

    def norm(self, x: Tensor, name: str, gain: float = 1.0) -> Tensor:
        """Normalizes a batch; the last norm of a block has a small `gain`, so that sums over many blocks stay small."""
        return batch_normed(self.b, x, name, 0.1 * gain, gain)

    def relu(self, x: Tensor, name: str) -> Tensor:
        return self.b.apply("relu", x, name=name)

    def shortcut(self, x: Tensor, filters: int, stride: int, name: str) -> Tensor:
        if stride == 1 and x.shape[1] == filters:
            return x
        return self.norm(self.conv(x, filters, 1, stride, f"{name}.downsample.0"), f"{name}.downsample.1")

    def basic(self, x: Tensor, width: int, stride: int, name: str) -> Tensor:
        y = self.norm(self.conv(x, width, 3, stride, f"{name}.conv1"), f"{name}.bn1")
        y = self.conv(self.relu(y, f"{name}.relu1"), width, 3, 1, f"{name}.conv2")
        y = self.norm(y, f"{name}.bn2", gain=0.5)
        total = self.b.apply("add", y, self.shortcut(x, width, stride, name), name=f"{name}.add")
        return self.relu(total, f"{name}.relu2")

    def bottleneck(self, x: Tensor, width: int, stride: int, name: str) -> Tensor:
        y = self.norm(self.conv(x, width, 1, 1, f"{name}.conv1"), f"{name}.bn1")
        y = self.norm(self.conv(self.relu(y, f"{name}.relu1"), width, 3, stride, f"{name}.conv2"), f"{name}.bn2")
        y = self.conv(self.relu(y, f"{name}.relu2"), 4 * width, 1, 1, f"{name}.conv3")
        y = self.norm(y, f"{name}.bn3", gain=0.5)
        total = self.b.apply("add", y, self.shortcut(x, 4 * width, stride, name), name=f"{name}.add")
        return self.relu(total, f"{name}.relu3")


def _resnet(name: str, depths: tuple[int, ...], bottleneck: bool, batch: int, image: int, dtype: str) -> Graph:
    b = GraphBuilder(name, dtype=dtype)
    net = _ResNet(b)
    x = b.input("x", (batch, 3, image, image))
    x = net.relu(net.norm(net.conv(x, 64, 7, 2, "conv1"), "bn1"), "relu")
    x = b.pool2d(x, 3, stride=2, padding=1, name="maxpool")
    block = net.bottleneck if bottleneck else net.basic
    for stage, depth in enumerate(depths):
        for i in range(depth):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(x, 64 << stage, stride, f"layer{stage + 1}.{i}")
    x = b.op("reduce", x, name="avgpool", combiner="mean", dims=[2, 3])
    b.output(b.linear(x, 1000, name="fc"), "logits")
    return b.build()


@network
def resnet18(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """ResNet-18, 11,689,512 parameters: input x [batch, 3, image, image], output logits [batch, 1000]."""
    return _resnet("resnet18", (2, 2, 2, 2), False, batch, image, dtype)


@network
def resnet34(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """ResNet-34, 21,797,672 parameters: input x [batch, 3, image, image], output logits [batch, 1000]."""
    return _resnet("resnet34", (3, 4, 6, 3), False, batch, image, dtype)


@network
def resnet50(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """ResNet-50, 25,557,032 parameters: input x [batch, 3, image, image], output logits [batch, 1000]."""
    return _resnet("resnet50", (3, 4, 6, 3), True, batch, image, dtype)
