#include "tilesim/engine/memory/routed.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::engine {

namespace {

enum MessageClass : std::uint32_t { requests, answers };

constexpr std::int64_t longest_line = 2;            // one packet is sent, one waits
constexpr std::int64_t longest_quiet = 10'000'000;  // cycles without a delivery

noc::RouterSpec routers(const NetworkSpec& network) {
  noc::RouterSpec spec;
  spec.virtual_channels = static_cast<int>(network.virtual_channels);
  spec.buffer_flits = static_cast<int>(network.virtual_channel_flits);
  spec.switch_cycles = static_cast<int>(network.switch_cycles);
  spec.credit_cycles = static_cast<int>(network.credit_cycles);
  const int half = spec.virtual_channels / 2;
  spec.classes = {{"requests", 0, half}, {"answers and sends", half, spec.virtual_channels - half}};
  return spec;
}

}  // namespace

RoutedMemory::RoutedMemory(const Machine& machine, const noc::Topology& topology, std::unique_ptr<MemoryNodes> memory)
    : core_(machine.core.clock),
      spec_(machine.network),
      cores_(machine.core.count),
      channels_(machine.memory.channels),
      interleave_(std::max(machine.memory.interleave_bytes, machine.memory.burst_bytes)),
      packet_bytes_(std::max(machine.network.packet_bytes, machine.memory.burst_bytes)),
      burst_(machine.memory.burst_bytes),
      topology_(topology),
      network_(noc::flit_network(topology, routers(machine.network), 1)),
      memory_(std::move(memory)),
      regions_(machine),
      spread_(regions_.channels(), interleave_, dram::channel_hash_of(machine.memory.channel_hash)),
      region_bytes_(static_cast<std::size_t>(regions_.regions() * regions_.regions()), 0) {
  const std::int64_t ports = spec_.ports_per_core;
  place_nodes(cores_ * ports + channels_);
  for (std::int64_t i = 0; i < cores_ * ports; ++i) {
    Port& port = ports_.emplace_back();
    port.node = places_[static_cast<std::size_t>(i)];
    port.core = static_cast<std::uint32_t>(i / ports);
    port.number = static_cast<std::uint32_t>(i % ports);
    const std::string& priority = machine.core_at(i / ports).dma.priority;
    port.loads_first = priority == "loads", port.stores_first = priority == "stores";
  }
  const std::int64_t places = std::max<std::int64_t>(1, machine.memory.buffer_bytes / packet_bytes_);
  for (std::int64_t c = 0; c < channels_; ++c)
    network_->limit(places_[static_cast<std::size_t>(cores_ * ports + c)], requests, places);
}

/// Assigns equal numbers of nodes to regions, in order.
void RoutedMemory::place_nodes(std::int64_t endpoints) {
  const auto nodes = static_cast<std::int64_t>(topology_.nodes.size());
  const std::int64_t regions = regions_.regions(), ports = endpoints - channels_;
  if (nodes / regions < endpoints / regions)
    throw UserError({"the network has too few nodes for the machine",
                     "network.kind",
                     topology_.name + ": " + std::to_string(nodes) + " nodes",
                     "at least " + std::to_string(endpoints) + ": " + std::to_string(cores_) + " x " +
                         std::to_string(spec_.ports_per_core) + " core ports, " + std::to_string(channels_) +
                         " channels" + (regions > 1 ? ", as many in each region" : ""),
                     {}});
  places_.resize(static_cast<std::size_t>(endpoints));
  for (std::int64_t r = 0; r < regions; ++r)
    place_region(r, r * (nodes / regions), ports / regions, channels_ / regions);
}

/// Spreads ports and channels evenly over node numbers; the topology determines where nodes are.
void RoutedMemory::place_region(std::int64_t region, std::int64_t first_node, std::int64_t ports,
                                std::int64_t channels) {
  const std::int64_t endpoints = ports + channels;
  std::int64_t port = 0, channel = 0;
  for (std::int64_t node = 0; node < endpoints; ++node) {
    const bool is_channel = channel < channels && (port == ports || (channel + 1) * endpoints <= (node + 1) * channels);
    const std::int64_t place =
        is_channel ? cores_ * spec_.ports_per_core + region * channels + channel++ : region * ports + port++;
    places_[static_cast<std::size_t>(place)] = static_cast<std::uint32_t>(first_node + node);
  }
}

