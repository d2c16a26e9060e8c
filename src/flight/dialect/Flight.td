// The Flight dialect. Layouts are static facts and stand in the types; the dynamic leaves of a layout are operands of the op that
// makes the view. Everything else is upstream's: arith, math, scf, vector for a thread's values.
#ifndef FLIGHT_TD
#define FLIGHT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Flight_Dialect : Dialect {
  let name = "flight";
  let cppNamespace = "::jaxator::flight";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

// ---- enums ----------------------------------------------------------------------------------------------------------

class Flight_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::jaxator::flight";
  let genSpecializedAttr = 0;
}
def Flight_Space : Flight_Enum<"Space", "where memory is", [
  I32EnumAttrCase<"Global", 0, "global">, I32EnumAttrCase<"Shared", 1, "shared">]>;
def Flight_Axis : Flight_Enum<"Axis", "of a grid or a block", [
  I32EnumAttrCase<"X", 0, "x">, I32EnumAttrCase<"Y", 1, "y">, I32EnumAttrCase<"Z", 2, "z">]>;
def Flight_Combine : Flight_Enum<"Combine", "an operation that reduces", [
  I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Mul", 1, "mul">, I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Min", 3, "min">]>;
def Flight_Lane : Flight_Enum<"LaneMove", "which lane a value comes from", [
  I32EnumAttrCase<"Xor", 0, "xor">, I32EnumAttrCase<"Up", 1, "up">, I32EnumAttrCase<"Down", 2, "down">,
  I32EnumAttrCase<"Index", 3, "index">]>;
class Flight_EnumAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<Flight_Dialect, info, mnemonic>;
def Flight_AxisAttr : Flight_EnumAttr<Flight_Axis, "axis">;
def Flight_CombineAttr : Flight_EnumAttr<Flight_Combine, "combine">;
def Flight_LaneAttr : Flight_EnumAttr<Flight_Lane, "lane">;

// ---- types ----------------------------------------------------------------------------------------------------------

class Flight_Type<string name, string typeMnemonic> : TypeDef<Flight_Dialect, name> { let mnemonic = typeMnemonic; }

def Flight_Ptr : Flight_Type<"Ptr", "ptr"> {
  let summary = "address of elements: !flight.ptr<bf16, global, 16>";
  let description = "`align` is in bytes, a power of two, and holds for the address itself.";
  let parameters = (ins "::mlir::Type":$element, EnumParameter<Flight_Space>:$space, "int64_t":$align);
  let assemblyFormat = "`<` $element `,` $space `,` $align `>`";
  let genVerifyDecl = 1;
}

def Flight_View : Flight_Type<"View", "view"> {
  let summary = "memory seen through a layout: !flight.view<bf16, shared, \"S<3,3,3> o 0 o (8,64):(64,1)\", 16>";
  let description = [{
    The layout is in the text form of the layout library, plain or with a swizzle inside; it gives offsets in elements. A dynamic
    leaf is `?` or `?{div=8}`: what it holds is an operand of the `view` op. `align` holds for the address of offset 0.
  }];
  let parameters = (ins "::mlir::Type":$element, EnumParameter<Flight_Space>:$space, StringRefParameter<"layout">:$layout,
                        "int64_t":$align);
  let assemblyFormat = "`<` $element `,` $space `,` $layout `,` $align `>`";
  let genVerifyDecl = 1;
}

def Flight_Tile : Flight_Type<"Tile", "tile"> {
  let summary = "values of a whole block, spread over its threads: !flight.tile<f32, \"(128,64)\", \"((16,8),(4,8)):((4,64),(1,1024))\">";
  let description = [{
    `shape` is a flat tuple of static sizes; the leftmost mode is the fastest. `spread` is a layout with two modes, (thread,
    value) -> index into the shape. Threads that map to the same index hold copies of it. Targets whose block is one thread ignore
    `spread`.
  }];
  let parameters = (ins "::mlir::Type":$element, StringRefParameter<"shape">:$shape, StringRefParameter<"spread">:$spread);
  let assemblyFormat = "`<` $element `,` $shape `,` $spread `>`";
  let genVerifyDecl = 1;
}

// ---- ops: geometry and memory -----------------------------------------------------------------------------------------

class Flight_Op<string mnemonic, list<Trait> traits = []> : Op<Flight_Dialect, mnemonic, traits>;

