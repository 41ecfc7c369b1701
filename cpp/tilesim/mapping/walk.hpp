// Computes the time of a nest's tiles in load queues, unit and store queue. steps.cpp lists the tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/channels.hpp"
#include "tilesim/mapping/cost.hpp"
#include "tilesim/mapping/plan.hpp"

namespace tilesim::mapping {

struct CostModel::Walk {
  static constexpr double unknown = -1;

  /// Buffers of an operand or result. Per version: time at which it is ready, and at which its buffer is free again.
  struct Ring {
    std::int64_t depth = 1;
    std::vector<double> ready, released;
    std::vector<double> arrived{};  ///< arrival of the sources, if a prologue computes the tile
    double free_at(std::int64_t version) const {
      return version < depth ? 0 : released[static_cast<std::size_t>(version - depth)];
    }
  };

  struct Transfer {
    std::size_t operand = 0;
    std::int64_t version = 0, bytes = 0;
    std::int64_t piece = 0;  ///< index over all versions
    std::int64_t place = 0;  ///< offset in bytes from the tensor's start
  };

  struct Step {
    std::int64_t versions[3] = {0, 0, 0};
    std::int64_t pieces[2] = {0, 0};  ///< index of the pieces of a and b, over all versions
    bool empty = false;               ///< a partial tile does not have this piece
    bool last_use[3] = {false, false, false};
    TileCycles unit{};
    bool stores = false;  ///< completes a result tile
    bool frees = false;   ///< is the last step of its version of the sums
  };

  /// Values common to tiles of one shape.
  struct Kind {
    TileCycles unit{};
    double finishing = 0;
    bool complete = false;
  };

  CostModel& model;
  const Nest& nest;
  const KernelPlan planned;
  /// Loads, computes and stores in order; cores that are walked together share them.
  struct Listing {
    std::vector<Step> steps{};
    std::vector<Transfer> loads{}, stores{};
    std::vector<double> finishing{};
    std::vector<Transfer> split[2]{};  ///< loads distributed over two queues
  };
  std::shared_ptr<Listing> listed = std::make_shared<Listing>();
  std::vector<Step>& steps = listed->steps;
  std::vector<Transfer>&loads = listed->loads, &stores = listed->stores;
  std::vector<double>& finishing = listed->finishing;
  std::vector<Ring> rings = std::vector<Ring>(model.tensors());  ///< of a, b, sums, leaves

  /// A DMA queue. Transfers run in order, split into requests, with a bounded number in flight.
  struct Queue {
    const std::vector<Transfer>* transfers = nullptr;
    std::size_t next = 0;
    std::int64_t left = 0;
    double free = 0, begun = 0;
    std::vector<double> in_flight{};
    std::size_t requests = 0;
  };

  // Defined in steps.cpp: lists loads, computes and stores in order.
  void list();
  void add(std::vector<Transfer>& transfers, std::size_t operand, std::int64_t version, const Extents& index,
           std::int64_t piece);
  void add_sources(std::size_t operand, std::int64_t version, const Extents& index);
  void add_leaves(const Extents& index);
  void make_rings(const std::int64_t (&versions)[3]);
  void load_pieces(const bool (&fetched)[2], const std::int64_t (&versions)[3], Extents index);
  void list_in_pieces(const std::vector<std::size_t>& loops, const TileWork& unit);
  double unfolded(const Step& step);
  double prepared(std::size_t operand, const Step& step);

  /// Tiles of an operand that one core fetches for all: times of arrival at this core, and of departure from its port.
  struct Sent {
    bool any = false;
    std::size_t port = 0;                  ///< port of the first core that fetches tiles
    std::size_t leaders = 1;               ///< number of cores that fetch in turn
    std::vector<const Transfer*> tiles;    ///< in order
    std::vector<double> fetched, through;  ///< times per tile
  };

  bool sent(const Transfer& transfer) const { return transfer.operand < 2 && sending[transfer.operand].any; }

  /// Time at which the buffer of a loaded tile is free: its own buffer, or the buffer from which it is sent.
  double buffer_at(const Transfer& transfer) const {
    if (!sent(transfer)) return rings[transfer.operand].free_at(transfer.version);
    const Sent& tiles = sending[transfer.operand];
    const std::size_t loaded = tiles.fetched.size();
    const std::size_t before = static_cast<std::size_t>(sending_buffers) * tiles.leaders;
    if (loaded < before) return 0;
    return tiles.through.size() + before <= loaded ? unknown : tiles.through[loaded - before];
  }

  std::size_t port_of(const Transfer& transfer) const {
    if (!sent(transfer)) return 0;
    const Sent& tiles = sending[transfer.operand];
    return tiles.port + static_cast<std::size_t>(transfer.version) % tiles.leaders;
  }

