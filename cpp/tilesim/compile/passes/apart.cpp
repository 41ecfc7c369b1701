// Adds waits between tiles and values that use the same bytes of the scratchpad at different times.
#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/passes/overlap.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

struct Tile {
  std::string slot;
  Span bytes;
};

std::vector<Tile> tiles_of(const program::Scope& kernel) {
  std::vector<Tile> tiles;
  const auto add = [&](const program::Scope& scope) {
    for (const program::Slot& slot : scope.slots)
      if (!slot.accumulator)
        tiles.push_back(
            {slot.name,
             {slot.address, slot.address + round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth}});
  };
  add(kernel);
  program::for_each(kernel.body, [&](const program::Statement& statement) {
    if (const auto* scope = std::get_if<program::Scope>(&statement.action)) add(*scope);
  });
  return tiles;
}

bool meet(const Span& a, const Span& b) { return a.low < b.high && b.low < a.high; }

/// Kernels of one body, in order.
class WaitsApart {
 public:
  WaitsApart(Lowering& lowering, program::Block& body, const std::string& function)
      : lowering_(lowering), body_(body), function_(function), numbers_(lowering.program) {}

  void run() {
    std::int64_t before = 0;  // kernels counted
    std::map<const program::Statement*, program::Block> waits;
    for_each_kernel_of(body_, [&](program::Statement& statement, std::int64_t number) {
      const std::int64_t count = numbers_.kernels_in(statement);
      auto* scope = std::get_if<program::Scope>(&statement.action);
      const bool opaque = !scope || KernelNumbers::runs_functions(scope->body);
      after_.push_back(before + count);
      tiles_.push_back(opaque ? std::vector<Tile>() : tiles_of(*scope));
      if (!opaque && !scope->barrier) kernel(*scope, number);
      if (opaque) call(number, before, waits[&statement]);
      if (opaque) called_ = before + count;
      before += count;
    });
    program::Block block;
    for (program::Statement& statement : body_) {
      if (const auto found = waits.find(&statement); found != waits.end())
        std::move(found->second.begin(), found->second.end(), std::back_inserter(block));
      block.push_back(std::move(statement));
    }
    body_ = std::move(block);
  }

 private:
  /// Number of kernels that must be complete, by queue.
  using Needs = std::map<std::string, std::int64_t>;

  void kernel(program::Scope& scope, std::int64_t number) {
    Needs needs;
    tiles_after_values(scope, number, needs);
    values_after_tiles(scope, number, needs);
    program::Block waits;
    for (const auto& [queue, count] : needs)
      append_waits(waits, lowering_.program, queue, function_.empty() ? Expr(0) : Expr::symbol(kernels_before), count);
    scope.body.insert(scope.body.begin(), std::make_move_iterator(waits.begin()), std::make_move_iterator(waits.end()));
  }

  /// Before a call or loop that produces a resident value: waits for kernels whose tiles may use the same bytes.
  void call(std::int64_t number, std::int64_t before, program::Block& waits) const {
    const auto made = [&](const Resident& value) {
      return value.function == function_ && value.first == number && !value.passed;
    };
    if (std::none_of(lowering_.residents.begin(), lowering_.residents.end(), made)) return;
    for (const program::Counter& counter : lowering_.program.counters)
      if (const std::string queue = kernels_counted_on(counter); !queue.empty())
        append_waits(waits, lowering_.program, queue, function_.empty() ? Expr(0) : Expr::symbol(kernels_before),
                     before);
  }

  static void need(Needs& needs, const std::string& queue, std::int64_t count) {
    const auto [entry, fresh] = needs.try_emplace(queue, count);
    if (!fresh) entry->second = std::max(entry->second, count);
  }

  /// Number of kernels after which the value is dead; for values of other bodies or runs: those up to the last call.
  std::int64_t over(const Resident& value, std::int64_t number) const {
    if (value.function != function_ || value.first > number) return called_;
    return after_[static_cast<std::size_t>(value.last)];
  }

  void tiles_after_values(const program::Scope& scope, std::int64_t number, Needs& needs) const {
    std::map<std::string, std::int64_t> slots;
    for (const Tile& tile : tiles_.back())
      for (const Resident& value : lowering_.residents)
        if (meet(tile.bytes, {value.low, value.high}) && (over(value, number) > 0 || !function_.empty()))
          need(slots, tile.slot, over(value, number));
    if (slots.empty()) return;
    program::for_each(scope.body, [&](const program::Statement& statement) {
      if (const auto* acquire = std::get_if<program::Acquire>(&statement.action)) {
        if (const auto slot = slots.find(acquire->slot); slot != slots.end())
          for (const std::string& queue : acquire->queues) need(needs, queue, slot->second);
      } else if (const auto* send = std::get_if<program::Send>(&statement.action)) {
        if (const auto slot = slots.find(send->slot); slot != slots.end()) need(needs, statement.queue, slot->second);
      }
    });
  }

  void values_after_tiles(const program::Scope& scope, std::int64_t number, Needs& needs) const {
    std::map<std::string, std::int64_t> values;
    for (const Resident& value : lowering_.residents) {
      if (value.function != function_ || value.first != number) continue;
      const Span bytes{value.low, value.high};
      std::int64_t count = called_ > 0 || !function_.empty() ? called_ : -1;  // called functions use any address
      for (std::int64_t k = number; k-- > 0 && after_[static_cast<std::size_t>(k)] > count;)
        for (const Tile& tile : tiles_[static_cast<std::size_t>(k)])
          if (meet(tile.bytes, bytes)) count = std::max(count, after_[static_cast<std::size_t>(k)]);
      for (const Resident& other : lowering_.residents)
        if (&other != &value && meet(bytes, {other.low, other.high}) && (over(other, number) > 0 || !function_.empty()))
          count = std::max(count, over(other, number));
      if (count >= 0) values[value.tensor] = count;
    }
    if (values.empty()) return;
    program::for_each(scope.body, [&](const program::Statement& statement) {
      const auto* store = std::get_if<program::Store>(&statement.action);
      if (!store) return;
      for (const auto& [tensor, count] : values)
        if (owner(store->transfer.tensor) == tensor) need(needs, statement.queue, count);
    });
  }

  std::string owner(std::string name) const {
    for (const program::Tensor* tensor = lowering_.program.find_tensor(name); tensor && !tensor->alias_of.empty();
         tensor = lowering_.program.find_tensor(name))
      name = tensor->alias_of;
    return name;
  }

  Lowering& lowering_;
  program::Block& body_;
  const std::string& function_;
  KernelNumbers numbers_;
  std::vector<std::int64_t> after_;       ///< by kernel: number of kernels up to and including it
  std::vector<std::vector<Tile>> tiles_;  ///< by kernel
  std::int64_t called_ = 0;               ///< number of kernels up to the last call or loop
};

}  // namespace

void keep_apart(Lowering& lowering) {
  if (lowering.residents.empty()) return;
  program::for_each_function(lowering.program, [&](program::Block& body, const std::string& function) {
    WaitsApart(lowering, body, function).run();
  });
}

}  // namespace tilesim::lower
