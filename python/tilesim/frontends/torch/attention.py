"""Builds scaled_dot_product_attention: recognises constant masks and removes repeated key heads."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...graph.tensor import Tensor
from .importing import Importer
from .shape import axis
from .table import handles

_VIEWS = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
_COPIES = ("aten.clone.default", "aten.contiguous.default")


def _repeated_from(importer: Importer, node: Any) -> Any:
    """Returns the node k of view(clone(expand(unsqueeze(k, 2)))), which repeats heads; None for other nodes."""
    chain = node
    if not isinstance(chain, torch.fx.Node) or str(chain.target) not in _VIEWS:
        return None
    chain = chain.args[0]
    while str(chain.target) in _COPIES:
        chain = chain.args[0]
    if str(chain.target) != "aten.expand.default":
        return None
    wide, chain = chain.meta["val"].shape, chain.args[0]
    if str(chain.target) != "aten.unsqueeze.default" or len(wide) != 5 or axis(chain.args[1], 5) != 2:
        return None
    shape, before = node.meta["val"].shape, chain.args[0].meta["val"].shape
    merged = [wide[0], wide[1] * wide[2], wide[3], wide[4]]
    only_heads = list(before[1:]) == [wide[1], wide[3], wide[4]] and before[0] in (1, wide[0])
    return chain.args[0] if list(shape) == merged and only_heads else None


def causal_offset(keep: Any) -> int | None:
    """Finds the offset o for which the mask [S, T] keeps exactly t <= s + o; returns None for other masks."""
    rows, columns = keep.shape
    offset = int(keep[0].sum()) - 1
    limit = torch.arange(rows).reshape(-1, 1) + offset
    wanted = torch.arange(columns).reshape(1, -1) <= limit
    return offset if bool((keep == wanted).all()) else None


def _constant_mask(mask: Any) -> tuple[bool, int | None]:
    """Returns whether a constant mask hides or biases any score, and its causal offset or None."""
    keep = mask if mask.dtype == torch.bool else mask == 0
    if mask.dtype != torch.bool and not bool((keep | (mask <= torch.finfo(mask.dtype).min)).all()):
        return True, None  # the mask is a bias of the scores
    if bool(keep.all()):
        return False, None
    planes = keep.reshape(-1, *keep.shape[-2:])
    if keep.ndim < 2 or not bool((planes == planes[:1]).all()):
        return True, None
    offset = causal_offset(planes[0])
    return True, offset if offset is not None and offset >= 0 else None


@handles("aten.scaled_dot_product_attention.default")
def _attention(
    importer: Importer,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout > 0:
        raise importer.unsupported("dropout in attention draws random numbers", suggestion="Call module.eval()")
    settings: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
    if causal:
        settings.update(causal=True, causal_offset=0)
    query, key, value = importer.tensor(q), importer.tensor(k), importer.tensor(v)
    before_k, before_v = (_repeated_from(importer, importer.source_of(i)) for i in (1, 2))
    if before_k in importer.values and before_v in importer.values:
        key, value = importer.tensor(importer.value(before_k)), importer.tensor(importer.value(before_v))
    if isinstance(mask, torch.Tensor):
        hides, offset = _constant_mask(mask)
        if not hides:
            mask = None
        elif (
            offset is not None and not causal and query.shape[-2] == mask.shape[-2] and mask.shape[-1] == key.shape[-2]
        ):
            mask = None
            settings.update(causal=True, causal_offset=offset)
    query, key, value = _same_batches(importer, query, key, value)
    lead = query.shape[:-2]
    operands = [_four(tensor) for tensor in (query, key, value)]
    if mask is not None:
        added = importer.tensor(mask)
        operands.append(_four(added) if added.ndim > 4 or len(lead) > 2 else added)
    if len(lead) > 2 and mask is not None and operands[3].shape[0] not in (1, operands[0].shape[0]):
        raise importer.unsupported("a mask that broadcasts over several batch axes")
    result: Tensor = importer.op("attention", *operands, **settings)
    return result.reshape(*lead, *result.shape[-2:]) if len(lead) != 2 else result


def _same_batches(importer: Importer, *operands: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Broadcasts the batch axes of q, k and v, but not the number of key heads."""
    rank = max(tensor.ndim for tensor in operands)
    lead = [(1,) * (rank - tensor.ndim) + tuple(tensor.shape[:-2]) for tensor in operands]
    wide = [max(sizes) for sizes in zip(*lead, strict=True)]
    result = []
    for index, (tensor, own) in enumerate(zip(operands, lead, strict=True)):
        shape = list(wide)
        if rank > 3 and index > 0:
            shape[-1] = max(lead[1][-1], lead[2][-1])
        elif rank > 3 and own[-1] > 1:
            shape[-1] = own[-1]
        same = (*shape, *tensor.shape[-2:])
        result.append(tensor if tuple(tensor.shape) == same else importer.builder.broadcast(tensor, same))
    return result[0], result[1], result[2]


def _four(tensor: Tensor) -> Tensor:
    """Reshapes [..., H, S, D] to [B, H, S, D]; [B, S, D] gets one head."""
    if tensor.ndim == 4:
        return tensor
    if tensor.ndim == 3:
        return tensor.reshape(tensor.shape[0], 1, *tensor.shape[1:])
    if tensor.ndim == 2:
        return tensor.reshape(1, 1, *tensor.shape)
    return tensor.reshape(math.prod(tensor.shape[:-3]), *tensor.shape[-3:])


@handles(
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_flash_attention.default",
)
def _flash_attention(
    importer: Importer, q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, *_: Any, **more: Any
) -> tuple[Any, ...]:
    """Builds attention in the form that AOTAutograd emits; supports only its first result."""
    out = _attention(importer, q, k, v, more.get("attn_mask"), dropout, causal, more.get("scale"))
    return (out, *[None] * 8)


@handles("aten._scaled_dot_product_efficient_attention.default")
def _efficient_attention(
    importer: Importer,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    _: bool,
    dropout: float = 0.0,
    causal: bool = False,
    **more: Any,
) -> tuple[Any, ...]:
    return _attention(importer, q, k, v, bias, dropout, causal, more.get("scale")), None, None, None