  /// Number of cores whose queues fetch the operand.
  std::int64_t leaders_of(const Transfer& transfer) const {
    return sent(transfer) ? static_cast<std::int64_t>(sending[transfer.operand].leaders) : 1;
  }

  double pass_ports(const Transfer& transfer, double cycles, double now);

  /// Earliest time of a queue's next request; `unknown` if times on which it depends are not known yet.
  double ready_at(const Queue& queue, bool store) const {
    if (queue.next >= queue.transfers->size()) return unknown;
    const double passed = port_free[port_of((*queue.transfers)[queue.next])];
    double at = std::max({queue.free, passed - port_room, memory_free - model.one_way_ - model.memory_room_});
    if (model.link_rate_ > 0) at = std::max(at, link_free[store && !model.links_meet_] - model.link_room_);
    const auto window =
        static_cast<std::size_t>(std::min<std::int64_t>(64, window_each * leaders_of((*queue.transfers)[queue.next])));
    if (queue.requests >= window) at = std::max(at, queue.in_flight[(queue.requests - window) & 63]);
    if (queue.left > 0) return at;
    const Transfer& transfer = (*queue.transfers)[queue.next];
    if (store && queue.next >= stored.size()) return unknown;
    const double wanted = store ? stored[queue.next] : buffer_at(transfer);
    return wanted == unknown ? unknown : std::max(at, wanted);
  }

  /// Frees sums that cover several tiles after their last store.
  void free_sums(const Queue& queue, std::int64_t version, double at) {
    const bool more = queue.next < stores.size() && stores[queue.next].version == version;
    if (!more) rings[2].released[static_cast<std::size_t>(version)] = at;
  }

  /// Whether the queue's next transfer is a source of the same computed tile.
  static bool more_sources(const Queue& queue, const Transfer& transfer) {
    if (queue.next >= queue.transfers->size()) return false;
    const Transfer& next = (*queue.transfers)[queue.next];
    return next.operand == transfer.operand && next.piece == transfer.piece;
  }

  /// Cycles of the busiest link for these bytes.
  double over_links(std::int64_t place, std::int64_t bytes) {
    in_regions.assign(in_regions.size(), 0);
    model.add_regions(place, bytes, in_regions);
    in_regions[home] = 0;
    return static_cast<double>(*std::max_element(in_regions.begin(), in_regions.end())) *
           static_cast<double>(in_regions.size()) / model.link_rate_;
  }

  /// Chooses the region of the core that is furthest from its tiles, because other cores wait for this core. A single
  /// core is in the first region.
  void find_home() {
    if (model.link_rate_ <= 0) return;
    for (const auto* transfers : {&loads, &stores})
      for (const Transfer& transfer : *transfers) model.add_regions(transfer.place, transfer.bytes, in_regions);
    if (model.links_meet_)
      home = static_cast<std::size_t>(std::min_element(in_regions.begin(), in_regions.end()) - in_regions.begin());
  }

  /// Completion time of a request if this core has its share of the memory.
  double answered(const Transfer& transfer, std::int64_t place, std::int64_t bytes, bool store, double now) {
    const double own = static_cast<double>(bytes) / model.memory_rate_;
    const double served = transfer.operand < 2 ? own / fetched_for[transfer.operand] : own;
    to_serve -= served;
    const Share::Memory& memory = model.machine_.memory;
    const std::int64_t spread = std::clamp<std::int64_t>(ceil_div(bytes, memory.interleave_bytes), 1, memory.channels);
    const double alone = own * static_cast<double>(memory.channels) /
                         static_cast<double>(spread * model.problem_.cores) *
                         model.meeting(transfer.operand, static_cast<double>(bytes));
    memory_free = std::max(memory_free, now + model.one_way_) + served;
    double done = memory_free + std::max(0.0, alone - served) + model.store_wait_ - model.one_way_;
    if (port_rate > 0)
      done = std::max(done, pass_ports(transfer, static_cast<double>(bytes) / port_rate, now) + model.store_wait_);
    if (model.link_rate_ > 0) {
      const double crossing = over_links(place, bytes);
      if (crossing > 0) {
        double& link = link_free[store && !model.links_meet_];
        link = std::max(link, now) + crossing;
        done = std::max(done + model.further_, link) + (store ? 0 : model.further_);
      }
    }
    return store ? done : done + model.one_way_;
  }

