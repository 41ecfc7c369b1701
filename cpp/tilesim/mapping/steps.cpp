// The tiles of a nest through load queue, unit and store queue, one after the other: what closed forms bound from
// below.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::mapping {

namespace {

constexpr double unknown = -1;

/// One operand's or result's buffers: when version v is ready, and when its buffer is free again.
struct Ring {
  std::int64_t depth = 1;
  std::vector<double> ready, released;
  double free_at(std::int64_t version) const {
    return version < depth ? 0 : released[static_cast<std::size_t>(version - depth)];
  }
};

struct Transfer {
  std::size_t operand = 0;
  std::int64_t version = 0, bytes = 0;
  std::int64_t piece = 0;  ///< number over all versions
  std::int64_t place = 0;  ///< bytes from the tensor's begin
};

struct Step {
  std::int64_t versions[3] = {0, 0, 0};
  std::int64_t pieces[2] = {0, 0};  ///< of a and b, over all versions
  bool empty = false;               ///< a piece beyond the end of a ragged tile
  bool last_use[3] = {false, false, false};
  double busy = 0;
  double weights = 0;          ///< cycles to load its first weights where nothing streams meanwhile
  bool stores = false;         ///< a result tile is complete after it
  bool frees = false;          ///< its sums are the last of their version
  bool keeps_weights = false;  ///< its weights are one array tile, which the next step may use again
};

/// What tiles of one shape have in common.
struct Kind {
  double busy = 0, weights = 0, finishing = 0;
  bool keeps_weights = false, complete = false;
};

}  // namespace

struct CostModel::Walk {
  CostModel& model;
  const Nest& nest;
  std::vector<Step> steps{};
  std::vector<Transfer> loads{}, stores{};
  std::vector<double> finishing{};
  Ring rings[3]{};

  /// A DMA queue: transfers in order, each in requests, a bounded number of them in flight.
  struct Queue {
    const std::vector<Transfer>* transfers;
    std::size_t next = 0;
    std::int64_t left = 0;
    double free = 0, begun = 0;
    std::vector<double> in_flight{};
    std::size_t requests = 0;
  };

