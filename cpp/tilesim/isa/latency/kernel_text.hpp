// Tile computes that a text describes completely, so that their kernels can be requested by name.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

/// A product, "mma bf16 bf16 b1 m128 n128 k256 ko1" with the words of `compute_text` behind it, or a permute,
/// "permute bf16 e64,32 i32,1 o1,64": extents, strides of what is read and of what is written in elements.
struct KernelText {
  Descriptor descriptor;
  TileCompute compute;  ///< operands without gaps, of which nothing but extents is known
};

/// UserError naming the field for one that is missing, stands twice or is out of range; Unsupported for other computes.
KernelText kernel_text(const std::string& text);

/// A kernel and what lies at the addresses that it was made for.
struct NamedKernel {
  struct Operand {
    std::string name;
    std::int64_t bytes;
  };
  Kernel kernel;
  std::vector<Operand> operands;
};

/// The kernel of a text on a machine's core, of several the fastest; operands at `places` in order, at most three.
NamedKernel named_kernel(const Machine& machine, const std::string& text, const std::vector<Address>& places);

}  // namespace tilesim::isa
