"""Jaxator: expert kernels in JAX as custom calls, with gradients, batching and sharding.

import jaxator as jxt
y = jxt.rms_norm(x, weight)
"""

from jaxator._errors import UnsupportedError
from jaxator._export import export_checks
from jaxator._targets import target
from jaxator.attention import dot_product_attention, flax_attention, merge_attention
from jaxator.call_kernel import call_kernel
from jaxator.explain import explain
from jaxator.layer_norm import layer_norm
from jaxator.matmul import matmul
from jaxator.rms_norm import add_rms_norm, rms_norm
from jaxator.rope import rope
from jaxator.swiglu import swiglu

__version__ = "0.1.0"

__all__ = [
    "UnsupportedError",
    "add_rms_norm",
    "call_kernel",
    "dot_product_attention",
    "explain",
    "export_checks",
    "flax_attention",
    "layer_norm",
    "matmul",
    "merge_attention",
    "rms_norm",
    "rope",
    "swiglu",
    "target",
]