  void list() {
    const ArraySpec& array = model.machine_.core.array;
    exposes = !model.problem_.on_vector && array.dataflow != Dataflow::output_stationary && array.weight_double_buffer;
    if (exposes) drain = static_cast<double>(array.rows + array.columns - 2);
    const std::size_t dims = nest.order.size();
    std::vector<std::size_t> loops;
    for (int dim : nest.order)
      if (model.trips(nest, static_cast<std::size_t>(dim)) > 1) loops.push_back(static_cast<std::size_t>(dim));
    std::size_t level[3] = {0, 0, 0};
    bool inside = false;
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const bool reduced = model.reduced_ >> loops[i] & 1;
      for (std::size_t operand = 0; operand < 2; ++operand)
        if (model.own_[operand] >> loops[i] & 1) level[operand] = i + 1;
      inside |= reduced;
      if (!inside) level[2] = i + 1;
    }
    const ArrayGrid grid = array_grid(model.problem_, nest, model.machine_, model.latency_);
    if (!nest.sub.empty()) return list_in_pieces(loops, level, grid);
    Extents index(dims, 0), tile(dims);
    double count = 1;
    for (std::size_t loop : loops) count *= static_cast<double>(model.trips(nest, loop));
    steps.reserve(static_cast<std::size_t>(count));
    loads.reserve(static_cast<std::size_t>(count));
    std::unordered_map<std::uint32_t, Kind> kinds;  // by the dims in which a tile is the last one
    std::int64_t versions[3] = {-1, -1, -1};
    std::size_t changed = 0;  // outermost loop that moved
    while (true) {
      Step step;
      for (std::size_t depth = changed; depth <= loops.size(); ++depth)
        for (std::size_t operand = 0; operand < 3; ++operand) {
          if (level[operand] != depth) continue;
          ++versions[operand];
          if (operand < 2)
            add(loads, operand, versions[operand], index, versions[operand]);
        }
      for (std::size_t operand = 0; operand < 3; ++operand) step.versions[operand] = versions[operand];
      for (std::size_t operand = 0; operand < 2; ++operand) step.pieces[operand] = versions[operand];
      std::uint32_t last = 0;
      for (std::size_t loop : loops)
        if (index[loop] + 1 == model.trips(nest, loop)) last |= 1U << loop;
      const auto [known, fresh] = kinds.try_emplace(last, Kind{});
      Kind& kind = known->second;
      if (fresh) {
        kind.complete = true;
        for (std::size_t d = 0; d < dims; ++d) {
          const std::int64_t extent = model.problem_.domain.extents[d];
          tile[d] = std::min(nest.tiles[d], extent - index[d] * nest.tiles[d]);
          if (model.reduced_ >> d & 1) kind.complete &= index[d] + 1 == model.trips(nest, d);
        }
        kind.busy = static_cast<double>(model.busy(tile, grid, nest.pack));
        if (exposes) kind.weights = first_weights(tile, grid, nest.pack);
        kind.keeps_weights = one_tile;
        if (kind.complete) kind.finishing = static_cast<double>(model.finishing(tile));
      }
      step.busy = kind.busy;
      step.weights = kind.weights;
      step.keeps_weights = kind.keeps_weights;
      step.stores = kind.complete;
      if (kind.complete) {
        add(stores, 2, versions[2], index, 0);
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

  void add(std::vector<Transfer>& transfers, std::size_t operand, std::int64_t version, const Extents& index,
           std::int64_t piece) {
    const std::int64_t bytes = model.tile_bytes(operand, nest, index);
    transfers.push_back({operand, version, bytes, piece, model.place_});
  }

  void make_rings(const std::int64_t (&versions)[3]) {
    for (std::size_t operand = 0; operand < 3; ++operand) {
      rings[operand].depth = nest.depths[operand];
      rings[operand].ready.assign(static_cast<std::size_t>((versions[operand] + 1) * model.pieces_of(operand, nest)),
                                  unknown);
      rings[operand].released.assign(static_cast<std::size_t>(versions[operand] + 1), unknown);
      for (std::size_t i = 0; i < steps.size(); ++i)
        steps[i].last_use[operand] =
            i + 1 == steps.size() || steps[i + 1].versions[operand] != steps[i].versions[operand];
    }
    std::int64_t later = -1;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
      if (step->stores) {
        step->frees = step->versions[2] != later;
        later = step->versions[2];
      }
  }

  /// Part numbers of pieces, one operand's after the other's within each slice that both share.
  void load_pieces(const bool (&fetched)[2], const std::vector<std::size_t>& cut, const std::int64_t (&versions)[3],
                   Extents index) {
    const auto owns = [&](std::size_t operand, std::size_t d) { return (model.own_[operand] >> d & 1) != 0; };
    const auto shared = [&](std::size_t d) { return owns(0, d) && owns(1, d); };
    std::int64_t number[2] = {versions[0] * model.pieces_of(0, nest), versions[1] * model.pieces_of(1, nest)};
    const Extents tiles = index;
    const auto own = [&](const auto& self, std::size_t operand, std::size_t i) -> void {
      while (i < cut.size() && (!owns(operand, cut[i]) || (shared(cut[i]) && fetched[0] && fetched[1]))) ++i;
      if (i < cut.size()) {
        for (std::int64_t piece = 0; piece < model.pieces(nest, cut[i]); ++piece) {
          index[cut[i]] = tiles[cut[i]] + piece;
          self(self, operand, i + 1);
        }
        index[cut[i]] = tiles[cut[i]];
        return;
      }
      bool empty = false;
      for (std::size_t d : cut) {
        if (!owns(operand, d)) continue;
        const Interval part = model.interval(nest, d, index[d]);
        empty |= part.end <= part.begin;
      }
      if (!empty)
        add(loads, operand, versions[operand], index, number[operand]);
      ++number[operand];
    };
    const auto slices = [&](const auto& self, std::size_t i) -> void {
      while (i < cut.size() && !(shared(cut[i]) && fetched[0] && fetched[1])) ++i;
      if (i == cut.size()) {
        for (std::size_t operand = 0; operand < 2; ++operand)
          if (fetched[operand]) own(own, operand, 0);
        return;
      }
      for (std::int64_t piece = 0; piece < model.pieces(nest, cut[i]); ++piece) {
        index[cut[i]] = tiles[cut[i]] + piece;
        self(self, i + 1);
      }
      index[cut[i]] = tiles[cut[i]];
    };
    slices(slices, 0);
  }

  /// As `list`, with the pieces of every tile as inner loops: batch, contraction, rows, columns.
  void list_in_pieces(const std::vector<std::size_t>& loops, const std::size_t (&level)[3], const ArrayGrid& grid) {
    const Problem& problem = model.problem_;
    const std::size_t dims = nest.order.size();
    std::vector<std::size_t> cut;
    for (const auto* group : {&problem.batch_dims, &problem.k_dims, &problem.m_dims, &problem.n_dims})
      for (int dim : *group)
        if (model.pieces(nest, static_cast<std::size_t>(dim)) > 1) cut.push_back(static_cast<std::size_t>(dim));
    Extents each(dims), index(dims, 0), piece(dims, 0), part(dims), tile(dims);
    for (std::size_t d = 0; d < dims; ++d) each[d] = model.pieces(nest, d);
    std::int64_t versions[3] = {-1, -1, -1};
    std::size_t changed = 0;
    while (true) {
      bool fetched[2] = {false, false};
      for (std::size_t operand = 0; operand < 3; ++operand) {
        if (level[operand] < changed) continue;
        ++versions[operand];
        if (operand < 2) fetched[operand] = true;
      }
      for (std::size_t d = 0; d < dims; ++d) part[d] = index[d] * each[d];
      load_pieces(fetched, cut, versions, part);
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
          for (const auto* group : {&problem.batch_dims, &problem.k_dims, &problem.m_dims, &problem.n_dims})
            for (int dim : *group)
              if (const auto d = static_cast<std::size_t>(dim); model.own_[operand] >> d & 1)
                number = number * each[d] + piece[d];
          step.pieces[operand] = number;
        }
        if (!step.empty) {
          step.busy = static_cast<double>(model.busy(tile, grid, nest.pack));
          if (exposes) step.weights = first_weights(tile, grid, nest.pack);
        }
        if (step.stores) {
          add(stores, 2, versions[2], part, 0);
          for (std::size_t d = 0; d < dims; ++d)
            if (model.reduced_ >> d & 1) tile[d] = 1;
          finishing.push_back(static_cast<double>(model.finishing(tile)));
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

  /// Earliest time of a queue's next request; unknown while what it waits for has no time yet.
  double ready_at(const Queue& queue, bool store) const {
    if (queue.next >= queue.transfers->size()) return unknown;
    double at = std::max({queue.free, port_free - port_room, memory_free - model.one_way_ - model.memory_room_});
    if (model.link_rate_ > 0) at = std::max(at, link_free[store && !model.links_meet_] - model.link_room_);
    if (queue.requests >= static_cast<std::size_t>(model.window_))
      at = std::max(at, queue.in_flight[(queue.requests - static_cast<std::size_t>(model.window_)) & 63]);
    if (queue.left > 0) return at;
    const Transfer& transfer = (*queue.transfers)[queue.next];
    if (store && queue.next >= stored.size()) return unknown;
    const double wanted = store ? stored[queue.next] : rings[transfer.operand].free_at(transfer.version);
    return wanted == unknown ? unknown : std::max(at, wanted);
  }

  /// Sums of several tiles are freed by the last store.
  void free_sums(const Queue& queue, std::int64_t version, double at) {
    const bool more = queue.next < stores.size() && stores[queue.next].version == version;
    if (!more) rings[2].released[static_cast<std::size_t>(version)] = at;
  }

  /// Cycles of the link that passes most of these bytes.
  double over_links(std::int64_t place, std::int64_t bytes) {
    in_regions.assign(in_regions.size(), 0);
    model.add_regions(place, bytes, in_regions);
    in_regions[home] = 0;
    return static_cast<double>(*std::max_element(in_regions.begin(), in_regions.end())) *
           static_cast<double>(in_regions.size()) / model.link_rate_;
  }

  /// The core whose tiles lie furthest away is the one that the others wait for; one alone is in the first region.
  void find_home() {
    if (model.link_rate_ <= 0) return;
    for (const auto* transfers : {&loads, &stores})
      for (const Transfer& transfer : *transfers) model.add_regions(transfer.place, transfer.bytes, in_regions);
    if (model.links_meet_)
      home = static_cast<std::size_t>(std::min_element(in_regions.begin(), in_regions.end()) - in_regions.begin());
  }

  void request(Queue& queue, bool store, double now) {
    const Transfer& transfer = (*queue.transfers)[queue.next];
    const DmaSpec& dma = model.machine_.core.dma;
    if (queue.left == 0) {
      queue.left = transfer.bytes;
      queue.begun = now;
      now += static_cast<double>(dma.issue_cycles);
    }
    const std::int64_t bytes = std::min(queue.left, model.chunk_);
    const double served = static_cast<double>(bytes) / model.memory_rate_;
    const MemorySpec& memory = model.machine_.memory;
    const std::int64_t spread = std::clamp<std::int64_t>(ceil_div(bytes, memory.interleave_bytes), 1, memory.channels);
    const double alone = served * static_cast<double>(memory.channels) /
                         static_cast<double>(spread * model.problem_.cores) *
                         model.meeting(transfer.operand, static_cast<double>(bytes));
    memory_free = std::max(memory_free, now + model.one_way_) + served;
    double done = memory_free + std::max(0.0, alone - served) + model.store_wait_ - model.one_way_;
    if (port_rate > 0) {
      port_free = std::max(port_free, now) + static_cast<double>(bytes) / port_rate;
      done = std::max(done, port_free + model.store_wait_);
    }
    if (model.link_rate_ > 0) {
      const double crossing = over_links(transfer.place + transfer.bytes - queue.left, bytes);
      if (crossing > 0) {
        double& link = link_free[store && !model.links_meet_];
        link = std::max(link, now) + crossing;
        done = std::max(done + model.further_, link) + (store ? 0 : model.further_);
      }
    }
    if (!store) done += model.one_way_;
    if (queue.in_flight.empty()) queue.in_flight.assign(64, 0);
    queue.in_flight[queue.requests++ & 63] = done;
    queue.free = now + static_cast<double>(ceil_div(bytes, dma.bytes_per_cycle));
    queue.left -= bytes;
    finish = std::max(finish, done);
    if (queue.left > 0) return;
    const double complete = done + static_cast<double>(dma.latency_cycles);
    finish = std::max(finish, complete);
    ++queue.next;
    if (!store)
      rings[transfer.operand].ready[static_cast<std::size_t>(transfer.piece)] = complete;
    else if (model.problem_.epilogue_functions == 0)
      free_sums(queue, transfer.version, complete);
    else
      outputs.push_back(complete);
  }

  /// Computes as many tiles as have their operands; true if there was one.
  bool compute() {
    bool moved = false;
    for (; next_step < steps.size(); ++next_step, moved = true) {
      const Step& step = steps[next_step];
      double start = unit_free;
      for (std::size_t operand = 0; operand < 2 && !step.empty; ++operand) {
        const double ready = rings[operand].ready[static_cast<std::size_t>(step.pieces[operand])];
        if (ready == unknown) return moved;
        start = std::max(start, ready);
      }
      const double sums = rings[2].free_at(step.versions[2]);
      if (sums == unknown) return moved;
      start = std::max(start, sums);
      const bool drained = start > unit_free || next_step == 0;  // nothing streams while this tile's weights load
      const bool held = step.keeps_weights && next_step > 0 && steps[next_step - 1].keeps_weights &&
                        steps[next_step - 1].versions[1] == step.versions[1];
      const double end = start + step.busy + (drained && !held ? step.weights : 0);
      unit_free = end;
      for (std::size_t operand = 0; operand < 2; ++operand)
        if (step.last_use[operand]) rings[operand].released[static_cast<std::size_t>(step.versions[operand])] = end;
      if (!step.stores) continue;
      if (model.problem_.epilogue_functions == 0) {
        stored.push_back(end + drain);
      } else {
        pending.push_back(end + drain);
        frees.push_back(step.frees ? step.versions[2] : -1);
      }
    }
    return moved;
  }

  /// Epilogues in order; each needs one of two output buffers.
  bool finish_tiles() {
    bool moved = false;
    for (; stored.size() < pending.size(); moved = true) {
      const std::size_t i = stored.size();
      if (i >= 2 && outputs.size() < i - 1) return moved;
      const double start = std::max({vector_free, pending[i], i >= 2 ? outputs[i - 2] : 0});
      vector_free = start + finishing[i];
      stored.push_back(vector_free + static_cast<double>(model.machine_.core.vector.latency));
      if (frees[i] >= 0) rings[2].released[static_cast<std::size_t>(frees[i])] = vector_free;
    }
    return moved;
  }

  /// As the closed form of the array has it: rows of the first weight tile, unless the array still holds it.
  double first_weights(const Extents& tile, const ArrayGrid& grid, int pack) {
    const ArraySpec& array = model.machine_.core.array;
    const Problem& problem = model.problem_;
    const auto extent = [&](int dim) { return grid.largest(dim, tile[static_cast<std::size_t>(dim)]); };
    std::int64_t columns = 1, others = 1;
    for (int dim : problem.n_dims) columns *= extent(dim);
    for (int dim : problem.batch_dims) others *= extent(dim);
    std::int64_t rows = problem.k_dims.empty() ? 1 : extent(problem.k_dims.back());
    for (std::size_t i = 0; i + 1 < problem.k_dims.size(); ++i)
      (problem.k_dims[i] == pack ? rows : others) *= extent(problem.k_dims[i]);
    one_tile =
        array.dataflow == Dataflow::weight_stationary && others == 1 && rows <= array.rows && columns <= array.columns;
    return static_cast<double>(
        ceil_div(std::min(array.rows, round_up(rows, array.weight_rows_per_cycle)), array.weight_rows_per_cycle));
  }

  /// All queues of a core share its port of a simple network; the first of those that wait goes first.
  void see_port() {
    const NetworkSpec& network = model.machine_.network;
    if (network.kind != "simple") return;
    const double cycle =
        static_cast<double>(network.clock.hertz) / static_cast<double>(model.machine_.core.clock.hertz);
    port_rate = static_cast<double>(network.port_bytes_per_cycle) * cycle;
    port_room = static_cast<double>(network.buffer_bytes) / port_rate;
  }

  double run(bool two) {
    see_port();
    find_home();
    Queue load{&loads}, second{&loads}, store{&stores};
    std::vector<Transfer> split[2];
    if (two) {
      for (const Transfer& transfer : loads) split[transfer.operand].push_back(transfer);
      load.transfers = &split[0];
      second.transfers = &split[1];
    }
    while (true) {
      if (compute() || (model.problem_.epilogue_functions > 0 && finish_tiles())) continue;
      const double times[3] = {ready_at(load, false), two ? ready_at(second, false) : unknown, ready_at(store, true)};
      int best = -1;
      for (int i = 0; i < 3; ++i)
        if (times[i] != unknown && (best < 0 || times[i] < times[best])) best = i;
      if (best < 0) break;
      request(best == 0 ? load : best == 1 ? second : store, best == 2, times[best]);
    }
    const bool done = next_step == steps.size() && store.next == stores.size();
    return done ? std::max(finish, unit_free) : std::numeric_limits<double>::infinity();
  }

  std::vector<double> stored{}, pending{}, outputs{};
  std::vector<std::int64_t> frees{};  ///< per result tile: version of the sums that its epilogue frees, or -1
  std::size_t next_step = 0;
  std::vector<std::int64_t> in_regions{};  ///< bytes, by region
  std::size_t home = 0;              ///< region of the core
  double link_free[2] = {0, 0};                        ///< of loads; of stores where they have links of their own
  double port_rate = 0, port_room = 0, port_free = 0;  ///< bytes per core cycle; cycles of what its buffer holds
  double memory_free = 0, unit_free = 0, vector_free = 0, finish = 0, drain = 0;
  bool exposes = false, one_tile = false;
};

/// By one load queue, and by one for each operand (infinite where the machine has not got them).
CostModel::Times CostModel::walked(const Nest& nest, std::int64_t most_steps) {
  constexpr double never = std::numeric_limits<double>::infinity();
  double count = 1;
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) count *= static_cast<double>(parts(nest, d));
  if (count > static_cast<double>(most_steps)) return {never, never};
  Walk walk{*this, nest};
  walk.list();
  const double launch = static_cast<double>(machine_.core.kernel_launch_cycles);
  if (machine_.core.dma.load_queues < 2) return {walk.run(false) + launch, never};
  Walk other = walk;
  return {walk.run(false) + launch, other.run(true) + launch};
}

double CostModel::steps(const Nest& nest, std::int64_t most_steps) {
  const Times times = walked(nest, most_steps);
  return std::min(times.one, times.two);
}

std::int64_t CostModel::load_queues(const Nest& nest, std::int64_t most_steps) {
  if (machine_.core.dma.load_queues < 2) return 1;
  const Times times = walked(nest, most_steps);
  return times.one < times.two ? 1 : machine_.core.dma.load_queues;
}

}  // namespace tilesim::mapping
