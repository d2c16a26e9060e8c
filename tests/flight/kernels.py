"""Kernels as the tracer would write them, each with what it computes."""

from __future__ import annotations

PTR = "!flight.ptr<f32, global, 16>"
ONE = '!flight.view<f32, global, "1:1", 4>'
SHARED = "!flight.ptr<f32, shared, 16>"
SHARED_ONE = '!flight.view<f32, shared, "1:1", 4>'


def module(
    body: str, arguments: str, name: str = "kernel", block: tuple[int, int, int] = (64, 1, 1), attributes: str = ""
) -> str:
    extents = ", ".join(map(str, block))
    more = f", {attributes}" if attributes else ""
    return f"""module {{
  func.func @{name}({arguments}) attributes {{flight.block = array<i64: {extents}>{more}}} {{
{body}
    return
  }}
}}
"""


def load(name: str, pointer: str, offset: str, space: str = "global") -> str:
    pointer_type, view = (PTR, ONE) if space == "global" else (SHARED, SHARED_ONE)
    return f"""    %{name}_view = flight.view {pointer}[{offset}] : {pointer_type} -> {view}
    %{name}_vector = flight.load %{name}_view : {view} -> vector<1xf32>
    %{name} = vector.extract %{name}_vector[0] : f32 from vector<1xf32>
"""


def store(value: str, pointer: str, offset: str, tag: str, space: str = "global") -> str:
    pointer_type, view = (PTR, ONE) if space == "global" else (SHARED, SHARED_ONE)
    return f"""    %{tag}_vector = vector.broadcast {value} : f32 to vector<1xf32>
    %{tag}_view = flight.view {pointer}[{offset}] : {pointer_type} -> {view}
    flight.store %{tag}_vector, %{tag}_view : vector<1xf32>, {view}
"""


SCALE = module(
    """    %c256 = arith.constant 256 : index
    %c4 = arith.constant 4 : index
    %n_ = arith.index_cast %n : i64 to index
    %block = flight.block_id x
    %thread = flight.thread_id x
    %first = arith.muli %block, %c256 : index
    %item = arith.addi %first, %thread : index
    %offset = arith.muli %item, %c4 : index
    %inside = arith.cmpi slt, %offset, %n_ : index
    scf.if %inside {
      %xs = flight.view %x[%offset] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "4:1", 16>
      %v = flight.load %xs : !flight.view<f32, global, "4:1", 16> -> vector<4xf32>
      %two = arith.constant dense<2.0> : vector<4xf32>
      %w = arith.mulf %v, %two : vector<4xf32>
      %ys = flight.view %y[%offset] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "4:1", 16>
      flight.store %w, %ys : vector<4xf32>, !flight.view<f32, global, "4:1", 16>
    }""",
    f"%x: {PTR}, %y: {PTR}, %n: i64",
    "scale",
    (256, 1, 1),
)


def block_sum(barrier: bool = True, threads: int = 128) -> str:
    """y[block] = sum of x[block * threads ...], by halves in shared memory."""
    return module(
        f"""    %thread = flight.thread_id x
    %block = flight.block_id x
    %threads = arith.constant {threads} : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %half = arith.constant {threads // 2} : index
    %sums = flight.shared {threads} : {SHARED}
    %first = arith.muli %block, %threads : index
    %item = arith.addi %first, %thread : index
{load("value", "%x", "%item")}{store("%value", "%sums", "%thread", "start", "shared")}
    %last = scf.while (%width = %half) : (index) -> index {{
      %more = arith.cmpi sgt, %width, %c0 : index
      scf.condition(%more) %width : index
    }} do {{
    ^bb0(%width: index):
      {"flight.barrier" if barrier else ""}
      %mine = arith.cmpi slt, %thread, %width : index
      scf.if %mine {{
        %other = arith.addi %thread, %width : index
{load("a", "%sums", "%thread", "shared")}{load("b", "%sums", "%other", "shared")}
        %sum = arith.addf %a, %b : f32
{store("%sum", "%sums", "%thread", "next", "shared")}
      }}
      %narrower = arith.shrui %width, %c1 : index
      scf.yield %narrower : index
    }}
    %is_first = arith.cmpi eq, %thread, %c0 : index
    scf.if %is_first {{
{load("total", "%sums", "%c0", "shared")}{store("%total", "%y", "%block", "result")}
    }}""",
        f"%x: {PTR}, %y: {PTR}",
        block=(threads, 1, 1),
    )


