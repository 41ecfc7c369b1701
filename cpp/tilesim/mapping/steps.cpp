// Walks the tiles of a nest through load queue, unit and store queue. Closed forms are lower bounds of the result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/walk.hpp"

namespace tilesim::mapping {

void CostModel::Walk::list() {
  const std::size_t dims = nest.order.size();
  std::vector<std::size_t> loops;
  for (const LoopPlan::Loop& loop : planned.loops) loops.push_back(static_cast<std::size_t>(loop.dim));
  const TileWork unit = tile_work(model.problem_, nest, model.machine_, model.latency_);
  if (!nest.sub.empty()) return list_in_pieces(loops, unit);
  Extents index(dims, 0), tile(dims);
  double count = 1;
  for (std::size_t loop : loops) count *= static_cast<double>(model.trips(nest, loop));
  steps.reserve(static_cast<std::size_t>(count));
  loads.reserve(static_cast<std::size_t>(count));
  std::unordered_map<std::uint32_t, Kind>
      kinds;  // by set of dims in their last tile, and whether the step adds to earlier sums
  std::int64_t versions[3] = {-1, -1, -1};
  std::size_t changed = 0;  // outermost loop with a new trip
  while (true) {
    Step step;
    for (std::size_t depth = changed; depth <= loops.size(); ++depth)
      for (std::size_t operand = 0; operand < 3; ++operand) {
        if (planned.level[operand] != depth) continue;
        ++versions[operand];
        if (operand < 2) add(loads, operand, versions[operand], index, versions[operand]);
      }
    for (std::size_t operand = 0; operand < 3; ++operand) step.versions[operand] = versions[operand];
    for (std::size_t operand = 0; operand < 2; ++operand) step.pieces[operand] = versions[operand];
    std::uint32_t last = 0;
    for (std::size_t loop : loops)
      if (index[loop] + 1 == model.trips(nest, loop)) last |= 1U << loop;
    const bool adds = model.adds(index);
    if (adds) last |= 1U << 31;
    const auto [known, fresh] = kinds.try_emplace(last, Kind{});
    Kind& kind = known->second;
    if (fresh) {
      kind.complete = true;
      for (std::size_t d = 0; d < dims; ++d) {
        const std::int64_t extent = model.problem_.domain.extents[d];
        tile[d] = std::min(nest.tiles[d], extent - index[d] * nest.tiles[d]);
        if (model.reduced_ >> d & 1) kind.complete &= index[d] + 1 == model.trips(nest, d);
      }
      kind.unit = tile_cycles(model.problem_, unit, tile, model.machine_, model.latency_, adds);
      if (kind.complete) kind.finishing = static_cast<double>(model.finishing(tile, unit));
    }
    step.unit = kind.unit;
    step.stores = kind.complete;
    if (kind.complete) {
      add(stores, 2, versions[2], index, 0);
      add_leaves(index);
      finishing.push_back(kind.finishing);
    }
    steps.push_back(step);
    std::size_t at = loops.size();
    while (at > 0 && ++index[loops[at - 1]] == model.trips(nest, loops[at - 1])) index[loops[--at]] = 0;
    if (at == 0) break;
    changed = at;
  }
  make_rings(versions);
}

void CostModel::Walk::add(std::vector<Transfer>& transfers, std::size_t operand, std::int64_t version,
                          const Extents& index, std::int64_t piece) {
  if (model.computed(operand) && !planned.buffers[operand].sent) return add_sources(operand, version, index);
  const bool own = operand < 2 && !model.computed(operand);
  const std::int64_t bytes = own            ? model.tile_bytes(operand, nest, index, planned.buffers[operand].along)
                             : operand == 2 ? model.stored_bytes(nest, index)
                                            : model.fetched_bytes(operand, nest, index);
  transfers.push_back({operand, version, bytes, piece, model.place_});
}

/// Adds the sources of a computed tile of an operand, one transfer per tensor.
void CostModel::Walk::add_sources(std::size_t operand, std::int64_t version, const Extents& index) {
  for (std::size_t leaf = 3; leaf < model.outputs(); ++leaf) {
    if (model.problem_.leaves[leaf - 3].of != operand) continue;
    const std::int64_t bytes = model.tile_bytes(leaf, in_whole_tiles(nest), index);
    loads.push_back({operand, version, bytes, version, model.place_});
  }
}

/// Adds the epilogue's inputs for the tile, or piece, that is finished next.
void CostModel::Walk::add_leaves(const Extents& index) {
  const auto number = static_cast<std::int64_t>(finishing.size());
  for (std::size_t leaf = 3; leaf < model.outputs(); ++leaf)
    if (model.problem_.leaves[leaf - 3].of == 2) add(loads, leaf, number, index, number);
}

void CostModel::Walk::make_rings(const std::int64_t (&versions)[3]) {
  for (std::size_t operand = 0; operand < 3; ++operand) {
    rings[operand].depth = planned.buffers[operand].depth;
    rings[operand].ready.assign(static_cast<std::size_t>((versions[operand] + 1) * planned.buffers[operand].pieces),
                                unknown);
    rings[operand].released.assign(static_cast<std::size_t>(versions[operand] + 1), unknown);
    if (model.computed(operand)) {
      const auto& leaves = model.problem_.leaves;
      const bool loads_some = std::ranges::any_of(leaves, [&](const auto& leaf) { return leaf.of == operand; });
      rings[operand].arrived.assign(rings[operand].ready.size(), loads_some ? unknown : 0);
    }
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i].last_use[operand] =
          i + 1 == steps.size() || steps[i + 1].versions[operand] != steps[i].versions[operand];
  }
  if (nest.unfold > 0) rows = {unfolded_buffers, rings[0].ready, rings[0].released};
  for (std::size_t leaf = 3; leaf < rings.size(); ++leaf) {
    rings[leaf].depth = vector_buffers;
    rings[leaf].ready.assign(finishing.size(), unknown);
    rings[leaf].released.assign(finishing.size(), unknown);
  }
  std::int64_t later = -1;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (step->stores) {
      step->frees = step->versions[2] != later;
      later = step->versions[2];
    }
}