  void request(Queue& queue, bool store, double now) {
    const Transfer& transfer = (*queue.transfers)[queue.next];
    const DmaSpec& dma = model.machine_.core.dma;
    if (queue.left == 0) {
      queue.left = transfer.bytes;
      queue.begun = now;
      now += static_cast<double>(dma.issue_cycles);
    }
    const std::int64_t bytes = std::min(queue.left, chunk);
    const std::int64_t place = transfer.place + transfer.bytes - queue.left;
    const std::int64_t address = std::max<std::int64_t>(0, begins[transfer.operand] + place);
    if (const double at = channels ? channels->room(address, bytes, now, store, core) : now; at > now) {
      queue.free = std::max(at, now + 1);  // the channel is full
      return;
    }
    const double done =
        channels ? channels->request(address, bytes, now, store, core) : answered(transfer, place, bytes, store, now);
    if (queue.in_flight.empty()) queue.in_flight.assign(64, 0);
    queue.in_flight[queue.requests++ & 63] = done;
    queue.free = now + static_cast<double>(ceil_div(bytes, dma.bytes_per_cycle * leaders_of(transfer)));
    queue.left -= bytes;
    finish = std::max(finish, done);
    if (queue.left > 0) return;
    const double complete = done + static_cast<double>(dma.latency_cycles);
    finish = std::max(finish, complete);
    ++queue.next;
    if (!store && sent(transfer)) {
      sending[transfer.operand].fetched.push_back(complete);
      sending[transfer.operand].tiles.push_back(&transfer);
    } else if (!store) {
      Ring& ring = rings[transfer.operand];
      if (!model.computed(transfer.operand))
        ring.ready[static_cast<std::size_t>(transfer.piece)] = complete;
      else if (!more_sources(queue, transfer))
        ring.arrived[static_cast<std::size_t>(transfer.piece)] = complete;
    } else if (model.problem_.epilogue_functions == 0) {
      free_sums(queue, transfer.version, complete);
    } else {
      outputs.push_back(complete);
    }
  }

  double send_at(const Sent& tiles) const;
  void send(Sent& tiles, double now);
  void find_sends();

  /// Time at which the operand's tile or piece for a step is ready; `unknown` if not known yet.
  double there(std::size_t operand, const Step& step) {
    if (operand == 0 && nest.unfold > 0) return unfolded(step);
    if (model.computed(operand)) return prepared(operand, step);
    return rings[operand].ready[static_cast<std::size_t>(step.pieces[operand])];
  }

  /// The buffers from which the unit reads an operand.
  Ring& read_ring(std::size_t operand) { return operand == 0 && nest.unfold > 0 ? rows : rings[operand]; }