std::uint32_t RoutedMemory::flits(std::int64_t data) const {
  const std::int64_t bytes = data == 0 ? spec_.control_bytes : data + spec_.header_bytes;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, ceil_div(bytes, spec_.flit_bytes)));
}

std::uint32_t RoutedMemory::new_piece(std::uint64_t tag, std::int64_t bytes, std::int64_t now) {
  const std::int64_t here = cycles_at_or_after({now, core_.hertz}, spec_.clock);
  if (open_pieces_++ == 0 && network_->now() < here) network_->advance(here);
  if (free_requests_.empty()) {
    free_requests_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const std::uint32_t id = free_requests_.back();
  free_requests_.pop_back();
  requests_[id] = {tag, bytes};
  return id;
}

void RoutedMemory::add(std::uint32_t port, Kind kind, const Run& run) {
  Port& own = ports_[port];
  own.lines[kind].push_back(run);
  if (own.active) return;
  own.active = true;
  active_ports_.insert(std::upper_bound(active_ports_.begin(), active_ports_.end(), port), port);
}

Offered RoutedMemory::offer(const Request& request, std::uint64_t tag, std::int64_t now) {
  if (request.pattern && request.pattern->known) {
    std::int64_t whole = 0;
    const auto bursts = [&](std::int64_t address, std::int64_t bytes) {
      return std::pair(address / burst_ * burst_, round_up(address + bytes, burst_));
    };
    request.pattern->for_runs(request.offset, request.bytes, [&](std::int64_t address, std::int64_t bytes) {
      const auto [begin, end] = bursts(address, bytes);
      whole += end - begin;
    });
    const std::uint32_t piece = new_piece(tag, whole, now);
    padding_ += whole - request.bytes;
    requests_[piece].pattern = request.pattern;
    request.pattern->for_runs(request.offset, request.bytes, [&](std::int64_t address, std::int64_t bytes) {
      const auto [begin, end] = bursts(address, bytes);
      add_run(piece, request, begin, end);
    });
    return Offered::later();
  }
  const std::int64_t begin = request.address / burst_ * burst_;
  const std::int64_t end = round_up(request.address + request.bytes, burst_);
  const std::uint32_t piece = new_piece(tag, end - begin, now);
  padding_ += end - begin - request.bytes;
  requests_[piece].pattern = request.pattern;
  add_run(piece, request, begin, end);
  return Offered::later();
}

/// Splits contiguous bursts into runs on one channel each.
void RoutedMemory::add_run(std::uint32_t piece, const Request& request, std::int64_t begin, std::int64_t end) {
  const std::int64_t first_port = request.core * spec_.ports_per_core, home = regions_.home(request.core);
  const auto add_part = [&](std::int64_t region, std::int64_t address, std::int64_t bytes) {
    const std::int64_t from = request.write ? home : region, to = request.write ? region : home;
    region_bytes_[static_cast<std::size_t>(from * regions_.regions() + to)] += bytes;
    for (std::int64_t at = address; at < address + bytes;) {
      const std::int64_t next = std::min(address + bytes, (at / interleave_ + 1) * interleave_);
      const dram::ChannelMap::Target target = spread_.locate(static_cast<std::uint64_t>(at));
      const std::int64_t channel = region * regions_.channels() + target.channel;
      add(static_cast<std::uint32_t>(first_port + channel % spec_.ports_per_core), request.write ? write : read,
          {target.address, piece, static_cast<std::uint32_t>(next - at), static_cast<std::uint32_t>(channel)});
      at = next;
    }
  };
  if (regions_.regions() == 1)
    add_part(0, begin, end - begin);
  else
    regions_.split(begin, end - begin, home,
                   [&](const RegionMap::RegionRange& own) { add_part(own.region, own.address, own.bytes); });
}

/// Busy time of links: cycles in which they pass any flits; the maximum over parallel links.
std::vector<MemorySystem::Link> RoutedMemory::links() const {
  const std::int64_t regions = regions_.regions();
  std::vector<MemorySystem::Link> all;
  for (std::int64_t i = 0; regions > 1 && i < regions * regions; ++i)
    all.push_back({i / regions, i % regions, region_bytes_[static_cast<std::size_t>(i)], 0});
  if (all.empty() || topology_.router_regions.empty()) return all;
  const std::vector<std::int64_t> flits = network_->link_flits();
  for (std::size_t i = 0; i < flits.size(); ++i) {
    const noc::Topology::Link& link = topology_.links[i];
    const std::int64_t from = topology_.router_regions[static_cast<std::size_t>(link.from)],
                       to = topology_.router_regions[static_cast<std::size_t>(link.to)];
    if (from == to) continue;
    std::int64_t& busy = all[static_cast<std::size_t>(from * regions + to)].busy;
    const std::int64_t cycles = ceil_div(flits[i] * link.per_flit, std::int64_t{link.per_cycle});
    busy = std::max(busy, cycles_at_or_after({cycles, spec_.clock.hertz}, core_));
  }
  return all;
}

void RoutedMemory::send(std::int64_t from, std::int64_t to, std::int64_t bytes, std::uint64_t tag, std::int64_t now) {
  const std::int64_t whole = std::max<std::int64_t>(bytes, 1), ports = spec_.ports_per_core;
  const std::uint32_t piece = new_piece(tag, whole, now);
  const std::int64_t share = ceil_div(whole, ports);
  for (std::int64_t p = 0, left = whole; left > 0; ++p, left -= share)
    add(static_cast<std::uint32_t>(from * ports + p), message,
        {0, piece, static_cast<std::uint32_t>(std::min(left, share)), static_cast<std::uint32_t>(to)});
}

/// Whether the port has a load or store to send; sets `kind` to the kind of the next one.
bool RoutedMemory::request_line(Port& port, Kind& kind) const {
  const bool loads = !port.lines[read].empty(), stores = !port.lines[write].empty();
  if (!loads && !stores) return false;
  if (loads && stores)
    kind = port.loads_first ? read : port.stores_first ? write : port.last == read ? write : read;
  else
    kind = loads ? read : write;
  return true;
}

bool RoutedMemory::inject_line(Port& port, std::uint32_t id, Kind kind) {
  const std::uint32_t message_class = kind == message ? answers : requests;
  if (network_->line(port.node, message_class) >= longest_line) return false;
  Run& run = port.lines[kind].front();
  std::int64_t bytes = std::min<std::int64_t>(run.bytes, packet_bytes_);
  if (kind != message) {  // packets end at multiples of their size
    const std::int64_t room =
        packet_bytes_ - static_cast<std::int64_t>(run.address % static_cast<std::uint64_t>(packet_bytes_));
    bytes = std::min(bytes, room);
  }
  if (free_packets_.empty()) {
    free_packets_.push_back(static_cast<std::uint32_t>(packets_.size()));
    packets_.emplace_back();
  }
  const std::uint32_t packet = free_packets_.back();
  free_packets_.pop_back();
  packets_[packet] = {run.address, run.piece, static_cast<std::uint32_t>(bytes), id, run.target, kind};
  const std::int64_t ports = spec_.ports_per_core;
  const std::int64_t to = kind == message ? run.target * ports + port.number : cores_ * ports + run.target;
  network_->inject(
      {port.node, places_[static_cast<std::size_t>(to)], flits(kind == read ? 0 : bytes), message_class, packet},
      network_->now());
  run.address += static_cast<std::uint64_t>(bytes);
  run.bytes -= static_cast<std::uint32_t>(bytes);
  if (run.bytes == 0) port.lines[kind].pop_front();
  if (kind != message) port.last = kind;
  return true;
}

/// Injects packets of the port. Returns whether any are left.
bool RoutedMemory::inject(Port& port) {
  const auto id = static_cast<std::uint32_t>(&port - ports_.data());
  Kind kind = read;
  while (request_line(port, kind) && inject_line(port, id, kind)) {
  }
  while (!port.lines[message].empty() && inject_line(port, id, message)) {
  }
  return !port.lines[read].empty() || !port.lines[write].empty() || !port.lines[message].empty();
}

void RoutedMemory::answer() {
  const std::int64_t first = cores_ * spec_.ports_per_core;
  for (std::int64_t c = 0; c < channels_; ++c) {
    auto& waiting = memory_->answers[static_cast<std::size_t>(c)];
    const std::uint32_t node = places_[static_cast<std::size_t>(first + c)];
    while (!waiting.empty() && waiting.front().cycle <= network_->now() &&
           network_->line(node, answers) < longest_line) {
      const std::uint32_t id = waiting.front().packet;
      const Packet& packet = packets_[id];
      network_->inject({node, ports_[packet.port].node, flits(packet.kind == read ? packet.bytes : 0), answers, id},
                       network_->now());
      network_->give_back(node, requests);
      waiting.pop_front();
    }
  }
}

void RoutedMemory::deliver() {
  auto& deliveries = network_->deliveries();
  if (deliveries.empty()) return;
  quiet_ = 0;
  for (const noc::Delivery& delivery : deliveries) {
    const auto id = static_cast<std::uint32_t>(delivery.packet.tag);
    const Packet packet = packets_[id];
    Traffic& traffic = traffic_[delivery.packet.message_class];
    ++traffic.packets;
    traffic.latency_cycles += delivery.delivered - delivery.created;
    if (delivery.packet.message_class == requests) {
      if (boundary_ < 0) boundary_ = delivery.delivered + memory_->step();
      memory_->take(packet.target,
                    {id, packet.address, packet.bytes, packet.kind == write, requests_[packet.piece].pattern},
                    delivery.delivered);
      continue;
    }
    free_packets_.push_back(id);
    RoutedRequest& piece = requests_[packet.piece];
    piece.left -= packet.bytes;
    if (piece.left > 0) continue;
    done_.push_back({piece.tag, cycles_at_or_after({delivery.delivered, spec_.clock.hertz}, core_)});
    free_requests_.push_back(packet.piece);
    --open_pieces_;
  }
  deliveries.clear();
}

void RoutedMemory::cycle() {
  if (boundary_ >= 0 && network_->now() >= boundary_) {
    memory_->advance(network_->now());
    boundary_ = memory_->active() ? network_->now() + memory_->step() : -1;
  }
  std::size_t kept = 0;
  for (const std::uint32_t id : active_ports_) {
    if (inject(ports_[id]))
      active_ports_[kept++] = id;
    else
      ports_[id].active = false;
  }
  active_ports_.resize(kept);
  answer();
  network_->advance(network_->now() + 1);
  deliver();
}

/// The first cycle with an event, if the network has no packets; otherwise the current cycle.
std::int64_t RoutedMemory::quiet_until(std::int64_t limit) const {
  if (!active_ports_.empty() || !network_->idle()) return network_->now();
  std::int64_t next = limit;
  if (boundary_ >= 0) next = std::min(next, boundary_);
  for (const auto& waiting : memory_->answers)
    if (!waiting.empty()) next = std::min(next, waiting.front().cycle);
  return std::max(next, network_->now());
}

void RoutedMemory::drain(std::int64_t until, CancelToken* cancel, std::vector<Done>& done) {
  const std::int64_t limit = cycles_at_or_after({until, core_.hertz}, spec_.clock);
  while (network_->now() < limit && done_.empty() && open_pieces_ > 0) {
    if (const std::int64_t next = quiet_until(limit); next > network_->now()) {
      network_->advance(next);
      continue;
    }
    cycle();
    if ((++quiet_ & 0xFFFF) == 0 && cancel != nullptr) cancel->poll();
    require(quiet_ < longest_quiet, "packets wait for each other in the network");
  }
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

}  // namespace tilesim::engine
