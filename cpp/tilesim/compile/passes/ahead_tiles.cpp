#include "tilesim/compile/passes/ahead_tiles.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using program::Block;
using program::Statement;

const std::string ahead_slot = "ahead", ahead_index = "i_ahead";

const program::Load* load_into(const Statement& statement, const std::string& slot) {
  const auto* load = std::get_if<program::Load>(&statement.action);
  return load && load->transfer.slot == slot ? load : nullptr;
}

bool commits_slot(const Statement& statement, const std::string& slot) {
  const auto* commit = std::get_if<program::Commit>(&statement.action);
  return commit && commit->slot == slot;
}

/// Commits of a statement that consists of the ring's loads and commits only, in counted loops; -1 for any other one.
std::int64_t commits_of(const Statement& statement, const AheadRing& ring) {
  if (load_into(statement, ring.slot)) return statement.queue == ring.queue ? 0 : -1;
  if (commits_slot(statement, ring.slot))
    return statement.queue == ring.queue ? std::get<program::Commit>(statement.action).pieces : -1;
  const auto* loop = std::get_if<program::For>(&statement.action);
  if (!loop || !loop->extent.is_constant()) return -1;
  std::int64_t sum = 0;
  for (const Statement& inner : loop->body) {
    const std::int64_t own = commits_of(inner, ring);
    if (own < 0) return -1;
    sum += own;
  }
  return sum * loop->extent.value();
}

/// Calls `call` with each view of the statement's compute.
template <class Made, class Call>
void for_each_view(Made& statement, const Call& call) {
  if (auto* mma = std::get_if<program::MmaOp>(&statement.action)) {
    call(mma->a), call(mma->b), call(mma->c);
  } else if (auto* vector = std::get_if<program::VectorOp>(&statement.action)) {
    for (auto& one : vector->inputs) call(one);
    for (auto& one : vector->outputs) call(one.view);
  } else if (auto* permute = std::get_if<program::PermuteOp>(&statement.action)) {
    call(permute->in), call(permute->out);
  }
}

class AheadFinder {
 public:
  explicit AheadFinder(program::Scope& kernel) : kernel_(kernel) {}

  std::vector<AheadRing> run() {
    look(kernel_.body, true);
    for (AheadRing& ring : rings_) ring.plain = ring.plain && filled_once(ring);
    return std::move(rings_);
  }

