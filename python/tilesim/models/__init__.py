"""Networks with their published shapes and parameter counts, and random weights.

Weights carry the names of the usual PyTorch implementation (torchvision, Hugging Face), so that a trained state can be
loaded by name. They are made when something reads them: timing never does.
"""

from ..base.lazy import lazy, listed

TYPE_CHECKING = False  # as of typing, which takes time to import

if TYPE_CHECKING:
    from .building import build, names, table
    from .clip import clip_vit_b_32
    from .decoder import deepseek_moe_16b, llama_3_8b, llama_3_70b, mistral_7b, mixtral_8x7b, qwen2_5_1_5b
    from .deepseek import deepseek_v3
    from .dit import dit_xl_2
    from .dlrm import dlrm_mlperf
    from .llama4 import llama_4_scout
    from .mamba import mamba_2_8b
    from .perceptron import mlp
    from .resnet import resnet18, resnet34, resnet50
    from .transformer import bert_base, bert_large, gpt2
    from .unet import stable_diffusion_1_5_unet
    from .vision import mobilenet_v2, vgg16
    from .vit import vit_b_16

__all__ = [
    "bert_base",
    "bert_large",
    "build",
    "clip_vit_b_32",
    "deepseek_moe_16b",
    "deepseek_v3",
    "dit_xl_2",
    "dlrm_mlperf",
    "gpt2",
    "llama_3_8b",
    "llama_3_70b",
    "llama_4_scout",
    "mamba_2_8b",
    "mistral_7b",
    "mixtral_8x7b",
    "mlp",
    "mobilenet_v2",
    "names",
    "qwen2_5_1_5b",
    "resnet18",
    "resnet34",
    "resnet50",
    "stable_diffusion_1_5_unet",
    "table",
    "vgg16",
    "vit_b_16",
]

_NAMES = {
    ".building": ("build", "names", "table"),
    ".clip": ("clip_vit_b_32",),
    ".decoder": ("deepseek_moe_16b", "llama_3_8b", "llama_3_70b", "mistral_7b", "mixtral_8x7b", "qwen2_5_1_5b"),
    ".deepseek": ("deepseek_v3",),
    ".dit": ("dit_xl_2",),
    ".dlrm": ("dlrm_mlperf",),
    ".llama4": ("llama_4_scout",),
    ".mamba": ("mamba_2_8b",),
    ".perceptron": ("mlp",),
    ".resnet": ("resnet18", "resnet34", "resnet50"),
    ".transformer": ("bert_base", "bert_large", "gpt2"),
    ".unet": ("stable_diffusion_1_5_unet",),
    ".vision": ("mobilenet_v2", "vgg16"),
    ".vit": ("vit_b_16",),
}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__name__, __all__)
