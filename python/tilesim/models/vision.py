"""VGG-16 (Simonyan, Zisserman, ICLR 2015) and MobileNetV2 (Sandler et al., CVPR 2018), as in torchvision."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..base.errors import shown, user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import batch_normed, convolved
from ._network import network

__all__ = ["mobilenet_v2", "vgg", "vgg16"]

_VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
#: expansion, channels, blocks, stride of the first block (table 2 of the paper)
_MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@network
def vgg16(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """VGG-16, 138,357,544 parameters: input x [batch, 3, image, image], output logits [batch, 1000].

    The image is a multiple of 224: the last maps are averaged to 7×7.
    """
    return vgg("vgg16", _VGG16, 4096, 1000, batch, image, dtype)


@network
def vgg(
    name: str,
    stages: Sequence[Sequence[int]],
    hidden: int,
    classes: int,
    batch: int = 1,
    image: int = 224,
    dtype: str = "f32",
) -> Graph:
    """Stages of 3×3 convolutions, each followed by a maximum over 2×2, then three linear layers."""
    if image < 224 or image % 224:
        raise user_error(
            "the last maps are averaged to 7×7", place=f"model '{name}'", value=shown(image), allowed="multiples of 224"
        )
    b = GraphBuilder(name, dtype=dtype)
    x = b.input("x", (batch, 3, image, image))
    index = 0
    for stage in stages:
        for filters in stage:
            part = f"features.{index}"
            w = b.weight(f"{part}.weight", (filters, x.shape[1], 3, 3), scale=math.sqrt(6 / (9 * x.shape[1])))
            x = b.conv2d(x, w, b.weight(f"{part}.bias", (filters,)), padding=1, name=part)
            x = b.apply("relu", x, name=f"features.{index + 1}")
            index += 2
        x = b.pool2d(x, 2, name=f"features.{index}")
        index += 1
    if image > 224:
        x = b.pool2d(x, image // 224, combiner="add", name="avgpool") * (224 / image) ** 2
    x = x.reshape(batch, x.shape[1] * 49)
    for layer, features in ((0, hidden), (3, hidden), (6, classes)):
        x = b.linear(x, features, name=f"classifier.{layer}")
        x = b.apply("relu", x, name=f"classifier.{layer + 1}") if layer < 6 else x
    b.output(x, "logits")
    return b.build()


class _MobileNet:
    def __init__(self, builder: GraphBuilder) -> None:
        self.b = builder

    def conv(self, x: Tensor, filters: int, kernel: int, stride: int, name: str, norm: str, groups: int = 1) -> Tensor:
        return batch_normed(self.b, convolved(self.b, x, filters, kernel, stride, name, groups), norm, 0.1, 0.7)

    def relu6(self, x: Tensor, name: str) -> Tensor:
        scalar = self.b.scalar
        return self.b.apply("clamp", scalar(0, x.dtype), x, scalar(6, x.dtype), name=name)

    def block(self, x: Tensor, filters: int, stride: int, expansion: int, name: str) -> Tensor:
        """Expands by 1×1, convolves 3×3 per channel, and projects by 1×1; adds the input if the shape stays."""
        hidden, y, step = x.shape[1] * expansion, x, 0
        if expansion > 1:
            y = self.relu6(self.conv(y, hidden, 1, 1, f"{name}.conv.0.0", f"{name}.conv.0.1"), f"{name}.conv.0.2")
            step = 1
        part = f"{name}.conv.{step}"
        y = self.relu6(self.conv(y, hidden, 3, stride, f"{part}.0", f"{part}.1", groups=hidden), f"{part}.2")
        y = self.conv(y, filters, 1, 1, f"{name}.conv.{step + 1}", f"{name}.conv.{step + 2}")
        return self.b.apply("add", x, y, name=f"{name}.add") if stride == 1 and x.shape[1] == filters else y


@network
def mobilenet_v2(batch: int = 1, image: int = 224, dtype: str = "f32") -> Graph:
    """MobileNetV2 of width 1.0, 3,504,872 parameters: input x [batch, 3, image, image], output logits [batch, 1000]."""
    b = GraphBuilder("mobilenet-v2", dtype=dtype)
    net = _MobileNet(b)
    x = b.input("x", (batch, 3, image, image))
    x = net.relu6(net.conv(x, 32, 3, 2, "features.0.0", "features.0.1"), "features.0.2")
    index = 1
    for expansion, filters, blocks, stride in _MOBILENET_V2:
        for i in range(blocks):
            x = net.block(x, filters, stride if i == 0 else 1, expansion, f"features.{index}")
            index += 1
    last = f"features.{index}"
    x = net.relu6(net.conv(x, 1280, 1, 1, f"{last}.0", f"{last}.1"), f"{last}.2")
    x = b.op("reduce", x, name="avgpool", combiner="mean", dims=[2, 3])
    b.output(b.linear(x, 1000, name="classifier.1"), "logits")
    return b.build()