/// Adds loads in the order of the plan. Empty pieces are counted but not loaded.
void CostModel::Walk::load_pieces(const bool (&fetched)[2], const std::int64_t (&versions)[3], Extents index) {
  const bool in_pieces[2] = {fetched[0] && planned.buffers[0].pieces > 1, fetched[1] && planned.buffers[1].pieces > 1};
  for (std::size_t operand = 0; operand < 2; ++operand) {
    if (!fetched[operand] || in_pieces[operand]) continue;
    Extents tile = index;
    for (std::size_t d = 0; d < tile.size(); ++d) tile[d] /= model.pieces(nest, d);
    if (model.computed(operand) && !planned.buffers[operand].sent) {
      add_sources(operand, versions[operand], tile);
      continue;
    }
    const std::int64_t bytes = model.fetched_bytes(operand, in_whole_tiles(nest), tile);
    loads.push_back({operand, versions[operand], bytes, versions[operand], model.place_});
  }
  const PieceOrder order = piece_order(model.problem_, planned.cut, in_pieces);
  std::int64_t number[2] = {versions[0] * planned.buffers[0].pieces, versions[1] * planned.buffers[1].pieces};
  const Extents tiles = index;
  const auto each = [&](const auto& self, const std::vector<int>& dims, std::size_t i, const auto& inner) -> void {
    if (i == dims.size()) return inner();
    const auto d = static_cast<std::size_t>(dims[i]);
    for (std::int64_t piece = 0; piece < model.pieces(nest, d); ++piece) {
      index[d] = tiles[d] + piece;
      self(self, dims, i + 1, inner);
    }
    index[d] = tiles[d];
  };
  const auto load = [&](std::size_t operand) {
    bool empty = false;
    for (int dim : planned.cut) {
      const auto d = static_cast<std::size_t>(dim);
      if (!(model.own_[operand] >> d & 1)) continue;
      const Interval part = model.interval(nest, d, index[d]);
      empty |= part.end <= part.begin;
    }
    if (!empty) add(loads, operand, versions[operand], index, number[operand]);
    ++number[operand];
  };
  each(each, order.shared, 0, [&] {
    for (std::size_t operand = 0; operand < 2; ++operand)
      if (in_pieces[operand]) each(each, order.own[operand], 0, [&] { load(operand); });
  });
}

/// Like `list`, with the pieces of every tile as inner loops: batch, contraction, rows, columns.
void CostModel::Walk::list_in_pieces(const std::vector<std::size_t>& loops, const TileWork& unit) {
  const std::size_t dims = nest.order.size();
  const std::vector<std::size_t> cut(planned.cut.begin(), planned.cut.end());
  Extents each(dims), index(dims, 0), piece(dims, 0), part(dims), tile(dims);
  for (std::size_t d = 0; d < dims; ++d) each[d] = model.pieces(nest, d);
  std::int64_t versions[3] = {-1, -1, -1};
  std::size_t changed = 0;
  while (true) {
    bool fetched[2] = {false, false};
    for (std::size_t operand = 0; operand < 3; ++operand) {
      if (planned.level[operand] < changed) continue;
      ++versions[operand];
      if (operand < 2) fetched[operand] = true;
    }
    for (std::size_t d = 0; d < dims; ++d) part[d] = index[d] * each[d];
    load_pieces(fetched, versions, part);
    bool more = true;
    while (more) {  // pieces of this tile
      Step step;
      step.stores = true;
      for (std::size_t d = 0; d < dims; ++d) {
        part[d] = index[d] * each[d] + piece[d];
        const Interval own = model.interval(nest, d, part[d]);
        tile[d] = own.end - own.begin;
        step.empty |= tile[d] <= 0;
        if (model.reduced_ >> d & 1)
          step.stores &= index[d] + 1 == model.trips(nest, d) && piece[d] + 1 == each[d];
        else
          step.stores &= tile[d] > 0;
      }
      for (std::size_t operand = 0; operand < 3; ++operand) step.versions[operand] = versions[operand];
      for (std::size_t operand = 0; operand < 2; ++operand) {
        std::int64_t number = versions[operand];
        for (std::size_t d : cut)
          if (planned.buffers[operand].pieces > 1 && model.own_[operand] >> d & 1) number = number * each[d] + piece[d];
        step.pieces[operand] = number;
      }
      if (!step.empty)
        step.unit = tile_cycles(model.problem_, unit, tile, model.machine_, model.latency_, model.adds(part));
      if (step.stores) {
        add(stores, 2, versions[2], part, 0);
        add_leaves(part);
        for (std::size_t d = 0; d < dims; ++d)
          if (model.reduced_ >> d & 1) tile[d] = 1;
        finishing.push_back(static_cast<double>(model.finishing(tile, unit)));
      }
      steps.push_back(step);
      std::size_t i = cut.size();
      while (i > 0 && ++piece[cut[i - 1]] == each[cut[i - 1]]) piece[cut[--i]] = 0;
      more = i > 0;
    }
    std::size_t at = loops.size();
    while (at > 0 && ++index[loops[at - 1]] == model.trips(nest, loops[at - 1])) index[loops[--at]] = 0;
    if (at == 0) break;
    changed = at;
  }
  make_rings(versions);
}