 private:
  void look(Block& block, bool plain) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      Statement& statement = block[i];
      if (const auto* acquire = std::get_if<program::Acquire>(&statement.action)) {
        if (acquire->queues.size() == 1) see(block, i, *acquire, plain);
      } else if (auto* loop = std::get_if<program::For>(&statement.action)) {
        const bool counted = loop->extent.is_constant();
        loops_.push_back({loop->index, counted ? loop->extent.value() : 1});
        look(loop->body, plain && counted);
        loops_.pop_back();
      } else if (std::holds_alternative<program::If>(statement.action)) {
        program::for_each_body(statement, [&](Block& body) { look(body, false); });
      }
    }
  }

  void see(Block& block, std::size_t place, const program::Acquire& acquire, bool plain) {
    AheadRing ring{acquire.slot, acquire.queues[0], {}, loops_, &block, place, place + 1};
    if (std::ranges::none_of(kernel_.slots,
                             [&](const program::Slot& slot) { return slot.name == ring.slot && !slot.accumulator; }))
      return;
    for (; ring.end < block.size(); ++ring.end) {
      const std::int64_t commits = commits_of(block[ring.end], ring);
      if (commits < 0) break;
      ring.commits += commits;
    }
    for (std::size_t i = place; i < ring.end; ++i) {
      name(ring, block[i]);
      program::for_each_body(
          block[i], [&](Block& body) { program::for_each(body, [&](const Statement& inner) { name(ring, inner); }); });
    }
    if (ring.tensors.empty()) return;
    for (const AheadRing::Loop& loop : loops_) ring.tiles *= loop.trips;
    ring.plain = plain && ring.commits > 0;
    rings_.push_back(std::move(ring));
  }

  static void name(AheadRing& ring, const Statement& statement) {
    if (const program::Load* load = load_into(statement, ring.slot)) ring.tensors.push_back(load->transfer.tensor);
  }

  /// Whether one acquire of the kernel is followed by all loads of the ring, with addresses that read no tensors.
  bool filled_once(const AheadRing& ring) {
    std::int64_t acquires = 0, loads = 0, inside = 0, sends = 0;
    bool direct = true;
    program::for_each(kernel_.body, [&](const Statement& statement) {
      if (const auto* acquire = std::get_if<program::Acquire>(&statement.action))
        acquires += acquire->slot == ring.slot;
      if (const auto* send = std::get_if<program::Send>(&statement.action))
        sends += send->slot == ring.slot || send->from.slot == ring.slot;
      if (std::holds_alternative<program::Receive>(statement.action)) ++sends;
      const program::Load* load = load_into(statement, ring.slot);
      if (!load) return;
      ++loads;
      for (const program::TransferDim& dim : load->transfer.dims) direct &= dim.through.empty();
      for (const Expr& at : load->transfer.at) direct &= !at.reads_tensors();
    });
    for (std::size_t i = ring.first; i < ring.end; ++i) {
      inside += load_into((*ring.block)[i], ring.slot) != nullptr;
      program::for_each_body((*ring.block)[i], [&](Block& body) {
        program::for_each(body, [&](const Statement& s) { inside += load_into(s, ring.slot) != nullptr; });
      });
    }
    return acquires == 1 && sends == 0 && direct && loads == inside && inside > 0 && used_inside(ring);
  }

  /// Whether all uses follow the loads in their block, of the latest tile, in statements that `use_ahead` rewrites.
  bool used_inside(const AheadRing& ring) {
    std::int64_t all = 0, inside = 0;
    bool known = true;
    const auto count = [&](const Statement& statement, std::int64_t& uses) {
      const auto view = [&](const program::View& one) {
        if (one.slot != ring.slot) return;
        ++uses;
        known &= one.back == 0;
      };
      for_each_view(statement, view);
      if (const auto* wait = std::get_if<program::Wait>(&statement.action); wait && wait->slot == ring.slot)
        ++uses, known &= wait->back == 0;
      if (const auto* release = std::get_if<program::Release>(&statement.action); release && release->slot == ring.slot)
        ++uses, known &= release->back == 0;
      if (commits_slot(statement, ring.slot)) known &= statement.queue == ring.queue;
      known &= !std::holds_alternative<program::IndexedOp>(statement.action) &&
               !std::holds_alternative<program::SortOp>(statement.action) &&
               !std::holds_alternative<program::OpaqueOp>(statement.action);
    };
    program::for_each(kernel_.body, [&](const Statement& statement) { count(statement, all); });
    for (std::size_t i = ring.end; i < ring.block->size(); ++i) {
      count((*ring.block)[i], inside);
      program::for_each_body((*ring.block)[i], [&](Block& body) {
        program::for_each(body, [&](const Statement& statement) { count(statement, inside); });
      });
    }
    return known && all == inside;
  }

  program::Scope& kernel_;
  std::vector<AheadRing::Loop> loops_;
  std::vector<AheadRing> rings_;
};

Expr tile_number(const AheadRing& ring) {
  Expr number = 0;
  for (const AheadRing::Loop& loop : ring.loops) number = number * Expr(loop.trips) + Expr::symbol(loop.index);
  return number;
}

/// Redirects uses of a ring tile to tile `number` of the new slot.
void use_ahead(Block& block, const AheadRing& ring, const Expr& number, std::int64_t elements) {
  const auto view = [&](program::View& one) {
    if (one.slot != ring.slot) return;
    one.slot = ahead_slot;
    one.offset = one.offset + number * Expr(elements);
  };
  program::rewrite_knowing(block, 0, [&](Statement& statement, int, Block&) {
    if (auto* wait = std::get_if<program::Wait>(&statement.action); wait && wait->slot == ring.slot) {
      wait->slot = ahead_slot;
      wait->pieces = wait->pieces + number * Expr(ring.commits);
    }
    for_each_view(statement, view);
    return program::inside(statement, 0);
  });
}