def wave_sum(wave: int) -> str:
    """y[thread] = sum over the thread's wave, by shuffles in a loop."""
    return module(
        f"""    %thread = flight.thread_id x
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %half = arith.constant {wave // 2} : i32
{load("value", "%x", "%thread")}
    %width, %sum = scf.while (%width = %half, %sum = %value) : (i32, f32) -> (i32, f32) {{
      %more = arith.cmpi sgt, %width, %c0 : i32
      scf.condition(%more) %width, %sum : i32, f32
    }} do {{
    ^bb0(%width: i32, %sum: f32):
      %other = flight.shuffle xor %sum, %width : f32
      %next = arith.addf %sum, %other : f32
      %narrower = arith.shrui %width, %c1 : i32
      scf.yield %narrower, %next : i32, f32
    }}
{store("%sum", "%y", "%thread", "result")}""",
        f"%x: {PTR}, %y: {PTR}",
        block=(128, 1, 1),
    )


def shuffle(move: str, amount: int) -> str:
    """y[thread] = x of the lane that the move names; integers."""
    view = '!flight.view<i32, global, "1:1", 4>'
    return module(
        f"""    %thread = flight.thread_id x
    %amount = arith.constant {amount} : i32
    %xs = flight.view %x[%thread] : !flight.ptr<i32, global, 4> -> {view}
    %v = flight.load %xs : {view} -> vector<1xi32>
    %e = vector.extract %v[0] : i32 from vector<1xi32>
    %r = flight.shuffle {move} %e, %amount : i32
    %w = vector.broadcast %r : i32 to vector<1xi32>
    %ys = flight.view %y[%thread] : !flight.ptr<i32, global, 4> -> {view}
    flight.store %w, %ys : vector<1xi32>, {view}""",
        "%x: !flight.ptr<i32, global, 4>, %y: !flight.ptr<i32, global, 4>",
        block=(128, 1, 1),
    )


def copy(
    layout: str, count: int, align: int, element: str = "f32", pointer_align: int = 16, dims: str = "", masked: str = ""
) -> str:
    """Thread t of 8 copies its view at t * stride: x and y have the same places."""
    pointer, view = (
        f"!flight.ptr<{element}, global, {pointer_align}>",
        f'!flight.view<{element}, global, "{layout}", {align}>',
    )
    vector = f"vector<{count}x{element}>"
    step = f" dims ({dims})" if dims else ""
    bits = f" mask(%mask : vector<{count}xi1>)" if masked else ""
    other = f" other(%other : {element})" if masked else ""
    return module(
        f"""    %thread = flight.thread_id x
    %offset = arith.muli %thread, %stride : index
{masked}    %xs = flight.view %x[%offset]{step} : {pointer} -> {view}
    %v = flight.load %xs{bits}{other} : {view} -> {vector}
    %ys = flight.view %y[%offset]{step} : {pointer} -> {view}
    flight.store %v, %ys{bits} : {vector}, {view}""",
        f"%x: {pointer}, %y: {pointer}, %stride_: i64, %a_: i64, %b_: i64",
        block=(8, 1, 1),
    ).replace(
        "    %thread = flight.thread_id x\n",
        "    %thread = flight.thread_id x\n"
        + "".join(f"    %{n} = arith.index_cast %{n}_ : i64 to index\n" for n in ("stride", "a", "b")),
    )


def transpose(swizzle: str = "S<3,2,3> o 0 o ", barrier: bool = True) -> str:
    """y = x^T of 32 x 32 floats, through shared memory with a swizzle; 64 threads with 16 values each."""
    load_view = '!flight.view<f32, global, "16:1", 16>'
    place = f'!flight.view<f32, shared, "{swizzle}16:1", 16>'
    column = f'!flight.view<f32, shared, "{swizzle}16:32", 4>'
    return module(
        f"""    %thread = flight.thread_id x
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c512 = arith.constant 512 : index
    %row = arith.divui %thread, %c2 : index
    %half = arith.remui %thread, %c2 : index
    %rows = arith.muli %row, %c32 : index
    %halves = arith.muli %half, %c16 : index
    %at = arith.addi %rows, %halves : index
    %tile = flight.shared 1024 : {SHARED}
    %xs = flight.view %x[%at] : {PTR} -> {load_view}
    %v = flight.load %xs : {load_view} -> vector<16xf32>
    %to = flight.view %tile[%c0] dims (%at) : {SHARED} -> {place.replace("o 0 o", "o ?{div=16} o")}
    flight.store %v, %to : vector<16xf32>, {place.replace("o 0 o", "o ?{div=16} o")}
    {"flight.barrier" if barrier else ""}
    %down = arith.muli %half, %c512 : index
    %from_at = arith.addi %down, %row : index
    %from = flight.view %tile[%c0] dims (%from_at) : {SHARED} -> {column.replace("o 0 o", "o ? o")}
    %w = flight.load %from : {column.replace("o 0 o", "o ? o")} -> vector<16xf32>
    %ys = flight.view %y[%at] : {PTR} -> {load_view}
    flight.store %w, %ys : vector<16xf32>, {load_view}""",
        f"%x: {PTR}, %y: {PTR}",
    )