class Flight_Coordinate<string mnemonic, string text> : Flight_Op<mnemonic, [Pure]> {
  let summary = text;
  let arguments = (ins Flight_AxisAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}
def Flight_ThreadIdOp : Flight_Coordinate<"thread_id", "the thread's number in its block">;
def Flight_BlockIdOp : Flight_Coordinate<"block_id", "the block's number in the grid">;
def Flight_GridDimOp : Flight_Coordinate<"grid_dim", "blocks in the grid">;

def Flight_SharedOp : Flight_Op<"shared"> {
  let summary = "an array in the block's shared memory, its own for each op; contents are unset at first";
  let arguments = (ins I64Attr:$count);
  let results = (outs Flight_Ptr:$result);
  let assemblyFormat = "$count attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Flight_ViewOp : Flight_Op<"view", [Pure]> {
  let summary = "memory from `pointer` + `offset` elements on, through the layout of the result type";
  let description = [{
    `dims` are the dynamic leaves of the layout in the order of the text, shape first. The alignment of the result is proved by the
    one who writes it: it must divide the pointer's alignment, and the offset's bytes.
  }];
  let arguments = (ins Flight_Ptr:$pointer, Index:$offset, Variadic<Index>:$dims);
  let results = (outs Flight_View:$result);
  let assemblyFormat = "$pointer `[` $offset `]` (`dims` `(` $dims^ `)`)? attr-dict `:` type($pointer) `->` type($result)";
  let hasVerifier = 1;
}

def Flight_LoadOp : Flight_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "all elements of this thread's view, leftmost mode first; where `mask` is false nothing is read, and the value is `other`";
  let arguments = (ins Arg<Flight_View, "", [MemRead]>:$source, Optional<AnyVectorOfNonZeroRank>:$mask,
                       Optional<AnyType>:$other);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = [{
    $source (`mask` `(` $mask^ `:` type($mask) `)`)? (`other` `(` $other^ `:` type($other) `)`)? attr-dict `:` type($source)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Flight_StoreOp : Flight_Op<"store"> {
  let arguments = (ins AnyVectorOfNonZeroRank:$value, Arg<Flight_View, "", [MemWrite]>:$destination,
                       Optional<AnyVectorOfNonZeroRank>:$mask);
  let assemblyFormat = [{
    $value `,` $destination (`mask` `(` $mask^ `:` type($mask) `)`)? attr-dict `:` type($value) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def Flight_CopyAsyncOp : Flight_Op<"copy_async"> {
  let summary = "global to shared memory without registers where the target can; done only after `wait`";
  let description = "Both views have the same size; element i goes to element i. Elements outside `mask` are written as zero.";
  let arguments = (ins Arg<Flight_View, "", [MemRead]>:$source, Arg<Flight_View, "", [MemWrite]>:$destination,
                       Optional<I1>:$mask);
  let assemblyFormat = "$source `to` $destination (`mask` `(` $mask^ `)`)? attr-dict `:` type($source) `to` type($destination)";
  let hasVerifier = 1;
}
def Flight_CommitOp : Flight_Op<"commit"> {
  let summary = "the asynchronous copies since the last commit become one group";
  let assemblyFormat = "attr-dict";
}
def Flight_WaitOp : Flight_Op<"wait"> {
  let summary = "until at most `pending` groups of this thread are not done; other threads see them after a barrier";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
  let hasVerifier = 1;
}
def Flight_BarrierOp : Flight_Op<"barrier"> {
  let summary = "every thread of the block gets here, and sees what the others wrote to shared memory before";
  let assemblyFormat = "attr-dict";
}

// ---- ops: lanes and matrix units ----------------------------------------------------------------------------------------

def Flight_ShuffleOp : Flight_Op<"shuffle", [AllTypesMatch<["value", "result"]>]> {
  let summary = "the value of another lane of the wave; a lane outside the wave gives the own value";
  let arguments = (ins Flight_LaneAttr:$move, AnyTypeOf<[F32, I32]>:$value, I32:$amount);
  let results = (outs AnyTypeOf<[F32, I32]>:$result);
  let assemblyFormat = "$move $value `,` $amount attr-dict `:` type($value)";
}

def Flight_MmaOp : Flight_Op<"mma", [Pure, AttrSizedOperandSegments, AllTypesMatch<["c", "result"]>]> {
  let summary = "one matrix instruction of a wave (a warpgroup): c + a * b, each lane with its part of a, b, c";
  let description = [{
    `atom` names the instruction, such as "mfma_16x16x16_bf16"; the table of atoms has, for each, the target, the lanes, and the
    spreads of A (M x K), B (N x K) and C (M x N). Scaled instructions take the E8M0 scale of this lane's part of a and of b in
    the low byte of two words; without them the scales are 1.
  }];
  let arguments = (ins StrAttr:$atom, AnyVectorOfNonZeroRank:$a, AnyVectorOfNonZeroRank:$b, AnyVectorOfNonZeroRank:$c,
                       Optional<I32>:$scale_a, Optional<I32>:$scale_b);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = [{
    $atom $a `,` $b `,` $c (`scale_a` `(` $scale_a^ `)`)? (`scale_b` `(` $scale_b^ `)`)? attr-dict `:` type($a) `,` type($b) `,`
    type($c)
  }];
  let hasVerifier = 1;
}

def Flight_PrintOp : Flight_Op<"print"> {
  let summary = "one line for each thread that gets here; `{}` in the text stands for a value. x86 only";
  let arguments = (ins StrAttr:$text, Variadic<AnyTypeOf<[AnyInteger, Index, AnyFloat]>>:$values);
  let assemblyFormat = "$text (`(` $values^ `:` type($values) `)`)? attr-dict";
  let hasVerifier = 1;
}

// ---- ops: whole tiles of a block ------------------------------------------------------------------------------------------

def Flight_TileLoadOp : Flight_Op<"tile_load", [AttrSizedOperandSegments]> {
  let summary = "a view with the tile's shape, into registers; from `bounds` on nothing is read, and the values are `other`";
  let description = "`bounds` has one number a mode: elements that are there, counted from the view's origin; may be negative or past the tile.";
  let arguments = (ins Arg<Flight_View, "", [MemRead]>:$source, Variadic<Index>:$bounds, Optional<AnyType>:$other);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = [{
    $source (`bounds` `(` $bounds^ `)`)? (`other` `(` $other^ `:` type($other) `)`)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}
def Flight_TileStoreOp : Flight_Op<"tile_store"> {
  let arguments = (ins Flight_Tile:$value, Arg<Flight_View, "", [MemWrite]>:$destination, Variadic<Index>:$bounds);
  let assemblyFormat = "$value `,` $destination (`bounds` `(` $bounds^ `)`)? attr-dict `:` type($value) `,` type($destination)";
  let hasVerifier = 1;
}
def Flight_SplatOp : Flight_Op<"splat", [Pure]> {
  let summary = "one value everywhere";
  let arguments = (ins AnyType:$value);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}
def Flight_IotaOp : Flight_Op<"iota", [Pure]> {
  let summary = "each element's coordinate in mode `mode`, i32";
  let arguments = (ins I64Attr:$mode);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$mode attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Flight_MapOp : Flight_Op<"map", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "the body for each element; tiles of one shape and one spread";
  let description = "The body's arguments are the elements of the operands; values from outside may be used. It ends with `yield`.";
  let arguments = (ins Variadic<Flight_Tile>:$inputs);
  let results = (outs Variadic<Flight_Tile>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body";
  let hasVerifier = 1;
}
def Flight_YieldOp : Flight_Op<"yield", [Pure, Terminator, ParentOneOf<["MapOp"]>]> {
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}
def Flight_ReduceOp : Flight_Op<"reduce", [Pure]> {
  let summary = "combines along one mode, whose size becomes 1; every thread with a part of a row gets the row's result";
  let arguments = (ins Flight_CombineAttr:$combine, Flight_Tile:$input, I64Attr:$mode);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$combine $input `along` $mode attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Flight_BroadcastOp : Flight_Op<"broadcast", [Pure]> {
  let summary = "modes of size 1 repeated to the result's shape";
  let arguments = (ins Flight_Tile:$input);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Flight_TransposeOp : Flight_Op<"transpose", [Pure]> {
  let summary = "modes in another order; no value moves";
  let arguments = (ins Flight_Tile:$input, DenseI64ArrayAttr:$order);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$input $order attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Flight_RespreadOp : Flight_Op<"respread", [Pure]> {
  let summary = "the same values in another spread, through shared memory where lanes must exchange; has its own barriers";
  let arguments = (ins Flight_Tile:$input);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Flight_TileCopyOp : Flight_Op<"tile_copy"> {
  let summary = "the block copies global to shared memory, element (i, j) to element (i, j); zero from `bounds` on";
  let description = [{
    `spread` says which thread moves what. With `async` the copy is asynchronous: `commit`, `wait`, then a barrier. Without, a
    barrier is still needed before other threads read.
  }];
  let arguments = (ins Arg<Flight_View, "", [MemRead]>:$source, Arg<Flight_View, "", [MemWrite]>:$destination,
                       Variadic<Index>:$bounds, StrAttr:$spread, UnitAttr:$async);
  let assemblyFormat = [{
    $source `to` $destination (`bounds` `(` $bounds^ `)`)? `spread` $spread (`async` $async^)? attr-dict `:` type($source) `to`
    type($destination)
  }];
  let hasVerifier = 1;
}
def Flight_TileMmaOp : Flight_Op<"tile_mma", [AllTypesMatch<["c", "result"]>]> {
  let summary = "c + a * b^T for the whole block: A (M x K), B (N x K) as views of shared memory or as tiles, C (M x N) a tile";
  let description = [{
    `atom` is the instruction, `waves` the layout of the block's waves over (M, N), such as "(2,4):(1,2)". C's spread is the one
    that atom and waves give.
  }];
  let arguments = (ins StrAttr:$atom, StrAttr:$waves, Arg<AnyTypeOf<[Flight_View, Flight_Tile]>, "", [MemRead]>:$a,
                       Arg<AnyTypeOf<[Flight_View, Flight_Tile]>, "", [MemRead]>:$b, Flight_Tile:$c);
  let results = (outs Flight_Tile:$result);
  let assemblyFormat = "$atom `waves` $waves $a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c)";
  let hasVerifier = 1;
}

#endif
