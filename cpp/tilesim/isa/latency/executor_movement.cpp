// Executes permutes, gathers and scatters by their kernels, on operands in place.
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/isa/latency/narrower.hpp"
#include "tilesim/isa/latency/scratch_image.hpp"

namespace tilesim::isa {

void KernelExecutor::permute(const Permute& permute) {
  ScratchImage image({&permute.in, &permute.out}, share_bytes(permute.in, permute.out) ? bytes_aside(permute) : 0);
  const auto kernels = permutes_of_cores(*set_, core_, permute, {image.address(0), image.address(1), image.aside()});
  image.fill();
  // all kernels are equivalent; they are used in turn
  run_code(kernels[static_cast<std::size_t>(by_kernel_) % kernels.size()], image.memory());
  image.take(1);
}

void KernelExecutor::indexed(const Indexed& indexed) {
  ScratchImage image({&indexed.in, &indexed.index, &indexed.out}, 0);
  const auto kernels = indexed_of_cores(*set_, core_, indexed, {image.address(0), image.address(1), image.address(2)});
  image.fill();
  const Kernel& kernel = kernels[static_cast<std::size_t>(by_kernel_) % kernels.size()];
  const Stop stop = start_code(kernel, image.memory());
  if (stop.kind == Stop::trapped && stop.trap.cause == Cause::breakpoint) return execute(indexed);  // names the index
  if (stop.kind != Stop::returned)
    throw InternalError("a kernel ended with: " + std::string(cause_text(stop.trap.cause)) + " " + stop.trap.text);
  image.take(2);
}

}  // namespace tilesim::isa
