#include "tilesim/isa/movement/permute_kernel.hpp"

#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

/// Passes through temporary memory, where elements are in the order of the result.
std::vector<Passes> through_memory(const CoreTiming& core, const Placed& move, Address aside) {
  Placed there = move, back = move;
  std::int64_t step = move.element;
  for (std::size_t i = move.dims.size(); i-- > 0; step *= move.dims[i].extent)
    there.dims[i].out = back.dims[i].in = step;
  there.to = back.from = aside;
  there.dims = joined(there.dims), back.dims = joined(back.dims);
  const Passes last = ways(core, back)[0];
  std::vector<Passes> found = ways(core, there);
  for (Passes& passes : found) passes.insert(passes.end(), last.begin(), last.end());
  return found;
}

bool stays(const Placed& move) {
  return move.from == move.to &&
         std::all_of(move.dims.begin(), move.dims.end(), [](const MoveDim& dim) { return dim.in == dim.out; });
}

Kernel kernel_of(const InstructionSet& set, const CoreTiming& core, const Passes& passes) {
  Code code(set);
  for (const MovePass& pass : passes) write_pass(code, core, pass);
  return code.finish();
}

}  // namespace

std::int64_t bytes_aside(const Permute& permute) {
  std::int64_t count = bits(permute.in.dtype);
  for (const ViewDim& dim : permute.in.dims) count *= std::max<std::int64_t>(0, dim.extent);
  return ceil_div(count, 8);
}

std::vector<Kernel> permute_kernels(const InstructionSet& set, const CoreTiming& core, const Permute& permute,
                                    const PermuteAddresses& at) {
  if (permute.in.dtype != permute.out.dtype)
    throw Unsupported({"no kernel moves elements to those of another type", {}, {}, {}, {}});
  const Move move = in_bytes(move_of(permute.in.dims, permute.out.dims), permute.in.dtype);
  if (move.overlaps) throw Unsupported({"no kernel moves elements in overlapping memory", {}, {}, {}, {}});
  Placed placed;
  placed.dims = move.dims, placed.element = std::max(1, bits(permute.in.dtype) / 8);
  placed.from = at.in + static_cast<Address>(move.in_first), placed.to = at.out + static_cast<Address>(move.out_first);
  const bool in_place = share_bytes(permute.in, permute.out);
  std::vector<Passes> found;
  if (move.nothing || (in_place && stays(placed))) {
    found.emplace_back();
  } else if (!in_place) {
    found = ways(core, placed);
  } else {
    for (Passes& passes : ways(core, placed))
      if (passes.size() == 1 && passes[0].held(core)) found.push_back(std::move(passes));
    for (Passes& passes : through_memory(core, placed, at.aside)) found.push_back(std::move(passes));
  }
  std::vector<Kernel> kernels;
  for (const Passes& passes : found) kernels.push_back(kernel_of(set, core, passes));
  return kernels;
}

}  // namespace tilesim::isa
