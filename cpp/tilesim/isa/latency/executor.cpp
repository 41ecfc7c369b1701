#include "tilesim/isa/latency/executor.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/latency/custom_kernel.hpp"
#include "tilesim/isa/latency/product_layout.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::isa {

KernelExecutor::KernelExecutor(const Machine& machine)
    : machine_(machine),
      core_(core_of(machine)),
      set_(set_of(machine)),
      runner_(set_, core_.vlen, npu_spec(machine_, core_)) {}

void KernelExecutor::run(const TileCompute& compute) {
  try {
    if (const auto* mma = std::get_if<Mma>(&compute)) {
      product(*mma);
      ++by_kernel_;
      return;
    }
    if (const auto* of_vectors = std::get_if<VectorCompute>(&compute)) {
      vector(*of_vectors);
      ++by_kernel_;
      return;
    }
    if (const auto* opaque = std::get_if<Opaque>(&compute); opaque != nullptr && run_own(machine_, *opaque)) {
      ++by_kernel_;
      return;
    }
    if (const auto* moves = std::get_if<Permute>(&compute)) {
      permute(*moves);
      ++by_kernel_;
      return;
    }
    if (const auto* rows = std::get_if<Indexed>(&compute)) {
      indexed(*rows);
      ++by_kernel_;
      return;
    }
    if (const auto* order = std::get_if<tilesim::Sort>(&compute)) {
      sort(*order);
      ++by_kernel_;
      return;
    }
    throw Unsupported({"no kernel is written for this kind of compute", {}, {}, {}, {}});
  } catch (const Unsupported& error) {
    ++others_[error.parts().what + (error.parts().value.empty() ? "" : ": " + error.parts().value)];
  }
  execute(compute);
}

Stop KernelExecutor::start_code(const Kernel& kernel, Memory& memory) const {
  constexpr Address text = 0x10000, back = 0x8000;
  const std::vector<std::uint32_t> image = kernel.image();
  const std::size_t bytes = 4 * image.size();
  memory.add(text, text + static_cast<Address>(round_up(static_cast<std::int64_t>(bytes), 4096)), readable | executable,
             "text");
  memory.place(text, image.data(), bytes);
  Npu npu(npu_spec(machine_, core_));
  Hart hart(set_, core_.vlen);
  hart.npu = &npu, hart.pc = text, hart.x[ra] = back;
  return hart.run(memory, ~std::uint64_t{0} >> 1, nullptr, back);
}

void KernelExecutor::run_code(const Kernel& kernel, Memory& memory) const {
  const Stop stop = start_code(kernel, memory);
  if (stop.kind != Stop::returned)
    throw InternalError("a kernel ended with: " + std::string(cause_text(stop.trap.cause)) + " " + stop.trap.text);
}

Address KernelExecutor::placed(const Kernel& kernel) {
  if (!runner_.has_room(kernel)) {
    runner_.clear(), products_.clear();
    for (auto& [key, parts] : vectors_)
      for (PlacedVector& shape : parts.shapes) shape.code = 0;
  }
  return runner_.place(kernel);
}

const KernelExecutor::PlacedProduct& KernelExecutor::kernel_of(const MmaForm& form) {
  const auto found = products_.find(form);
  if (found != products_.end()) return found->second;
  const auto page = [](std::int64_t n) {
    return static_cast<Address>(round_up(std::max<std::int64_t>(n, 1), std::int64_t{page_bytes}));
  };
  PlacedProduct made;
  made.bytes = bytes_of(core_, form);
  made.at.moving = scratchpad_base, made.at.kept = made.at.moving + page(made.bytes.moving);
  made.at.sums = made.at.kept + page(made.bytes.kept);
  made.code = placed(mma_kernel(*set_, core_, form, made.at));
  return products_.emplace(form, made).first->second;
}

void KernelExecutor::product(const Mma& mma) {
  const int kept = kept_operand(machine_.core.array, mma.stationary_a);
  Descriptor d;
  d.stationary_a = mma.stationary_a;
  if (kept < 0) form_of(machine_, mma, d);  // throws
  const ProductLayout layout(mma, kept, core_.array.rows, core_.array.columns);
  d.batch = layout.batch(), d.k_outer = layout.taps(), d.k = layout.depth();
  d.m = kept == 1 ? layout.moving_rows() : layout.across(), d.n = kept == 1 ? layout.across() : layout.moving_rows();
  if (d.batch * d.m * d.n == 0 || d.k * d.k_outer == 0) return execute(mma);  // empty product
  MmaForm form = form_of(machine_, mma, d);
  form.run = form.moving;  // all rows are contiguous
  const PlacedProduct& placed = kernel_of(form);
  Memory& memory = runner_.scratchpad(static_cast<std::int64_t>(placed.at.sums - scratchpad_base) + placed.bytes.sums);
  const std::vector<std::byte> moving = layout.moving(), held = layout.held();
  memory.place(placed.at.moving, moving.data(), moving.size());
  memory.place(placed.at.kept, held.data(), held.size());
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(placed.bytes.sums / 4));
  if (mma.accumulate) sums = layout.sums();
  memory.place(placed.at.sums, sums.data(), sums.size() * 4);
  runner_.run(placed.code);
  memory.read(placed.at.sums, sums.data(), sums.size() * 4);
  layout.give_back(sums);
}

}  // namespace tilesim::isa