/// Removes the releases of a slot and returns one per queue: the new slot holds all tiles until the kernel ends.
void take_releases(Block& block, const std::string& slot, std::map<std::string, Statement>& taken) {
  std::erase_if(block, [&](const Statement& statement) {
    const auto* release = std::get_if<program::Release>(&statement.action);
    if (release && release->slot == slot) taken.insert_or_assign(statement.queue, statement);
    return release && release->slot == slot;
  });
  for (Statement& statement : block)
    program::for_each_body(statement, [&](Block& body) { take_releases(body, slot, taken); });
}

/// Loads of tiles [0, count) into the new slot, in order.
Block loads_ahead(const AheadRing& ring, std::int64_t count, std::int64_t elements) {
  std::map<std::string, Expr> at;
  Expr rest = count > 1 ? Expr::symbol(ahead_index) : Expr(0);
  const Expr number = rest;
  for (std::size_t i = ring.loops.size(); i-- > 0;) {
    at[ring.loops[i].index] = i == 0 ? rest : modulo(rest, ring.loops[i].trips);
    rest = floor_div(rest, ring.loops[i].trips);
  }
  const auto from = ring.block->begin() + static_cast<std::ptrdiff_t>(ring.first);
  Block loads{*from}, each(from + 1, ring.block->begin() + static_cast<std::ptrdiff_t>(ring.end));
  std::get<program::Acquire>(loads[0].action).slot = ahead_slot;
  substitute(each, at);
  const auto rename = [&](Statement& statement) {
    if (auto* load = std::get_if<program::Load>(&statement.action)) {
      load->transfer.slot = ahead_slot;
      load->transfer.offset = load->transfer.offset + number * Expr(elements);
    }
    if (auto* commit = std::get_if<program::Commit>(&statement.action)) commit->slot = ahead_slot;
  };
  program::for_each(each, rename);
  if (count > 1)
    loads.push_back(loop(ahead_index, Expr(count), std::move(each)));
  else
    std::move(each.begin(), each.end(), std::back_inserter(loads));
  return loads;
}

}  // namespace

std::vector<AheadRing> ahead_rings(program::Scope& kernel) { return AheadFinder(kernel).run(); }

std::map<std::string, std::int64_t> loaded_tiles(const program::Scope& kernel, std::int64_t most) {
  std::map<std::string, std::int64_t> tiles;
  program::for_each_knowing(kernel.body, std::int64_t{1}, [&](const Statement& statement, std::int64_t times) {
    if (const auto* acquire = std::get_if<program::Acquire>(&statement.action))
      if (acquire->queues.size() == 1 && acquire->queues[0].starts_with("load"))
        tiles[acquire->slot] = std::min(most, tiles[acquire->slot] + times);
    if (const auto* loop = std::get_if<program::For>(&statement.action))
      times = std::min(most, times * (loop->extent.is_constant() ? loop->extent.value() : most));
    return program::inside(statement, times);
  });
  return tiles;
}

void take_ahead(program::Scope& kernel, const AheadRing& ring, std::int64_t count) {
  const auto slot = std::ranges::find(kernel.slots, ring.slot, &program::Slot::name);
  const std::int64_t elements = round_up(slot->elements, 16);  // tiles keep the alignment of the ring
  program::Slot own{ahead_slot, slot->dtype, elements * count, 1, 0, false, slot->consumers};
  Block loads = loads_ahead(ring, count, elements);
  const Expr number = tile_number(ring);
  Block with = *ring.block;
  with.erase(with.begin() + static_cast<std::ptrdiff_t>(ring.first),
             with.begin() + static_cast<std::ptrdiff_t>(ring.end));
  std::map<std::string, Statement> releases;
  take_releases(with, ring.slot, releases);
  use_ahead(with, ring, number, elements);
  if (count == ring.tiles) {
    *ring.block = std::move(with);
    kernel.slots.erase(slot);
  } else {
    program::If some{less(number, Expr(count)), std::move(with), std::move(*ring.block)};
    ring.block->clear();
    ring.block->push_back(on("", std::move(some)));
  }
  for (const std::string& queue : own.consumers) {
    std::get<program::Release>(releases.at(queue).action).slot = ahead_slot;
    kernel.body.push_back(std::move(releases.at(queue)));
  }
  kernel.body.insert(kernel.body.begin(), std::make_move_iterator(loads.begin()), std::make_move_iterator(loads.end()));
  kernel.slots.push_back(std::move(own));
}

}  // namespace tilesim::lower
