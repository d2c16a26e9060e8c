"""The shapes on which each op is tested: 0, 1, odd, prime, non-multiple sizes, and sizes of real models."""

Shape = tuple[int, ...]

ROWS: tuple[Shape, ...] = (
    (0, 64),
    (3, 0),
    (1,),
    (7,),
    (2, 16),
    (5, 31),
    (2, 3, 130),
    (17, 1021),
    (1, 4097),
    (33, 256),
    (2, 1, 4, 768),
    (130, 64),
    (3, 4096),
)
"""[..., D] of the norms and swiglu (each half)."""

ROPE: tuple[Shape, ...] = (
    (0, 2, 8),
    (3, 0, 8),
    (3, 2, 0),
    (1, 1, 2),
    (5, 3, 6),
    (7, 1, 22),
    (2, 13, 5, 34),
    (2, 3, 2, 1, 16),
    (33, 8, 64),
    (2, 9, 4, 128),
    (3, 2, 256),
)
"""[..., T, N, H] of rope."""

SHARDED_ROWS: Shape = (16, 8, 64)
SHARDED_ROPE: Shape = (16, 8, 4, 32)
"""Every leading dimension is a multiple of 8 or of 4."""

SMALL_ROWS: Shape = (3, 24)
SMALL_ROPE: Shape = (2, 3, 2, 8)
"""For tests of transformations, where values are compared bit by bit."""

PRODUCTS: tuple[Shape, ...] = (
    (0, 5, 7),
    (5, 0, 7),
    (5, 7, 0),
    (1, 1, 1),
    (1, 33, 5),
    (13, 31, 37),
    (64, 64, 256),
    (130, 259, 131),
    (17, 70, 300),
    (129, 40, 520),
    (16, 256, 512),
)
"""M, N, K of matmul."""

SHARDED_PRODUCT: Shape = (16, 32, 64)
"""Every dimension is a multiple of 8."""
