// Tile computes that a text describes completely, so that users can request their kernels by name.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

/// A product, "mma bf16 bf16 b1 m128 n128 k256 ko1" with further words of `compute_text`, or a permute, "permute bf16
/// e64,32 i32,1 o1,64": extents, and strides of input and output in elements.
struct KernelText {
  Descriptor descriptor;
  TileCompute compute;  ///< operands are contiguous; only extents are known
};

/// Throws UserError naming a missing, repeated or invalid field; Unsupported for other computes.
KernelText kernel_text(const std::string& text);

/// A kernel, and the operands at the addresses for which it was built.
struct NamedKernel {
  struct Operand {
    std::string name;
    std::int64_t bytes;
  };
  Kernel kernel;
  std::vector<Operand> operands;
};

/// The fastest kernel for a text on a machine's core; operands are at `places`, in order, at most three.
NamedKernel named_kernel(const Machine& machine, const std::string& text, const std::vector<Address>& places);

}  // namespace tilesim::isa