  /// Computes all tiles whose operands are ready; returns whether there was such a tile.
  bool compute() {
    bool moved = false;
    for (; next_step < steps.size(); ++next_step, moved = true) {
      const Step& step = steps[next_step];
      double start = unit_free;
      for (std::size_t operand = 0; operand < 2 && !step.empty; ++operand) {
        const double ready = there(operand, step);
        if (ready == unknown) return moved;
        start = std::max(start, ready);
      }
      const double sums = rings[2].free_at(step.versions[2]);
      if (sums == unknown) return moved;
      start = std::max(start, sums);
      const bool drained = start > unit_free || next_step == 0;  // loading this tile's weights is not hidden
      const auto lies = static_cast<std::size_t>(step.unit.kept);
      const bool held = step.unit.kept >= 0 && next_step > 0 && steps[next_step - 1].unit.kept == step.unit.kept &&
                        steps[next_step - 1].versions[lies] == step.versions[lies];
      to_compute -= static_cast<double>(step.unit.busy);
      const double end = start + static_cast<double>(step.unit.busy + (drained && !held ? step.unit.first : 0));
      const auto drain = static_cast<double>(step.unit.drain);
      unit_free = end;
      for (std::size_t operand = 0; operand < 2; ++operand)
        if (step.last_use[operand]) read_ring(operand).released[static_cast<std::size_t>(step.versions[operand])] = end;
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

  /// Runs epilogues in order. Each needs one of two output buffers.
  bool finish_tiles() {
    bool moved = false;
    for (; stored.size() < pending.size(); moved = true) {
      const std::size_t i = stored.size();
      if (i >= 2 && outputs.size() < i - 1) return moved;
      double start = std::max({vector_free, pending[i], i >= 2 ? outputs[i - 2] : 0});
      for (std::size_t leaf = 3; leaf < model.outputs(); ++leaf) {
        if (model.problem_.leaves[leaf - 3].of != 2) continue;
        if (rings[leaf].ready[i] == unknown) return moved;
        start = std::max(start, rings[leaf].ready[i]);
      }
      vector_free = start + finishing[i];
      for (std::size_t leaf = 3; leaf < model.outputs(); ++leaf) rings[leaf].released[i] = vector_free;
      stored.push_back(vector_free + static_cast<double>(model.machine_.core.vector.latency));
      if (frees[i] >= 0) rings[2].released[static_cast<std::size_t>(frees[i])] = vector_free;
    }
    return moved;
  }

  /// Sets the rate of the core's port on a simple network. Queues share the port; the longest-waiting queue is first.
  void see_port() {
    const Share::Network& network = model.machine_.network;
    if (network.kind != "simple") return;
    const double cycle =
        static_cast<double>(network.clock.hertz) / static_cast<double>(model.machine_.core.clock.hertz);
    port_rate = static_cast<double>(network.port_bytes_per_cycle) * cycle;
    port_room = static_cast<double>(network.buffer_bytes) / port_rate;
  }

  void size_requests();

  void prepare(bool in_two) {
    see_port();
    find_home();
    find_sends();
    size_requests();
    two = in_two || sending[1].port > 0;
    queues[0].transfers = queues[1].transfers = &loads;
    queues[2].transfers = &stores;
    if (!two) return;
    std::vector<Transfer>(&split)[2] = listed->split;
    for (const Transfer& transfer : loads) {  // inputs of the vector unit share the second operand's queue
      if (split[0].size() + split[1].size() == loads.size()) break;
      split[transfer.operand == 0 && !model.computed(0) ? 0 : 1].push_back(transfer);
    }
    for (std::size_t operand = 0; operand < 2; ++operand) queues[operand].transfers = &split[operand];
  }

  /// Time of the next request or send; `unknown` if none is left.
  double next() {
    while (compute() || (model.problem_.epilogue_functions > 0 && finish_tiles())) continue;
    const double times[5] = {ready_at(queues[0], false), two ? ready_at(queues[1], false) : unknown,
                             ready_at(queues[2], true), send_at(sending[0]), send_at(sending[1])};
    chosen = -1;
    for (int i = 0; i < 5; ++i)
      if (times[i] != unknown && (chosen < 0 || times[i] < times[chosen])) chosen = i;
    return chosen < 0 ? unknown : times[chosen];
  }

  /// Performs the request or send that `next` chose.
  void advance(double now) {
    const auto at = static_cast<std::size_t>(chosen);
    if (at < 3)
      request(queues[at], at == 2, now);
    else
      send(sending[at - 3], now);
  }

  double cycles() const {
    const bool done = next_step == steps.size() && queues[2].next == stores.size();
    return done ? std::max(finish, unit_free) : std::numeric_limits<double>::infinity();
  }

  /// Runs the walk; returns infinity once the remaining work exceeds `limit`.
  double run(bool in_two, double limit) {
    prepare(in_two);
    for (double now = next(); now != unknown; now = next()) {
      if (std::max(unit_free + to_compute, memory_free + to_serve) > limit)
        return std::numeric_limits<double>::infinity();
      advance(now);
    }
    return cycles();
  }

  std::vector<Queue> queues = std::vector<Queue>(3);  ///< load queue, second operand's load queue, store queue
  bool two = false;
  int chosen = -1;               ///< index of a queue; 3 and 4: sends of a and b
  Channels* channels = nullptr;  ///< common to all cores, if all cores are walked
  std::size_t core = 0;          ///< this core's index in `channels`
  std::vector<std::int64_t> begins =
      std::vector<std::int64_t>(model.tensors());  ///< per tensor: offset of the core's part in memory
  std::vector<double> stored{}, pending{}, outputs{};
  std::vector<std::int64_t> frees{};  ///< per result tile: version of the sums that its epilogue frees; -1: none
  std::size_t next_step = 0;
  std::vector<std::int64_t> in_regions{};  ///< bytes per region
  std::size_t home = 0;                    ///< region of this core
  double link_free[2] = {0, 0};            ///< of loads; of stores if links are separate
  double fetched_for[2] = {1, 1};          ///< per operand: number of cores that share a fetch
  double preparing[2] = {0, 0};            ///< per operand: vector unit cycles per computed tile
  double port_rate = 0, port_room = 0;     ///< bytes per core cycle; cycles of data that fit the buffer
  std::vector<double> port_free{0};        ///< of this core, of cores that fetch for all, of one that does not fetch
  Ring rows{};                             ///< ring of unfolded tiles
  std::int64_t chunk = model.chunk_, window_each = model.window_;  ///< bytes per request; requests in flight per queue
  double to_compute = 0, to_serve = 0;                             ///< remaining cycles of steps; of memory
  double memory_free = 0, unit_free = 0, vector_free = 0, lanes_free = 0, finish = 0;
  std::vector<Sent> sending = std::vector<Sent>(2);  ///< per operand
};

}  // namespace tilesim::mapping
