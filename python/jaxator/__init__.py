"""Jaxator: expert kernels in JAX as custom calls, with gradients, batching and sharding.

    import jaxator as jxt
    y = jxt.rms_norm(x, weight)
"""

from jaxator._errors import UnsupportedError
from jaxator.rms_norm import add_rms_norm, rms_norm

__version__ = "0.1.0"

__all__ = ["UnsupportedError", "add_rms_norm", "rms_norm"]