/// Time at which a step's tile is unfolded. The tile needs a free buffer; its source's buffer is free once the tile has
/// passed the cross-lane unit. `unknown` if a time on which it depends is not known yet.
double CostModel::Walk::unfolded(const Step& step) {
  const auto version = static_cast<std::size_t>(step.versions[0]);
  if (rows.ready[version] != unknown) return rows.ready[version];
  const double arrived = rings[0].ready[version], free = rows.free_at(step.versions[0]);
  if (arrived == unknown || free == unknown) return unknown;
  const auto latency = static_cast<double>(model.machine_.core.cross_lane.latency);
  rows.ready[version] = std::max({lanes_free, arrived, free}) + static_cast<double>(step.unit.unfolding);
  rings[0].released[version] = lanes_free = rows.ready[version] - latency;
  return rows.ready[version];
}

/// Time at which the tile that a prologue computes for a step is ready. The vector unit computes it after the epilogues
/// of all earlier steps, and after these steps if the vector unit also multiplies.
double CostModel::Walk::prepared(std::size_t operand, const Step& step) {
  const auto version = static_cast<std::size_t>(step.pieces[operand]);
  double& ready = rings[operand].ready[version];
  const double arrived = rings[operand].arrived[version];
  if (ready != unknown || arrived == unknown || stored.size() < pending.size()) return ready;
  const double before = model.problem_.on_vector ? unit_free : 0;
  vector_free = std::max({vector_free, before, arrived}) + preparing[operand];
  if (model.problem_.on_vector) unit_free = vector_free;
  return ready = vector_free + static_cast<double>(model.machine_.core.vector.latency);
}

/// Enlarges the requests of long transfers, up to an eighth of the outstanding bytes, and sums the remaining work.
void CostModel::Walk::size_requests() {
  constexpr double enough = 4096;
  double bytes = 0;
  for (const auto* transfers : {&loads, &stores})
    for (const Transfer& transfer : *transfers) {
      bytes += static_cast<double>(transfer.bytes);
      const double own = static_cast<double>(transfer.bytes) / model.memory_rate_;
      to_serve += transfer.operand < 2 ? own / fetched_for[transfer.operand] : own;
    }
  const std::int64_t most = model.machine_.core.dma.outstanding_bytes / 8;
  while (!channels && chunk * 2 <= most && bytes > enough * static_cast<double>(chunk)) chunk *= 2;
  window_each = std::clamp<std::int64_t>(model.machine_.core.dma.outstanding_bytes / chunk, 1, 64);
  for (const Step& step : steps) to_compute += static_cast<double>(step.unit.busy);
}

/// Cycles with one load queue, and with one per operand (infinite if the machine has no second queue).
CostModel::Times CostModel::walked(const Nest& nest, std::int64_t most_steps, double limit) {
  constexpr double never = std::numeric_limits<double>::infinity();
  double count = 1;
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) count *= static_cast<double>(parts(nest, d));
  if (count > static_cast<double>(most_steps)) return {never, never};
  Walk walk{*this, nest, plan(problem_, nest)};
  walk.list();
  const double launch = static_cast<double>(machine_.core.kernel_launch_cycles);
  limit -= launch;
  if (machine_.core.dma.load_queues < 2) return {walk.run(false, limit) + launch, never};
  Walk other = walk;
  return {walk.run(false, limit) + launch, other.run(true, limit) + launch};
}

double CostModel::steps(const Nest& nest, std::int64_t most_steps, double limit) {
  const Times times = walked(nest, most_steps, limit);
  return std::min(times.one, times.two);
}

std::int64_t CostModel::load_queues(const Nest& nest, std::int64_t most_steps) {
  if (machine_.core.dma.load_queues < 2) return 1;
  Times times = crowded(nest, most_steps);
  if (std::isinf(std::min(times.one, times.two)))
    times = walked(nest, most_steps, std::numeric_limits<double>::infinity());
  return times.one < times.two ? 1 : machine_.core.dma.load_queues;
}

}  // namespace tilesim::mapping
