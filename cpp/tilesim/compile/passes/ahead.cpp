#include "tilesim/compile/passes/ahead.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/ahead_tiles.hpp"
#include "tilesim/compile/passes/given.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/compile/passes/traffic.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using Ranges = std::map<std::string, Expr::Range>;

/// Cycles of a kernel's busiest unit, if every tile were full.
class UnitCycles {
 public:
  explicit UnitCycles(const Share& machine) : core_(machine.core) {}

  double cycles_of(const program::Scope& kernel) {
    walk(kernel.body, 1);
    double most = 0;
    for (const auto& [queue, cycles] : cycles_) most = std::max(most, cycles);
    return most;
  }

 private:
  void walk(const program::Block& block, double times) {
    for (const program::Statement& statement : block) {
      double inside = times;  // upper bound: every branch is taken in every trip
      if (const auto* loop = std::get_if<program::For>(&statement.action)) {
        inside *= static_cast<double>(std::max<std::int64_t>(0, most(loop->extent)));
        ranges_[loop->index] = {0, std::max<std::int64_t>(0, most(loop->extent) - 1)};
      } else if (const auto* mma = std::get_if<program::MmaOp>(&statement.action)) {
        cycles_[statement.queue] += times * passes(*mma);
      } else if (const auto* vector = std::get_if<program::VectorOp>(&statement.action)) {
        cycles_[statement.queue] += times * elements(*vector);
      }
      program::for_each_body(statement, [&](const program::Block& body) { walk(body, inside); });
    }
  }

  std::int64_t most(const Expr& expr) const {
    constexpr std::int64_t far = 1 << 30;
    return std::clamp<std::int64_t>(expr.range(ranges_).high, 0, far);
  }

  double extents(const std::vector<program::Dim>& dims, int from, int count) const {
    double product = 1;
    for (int i = from; i < from + count && i < static_cast<int>(dims.size()); ++i)
      product *= static_cast<double>(most(dims[static_cast<std::size_t>(i)].extent));
    return product;
  }

  double passes(const program::MmaOp& mma) const {
    const double batch = extents(mma.a.dims, 0, mma.batch_dims), m = extents(mma.a.dims, mma.batch_dims, mma.m_dims),
                 k = extents(mma.b.dims, mma.batch_dims, mma.k_dims),
                 n = extents(mma.b.dims, mma.batch_dims + mma.k_dims, mma.n_dims);
    const auto rows = static_cast<double>(core_.array.rows), columns = static_cast<double>(core_.array.columns);
    const double held = mma.stationary_a ? m : n, moving = mma.stationary_a ? n : m;
    return batch * std::ceil(k / rows) * std::ceil(held / columns) * std::max(moving, rows);
  }

  double elements(const program::VectorOp& op) const {
    double count = static_cast<double>(op.nodes.size());
    for (const Expr& extent : op.extents) count *= static_cast<double>(most(extent));
    return count / static_cast<double>(core_.vector.lanes * core_.vector.sublanes * core_.vector.issue);
  }

  const Share::Core& core_;
  Ranges ranges_;
  std::map<std::string, double> cycles_;  ///< by queue
};

std::int64_t ahead_bytes_of(const program::Slot& slot) { return round_up(packed_bytes(slot.dtype, slot.elements), 64); }

/// Consecutive kernels of one body.
class Ahead {
 public:
  Ahead(Lowering& lowering, program::Block& body, const std::string& function, const Given& given)
      : lowering_(lowering), function_(function), given_(given), traffic_(lowering.program) {
    const Share& machine = lowering.machine;
    rate_ = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
            static_cast<double>(machine.core.clock.hertz * lowering.program.contexts);  // of one core
    for_each_kernel_of(body, [&](program::Statement& statement, std::int64_t number) {
      auto* scope = std::get_if<program::Scope>(&statement.action);
      const bool known = scope && !scope->barrier && !KernelNumbers::runs_functions(scope->body);
      kernels_.push_back({known ? scope : nullptr, number});
      if (known) see(kernels_.back());
    });
  }

  void run() {
    for (std::size_t k = 1; k < kernels_.size(); ++k)
      if (kernels_[k].scope && kernels_[k - 1].scope) follow(kernels_[k - 1], kernels_[k], k);
  }

 private:
  struct One {
    program::Scope* scope = nullptr;
    std::int64_t number = 0;
    std::int64_t held = 0, free = 0;  ///< scratchpad bytes: of its slots, and available
    double compute = 0, memory = 0;   ///< cycles
  };

  void see(One& one) const {
    one.held = held(*one.scope).scratchpad;
    one.free = free_for(lowering_.residents, function_, one.number, one.held, lowering_.machine.core.scratchpad.bytes);
    one.compute = UnitCycles(lowering_.machine).cycles_of(*one.scope);
    const KernelUse use = traffic_.use_of(*one.scope, false);
    if (!use) {
      one.memory = one.compute;
      return;
    }
    for (const auto& [tensor, moved] : *use)
      if (!stays(tensor)) one.memory += (moved.loaded + moved.stored) / streams() / rate_;
  }

