"""A training step of a ResNet as one graph with a sharded batch: forward pass, backward pass, update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import unknown
from ..graph import Graph, GraphBuilder, Tensor
from ..graph.gradient import gradient
from .llama_training import written

__all__ = ["RESNETS", "resnet_training_step"]

#: blocks of the four stages, and whether they are bottlenecks (He et al., CVPR 2016; the 3 × 3 takes the stride)
RESNETS = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet200": ((3, 24, 36, 3), True),
}
_POOL: dict[str, Any] = {"window": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "pads": [0, 0, 1, 1, 1, 1, 0, 0]}


def resnet_training_step(name: str, devices: int, images: int = 256, image: int = 224, dtype: str = "f16") -> Graph:
    """The step as JAX runs it: f32 weights and statistics (of the whole batch), f16 products, SGD with momentum."""
    if name not in RESNETS:
        raise unknown("model", name, RESNETS, place="model")
    return _ResNetStep(name, devices, images, image, dtype).build()


class _ResNetStep:
    def __init__(self, name: str, devices: int, images: int, image: int, dtype: str) -> None:
        self.depths, self.bottleneck = RESNETS[name]
        self.name, self.devices, self.batch = name, devices, devices * images
        self.image, self.dtype = image, dtype
        self.b = GraphBuilder(name, dtype=dtype)
        self.weights: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}
        self.pieces: dict[str, Graph] = {}
        self.tape: list[tuple[str, dict[str, Tensor], Tensor, tuple[int, int]]] = []

    def build(self) -> Graph:
        b = self.b
        images = b.input("images", (self.batch, self.image, self.image, 3))
        labels = b.input("labels", (self.batch,), "i32")
        x = self.normed(self.conv(images, 64, 7, 2, "stem"), "stem")
        x = self.pool(x)
        for stage, count in enumerate(self.depths):
            for block in range(count):
                x = self.block(x, 64 << stage, 2 if stage and not block else 1, f"stage{stage}.{block}")
        self.backward(*self.head(x, labels))
        for name, weight in self.weights.items():
            momentum = b.input(f"{name}.momentum", weight.shape, "f32")
            new = momentum * 0.9 + self.gradients[name].convert("f32")
            b.output(weight - new * 0.1, f"new.{name}")
            b.output(new, f"new.{name}.momentum")
        divided = {"images": '[{"d"}, {}, {}, {}]', "labels": '[{"d"}]'} if self.devices > 1 else {}
        graph = b.build(shardings=divided, mesh={"d": self.devices}) if divided else b.build()
        graph.core.merge_common_subexpressions()
        graph.core.remove_dead_code()
        return graph

    def weight(self, name: str, *shape: int) -> Tensor:
        self.weights[name] = self.b.input(name, shape, "f32")
        return self.weights[name]

    # forward pass: each part records the tensors that its gradient reads

    def conv(self, x: Tensor, filters: int, kernel: int, stride: int, name: str) -> Tensor:
        w = self.weight(f"{name}.w", kernel, kernel, x.shape[-1], filters).convert(self.dtype)
        y: Tensor = self.b.op("convolution", x, w, x_labels="NHWC", w_labels="HWIO", y_labels="NHWC",
                              strides=[stride, stride], pads=[kernel // 2] * 4)  # fmt: skip
        self.tape.append((f"conv {name}", {"x": x, "w": w}, y, (kernel, stride)))
        return y

    def normed(self, x: Tensor, name: str, kind: str = "norm_relu", other: Tensor | None = None) -> Tensor:
        channels = x.shape[-1]
        given = {"x": x, "scale": self.weight(f"{name}.scale", channels), "bias": self.weight(f"{name}.bias", channels)}
        if other is not None:
            given["other"] = other
        y = written(self.b, self.piece(kind, given), {**given, "d.y": x})["y"]
        self.tape.append((f"{kind} {name}", given, y, (0, 0)))
        return y

    def pool(self, x: Tensor) -> Tensor:
        y: Tensor = self.b.op("window_reduce", x, combiner="maximum", **_POOL)
        self.tape.append(("pool", {"x": x}, y, (0, 0)))
        return y

    def block(self, x: Tensor, width: int, stride: int, name: str) -> Tensor:
        last = width * 4 if self.bottleneck else width
        if self.bottleneck:
            y = self.normed(self.conv(x, width, 1, 1, f"{name}.a"), f"{name}.a")
            y = self.normed(self.conv(y, width, 3, stride, f"{name}.b"), f"{name}.b")
            y = self.conv(y, last, 1, 1, f"{name}.c")
        else:
            y = self.normed(self.conv(x, width, 3, stride, f"{name}.a"), f"{name}.a")
            y = self.conv(y, last, 3, 1, f"{name}.c")
        if stride > 1 or x.shape[-1] != last:
            x = self.normed(self.conv(x, last, 1, stride, f"{name}.d"), f"{name}.d", "norm")
        return self.normed(y, f"{name}.c", "norm_add_relu", x)

    def head(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the last layer, and the gradient of the mean cross entropy by its result."""
        b, w = self.b, self.weight("head.w", x.shape[-1], 1000)
        pooled = x.convert("f32").mean([1, 2]).convert(self.dtype)
        logits = (pooled @ w.convert(self.dtype)).convert("f32")
        top = logits.max(-1, keep_dims=True)
        part = b.apply("exp", logits - top)
        numbers = b.op("iota", shape=[self.batch, 1000], dim=1, dtype="i32")
        chosen = b.apply("equal", numbers, b.broadcast(labels.reshape(self.batch, 1), (self.batch, 1000)))
        total = part.sum(-1, keep_dims=True)
        error = part / total - chosen.convert("f32")
        own = (logits * chosen.convert("f32")).sum(-1, keep_dims=True)
        b.output((b.apply("log", total) + top - own).sum([0, 1]) / float(self.batch), "loss")
        grad = (error / float(self.batch)).convert(self.dtype)
        contract: dict[str, Any] = {"a_batch": [], "b_batch": []}
        self.gradients["head.w"] = b.op("contract", pooled, grad, a_contract=[0], b_contract=[0], **contract)
        back = b.op("contract", grad, w.convert(self.dtype), a_contract=[1], b_contract=[1], **contract)
        spread = back.reshape(self.batch, 1, 1, x.shape[-1]) * (1.0 / (x.shape[1] * x.shape[2]))
        return x, b.broadcast(spread, x.shape)

    # pieces between convolutions

    def piece(self, kind: str, inputs: Mapping[str, Tensor]) -> Graph:
        key = f"{kind} {inputs['x'].shape}"
        if key not in self.pieces:
            b = GraphBuilder(kind, dtype=self.dtype)
            given = {name: b.input(name, value.shape, value.dtype) for name, value in inputs.items()}
            wide = given["x"].convert("f32")
            mean, square = wide.mean([0, 1, 2]), (wide * wide).mean([0, 1, 2])
            factor = b.apply("rsqrt", square - mean * mean + 1e-5) * given["scale"]
            y = ((wide - mean) * factor + given["bias"]).convert(self.dtype)
            y = y + given["other"] if "other" in given else y
            b.output(b.apply("relu", y) if kind.endswith("relu") else y, "y")
            self.pieces[key] = gradient(b.build(), "y", list(inputs))
        return self.pieces[key]

    def backward(self, result: Tensor, grad: Tensor) -> None:
        """Writes gradients from the last part on the tape to the first."""
        by = {result.value: grad}
        for label, given, made, (kernel, stride) in reversed(self.tape):
            kind, _, name = label.partition(" ")
            own = by.pop(made.value)
            if kind == "conv":
                self.gradients[f"{name}.w"] = self.by_filter(given["x"], own, kernel, stride)
                found = {} if name == "stem" else {"x": self.by_image(given["x"], given["w"], own, kernel, stride)}
            elif kind == "pool":
                found = {"x": self.b.op("window_scatter", given["x"], own, select="maximum", **_POOL)}
            else:
                all_ = written(self.b, self.piece(kind, given), {**given, "d.y": own})
                found = {key: all_[f"d.{key}"] for key in given if key in ("x", "other")}
                self.gradients |= {f"{name}.{key}": all_[f"d.{key}"] for key in ("scale", "bias")}
            for key, value in found.items():
                number = given[key].value
                by[number] = by[number] + value if number in by else value

    def by_filter(self, x: Tensor, grad: Tensor, kernel: int, stride: int) -> Tensor:
        high = (grad.shape[1] - 1) * stride + kernel - x.shape[1] - kernel // 2
        found: Tensor = self.b.op(
            "convolution", x, grad, x_labels="CHWN", w_labels="IHWO", y_labels="HWNC", window_dilation=[stride, stride],
            pads=[kernel // 2, high, kernel // 2, high],
        )  # fmt: skip
        return found

    def by_image(self, x: Tensor, w: Tensor, grad: Tensor, kernel: int, stride: int) -> Tensor:
        low = kernel - 1 - kernel // 2
        high = x.shape[1] - ((grad.shape[1] - 1) * stride + 1) + kernel - 1 - low
        spread: dict[str, Any] = {"input_dilation": [stride, stride]} if stride > 1 else {}
        found: Tensor = self.b.op(
            "convolution", grad, self.b.op("reverse", w, dims=[0, 1]), x_labels="NHWC", w_labels="HWOI",
            y_labels="NHWC", pads=[low, high, low, high], **spread,
        )  # fmt: skip
        return found
