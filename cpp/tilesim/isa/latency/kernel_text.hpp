// Tile computes that a text describes completely, so that their kernels can be requested by name.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

/// A product, "mma bf16 bf16 b1 m128 n128 k256 ko1" with further words of `compute_text`, or a permute, "permute bf16
/// e64,32 i32,1 o1,64": extents, and strides of input and output in elements.
struct KernelText {
  Descriptor descriptor;
  TileCompute compute;  ///< with contiguous operands, of which only extents are known
};

/// UserError naming a missing, repeated or invalid field; Unsupported for other computes.
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

/// The kernel of a text on a machine's core, the fastest of several; operands at `places` in order, at most three.
NamedKernel named_kernel(const Machine& machine, const std::string& text, const std::vector<Address>& places);

}  // namespace tilesim::isa