  /// Whether tiles come from memory, from tensors that no kernel stores.
  bool from_memory(const AheadRing& ring) const {
    return std::ranges::all_of(ring.tensors,
                               [&](const std::string& tensor) { return given_.contains(tensor) && !stays(tensor); });
  }

  static std::int64_t free_for(const std::vector<Resident>& residents, const std::string& function, std::int64_t number,
                               std::int64_t held, std::int64_t bytes) {
    const Span free = free_beside(residents, function, number, held, bytes);
    return free.high - free.low;
  }

  double streams() const { return static_cast<double>(lowering_.program.cores * lowering_.program.contexts); }

  bool stays(const std::string& tensor) const {
    const std::string owner = given_.owner(tensor);
    return std::ranges::any_of(lowering_.residents, [&](const Resident& one) { return one.tensor == owner; });
  }

  /// Scratchpad bytes left by this kernel and the previous one, and by this kernel and the next one.
  std::int64_t left(const One& before, const One& one, std::size_t k) const {
    std::int64_t bytes = std::min(before.free, one.free) - before.held - one.held;
    if (k + 1 < kernels_.size() && kernels_[k + 1].scope)
      bytes = std::min(bytes, std::min(one.free, kernels_[k + 1].free) - one.held - kernels_[k + 1].held);
    return bytes;
  }

  void follow(One& before, One& one, std::size_t k) {
    const double idle = std::max(0.0, before.compute - before.memory);
    const AheadRing* ring = nullptr;
    std::vector<AheadRing> rings = ahead_rings(*one.scope);
    for (const AheadRing& other : rings)
      if (other.plain && multiplied(one, other) && from_memory(other) &&
          (!ring || bytes(one, other) > bytes(one, *ring)))
        ring = &other;
    if (!ring || first_of(*one.scope, *ring)) return;
    const std::int64_t tile = bytes(one, *ring) / ring->tiles;
    // Prefetching more than memory can load in the idle time would delay later loads.
    const std::int64_t under_way = lowering_.machine.core.dma.outstanding_bytes;
    const std::int64_t wanted =
        std::max(static_cast<std::int64_t>(idle * rate_) + under_way / 2, std::min(tile, under_way));
    deepen(before, std::min(before.free, one.free) - before.held - one.held - tile);
    const std::int64_t kept = slot_of(one, ring->slot).depth * tile;
    std::int64_t most = left(before, one, k), count = std::min({ring->tiles, most / tile, wanted / tile});
    if ((most + kept) / tile >= ring->tiles && wanted / tile >= ring->tiles) count = ring->tiles;
    if (count < 1) return;
    const double moved = static_cast<double>(count * tile) / rate_;
    take_ahead(*one.scope, *ring, count);
    one.held = held(*one.scope).scratchpad;
    one.memory = std::max(0.0, one.memory - std::min(idle, moved));
  }

  /// Whether the ring's only loads are the first ones of their queue already, so that none waits.
  static bool first_of(const program::Scope& kernel, const AheadRing& ring) {
    return ring.block == &kernel.body && ring.tiles == 1 && ring.first == 0;
  }

  const program::Slot& slot_of(const One& one, const std::string& name) const {
    return *std::ranges::find(one.scope->slots, name, &program::Slot::name);
  }

  /// Whether only arrays read the ring; weights of vector kernels are small.
  bool multiplied(const One& one, const AheadRing& ring) const {
    return std::ranges::all_of(slot_of(one, ring.slot).consumers,
                               [](const std::string& queue) { return queue.starts_with("mma"); });
  }

  std::int64_t bytes(const One& one, const AheadRing& ring) const {
    return ahead_bytes_of(slot_of(one, ring.slot)) * ring.tiles;
  }

  /// Deepens rings of tiles from on-chip values until they hold all tiles, if the kernel's rings fit together.
  void deepen(One& before, std::int64_t most) {
    const std::map<std::string, std::int64_t> tiles = loaded_tiles(*before.scope, most_buffers);
    std::int64_t more = 0;
    const auto each = [&](const auto& call) {
      for (program::Slot& slot : before.scope->slots)
        if (const auto found = tiles.find(slot.name); found != tiles.end() && found->second > slot.depth)
          call(slot, found->second);
    };
    each([&](const program::Slot& slot, std::int64_t depth) { more += (depth - slot.depth) * ahead_bytes_of(slot); });
    if (more == 0 || more > most / 2) return;
    each([](program::Slot& slot, std::int64_t depth) { slot.depth = depth; });
    before.held += more;
  }

  static constexpr std::int64_t most_buffers = 64;
  Lowering& lowering_;
  const std::string& function_;
  const Given& given_;
  Traffic traffic_;
  double rate_ = 1;
  std::vector<One> kernels_;
};

}  // namespace

void load_ahead(Lowering& lowering) {
  if (lowering.machine.core.kernel_barrier || !lowering.wish.automatic) return;
  const Given given(lowering.program);
  program::for_each_function(lowering.program, [&](program::Block& body, const std::string& function) {
    Ahead(lowering, body, function, given).run();
  });
}

}  // namespace tilesim::lower
