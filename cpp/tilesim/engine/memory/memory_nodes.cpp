// Memory channels as nodes of a network of routers.
#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/memory/dram_energy.hpp"
#include "tilesim/engine/memory/dram_traffic.hpp"
#include "tilesim/engine/memory/routed.hpp"

namespace tilesim::engine {

namespace {

constexpr std::int64_t picoseconds_per_second = 1'000'000'000'000;

/// x * numerator / denominator, rounded up.
class Ratio {
 public:
  Ratio(Int128 numerator, Int128 denominator) {
    Int128 a = numerator, b = denominator;
    while (b != 0) std::swap(a, b), b %= a;
    numerator_ = numerator / a, denominator_ = denominator / a;
    constexpr Int128 small = std::int64_t{1} << 31;
    short_ = numerator_ < small && denominator_ < small;
  }
  std::int64_t operator()(std::int64_t x) const {
    if (short_ && x < std::int64_t{1} << 31)
      return (x * static_cast<std::int64_t>(numerator_) + static_cast<std::int64_t>(denominator_) - 1) /
             static_cast<std::int64_t>(denominator_);
    return static_cast<std::int64_t>((x * numerator_ + denominator_ - 1) / denominator_);
  }

 private:
  Int128 numerator_ = 1, denominator_ = 1;
  bool short_ = true;
};

class IdealNodes final : public MemoryNodes {
 public:
  explicit IdealNodes(const Machine& machine) : MemoryNodes(machine), bytes_(answers.size(), 0) {}
  void take(std::size_t channel, const Arrival& arrival, std::int64_t cycle) override {
    bytes_[channel] += arrival.bytes;
    series.add(channel, cycle, arrival.bytes);
    answers[channel].push_back({cycle + 1, arrival.packet});
  }
  void advance(std::int64_t) override {}
  std::int64_t step() const override { return std::int64_t{1} << 40; }
  bool active() const override { return false; }
  std::vector<MemorySystem::Channel> channels(Clock) const override {
    std::vector<MemorySystem::Channel> result;
    for (const std::int64_t bytes : bytes_) result.push_back({0, bytes});
    return result;
  }

 private:
  std::vector<std::int64_t> bytes_;
};

/// Simulates a channel in cycles of one byte each, like the simple memory behind the simple network.
class SimpleNodes final : public MemoryNodes {
 public:
  explicit SimpleNodes(const Machine& machine)
      : MemoryNodes(machine),
        rate_(std::max<std::int64_t>(
            1, static_cast<std::int64_t>(static_cast<double>(machine.memory.bytes_per_second) *
                                         machine.memory.efficiency / static_cast<double>(machine.memory.channels)))),
        to_bytes_(rate_, machine.network.clock.hertz),
        to_cycles_(machine.network.clock.hertz, rate_),
        state_(answers.size()) {
    const Int128 latency = static_cast<Int128>(machine.memory.latency_ps) * machine.network.clock.hertz;
    latency_ = static_cast<std::int64_t>((latency + picoseconds_per_second - 1) / picoseconds_per_second);
  }

  void take(std::size_t channel, const Arrival& arrival, std::int64_t cycle) override {
    State& state = state_[channel];
    state.free = std::max(state.free, to_bytes_(cycle)) + arrival.bytes;
    state.bytes += arrival.bytes;
    const std::int64_t served = to_cycles_(state.free);
    series.add(channel, served, arrival.bytes);
    answers[channel].push_back({std::max(served + latency_, cycle + 1), arrival.packet});
  }
  void advance(std::int64_t) override {}
  std::int64_t step() const override { return std::int64_t{1} << 40; }
  bool active() const override { return false; }
  std::vector<MemorySystem::Channel> channels(Clock core) const override {
    std::vector<MemorySystem::Channel> result;
    for (const State& state : state_)
      result.push_back({static_cast<std::int64_t>(static_cast<Int128>(state.bytes) * core.hertz / rate_), state.bytes});
    return result;
  }

 private:
  struct State { std::int64_t free = 0, bytes = 0; };
  std::int64_t rate_;
  Ratio to_bytes_, to_cycles_;
  std::int64_t latency_ = 0;
  std::vector<State> state_;
};

/// A read's data is on the bus a fixed time after its command, so commands up to a tick determine all answers within
/// that time: channels and network alternate in steps of that time. A write, or a read answered from the write queue,
/// is acknowledged at the end of the step in which its channel accepted it.
class BankNodes final : public MemoryNodes {
 public:
  BankNodes(const Machine& machine, const dram::Part& part)
      : MemoryNodes(machine),
        burst_(static_cast<std::uint32_t>(part.burst_bytes)),
        energy_(part.energy),
        burst_cycles_(part.burst_cycles),
        banks_(part.banks()),
        clock_ps_(part.clock_ps),
        to_ticks_(picoseconds_per_second, static_cast<Int128>(machine.network.clock.hertz) * part.clock_ps),
        to_cycles_(static_cast<Int128>(machine.network.clock.hertz) * part.clock_ps, picoseconds_per_second),
        map_(part, machine.memory.mapping, dram::bank_hashes(machine.memory.bank_hash)),
        nodes_(answers.size(), Node{dram::Channel(part)}) {
    step_ = std::max<std::int64_t>(1, to_cycles_(part.read_latency) - 1);
    if (machine.memory.burst_bytes % part.burst_bytes != 0)
      throw UserError({"the machine's bursts must be a multiple of the part's",
                       "memory.burst_bytes",
                       std::to_string(machine.memory.burst_bytes) + " B",
                       "a multiple of " + std::to_string(part.burst_bytes) + " B (" + part.name + ")",
                       {}});
    for (Node& node : nodes_) node.channel.report_to(&completions_);
  }

  void take(std::size_t channel, const Arrival& arrival, std::int64_t cycle) override {
    Node& node = nodes_[channel];
    const std::int64_t tick = to_ticks_(cycle);
    for (std::uint32_t at = 0; at < arrival.bytes; at += burst_) {
      const dram::AddressMap::Location place = map_.locate(arrival.address + at);
      node.channel.offer({tick, arrival.address + at, place.row, arrival.packet, static_cast<std::uint8_t>(place.bank),
                          arrival.write});
      ++node.offered;
    }
    node.padding += round_up(std::int64_t{arrival.bytes}, std::int64_t{burst_}) - arrival.bytes;
    if (arrival.write) {
      node.writes.push_back({node.offered, arrival.packet, arrival.bytes});
    } else {
      if (arrival.packet >= left_.size()) left_.resize(arrival.packet + std::size_t{1}, 0);
      left_[arrival.packet] = (arrival.bytes + burst_ - 1) / burst_;
      ++node.reads;
    }
    if (!node.active) {
      node.active = true;
      active_.insert(std::upper_bound(active_.begin(), active_.end(), channel), channel);
    }
  }

  void advance(std::int64_t cycle) override {
    const std::int64_t tick = to_ticks_(cycle);
    std::size_t kept = 0;
    for (const std::size_t channel : active_) {
      Node& node = nodes_[channel];
      node.channel.advance(tick);
      collect(channel, cycle);
      node.active = node.reads > 0 || !node.writes.empty();
      if (node.active) active_[kept++] = channel;
    }
    active_.resize(kept);
  }

  std::int64_t step() const override { return step_; }
  bool active() const override { return !active_.empty(); }
  std::vector<MemorySystem::Channel> channels(Clock core) const override {
    std::vector<MemorySystem::Channel> result;
    for (const Node& node : nodes_) {
      MemorySystem::Channel one = traffic_of(drained(node.channel), burst_);
      const std::int64_t bursts = one.bytes / burst_;
      one.busy = static_cast<std::int64_t>(static_cast<Int128>(bursts * burst_cycles_ * clock_ps_) * core.hertz /
                                           picoseconds_per_second);
      one.padding = node.padding;
      result.push_back(one);
    }
    return result;
  }
  std::vector<MemorySystem::Bank> banks() const override {
    std::vector<MemorySystem::Bank> result;
    for (const Node& node : nodes_) add_banks(node.channel, banks_, result);
    return result;
  }

  std::vector<MemorySystem::Energy> energy() const override {
    if (!energy_.known()) return {};
    CommandCounts sum{};
    for (const Node& node : nodes_) add_commands(node.channel, sum);
    return command_energy(energy_, sum);
  }

 private:
  struct Write {
    std::int64_t accepted_with = 0;  ///< number of the channel's accepted bursts at which its last burst is accepted
    std::uint32_t packet = 0, bytes = 0;
  };
  struct Node {
    dram::Channel channel;
    std::deque<Write> writes{};  ///< not acknowledged
    std::int64_t offered = 0, reads = 0, padding = 0;
    bool active = false;
  };

  void collect(std::size_t channel, std::int64_t cycle) {
    Node& node = nodes_[channel];
    std::deque<Answer>& out = answers[channel];
    const dram::Counters& counters = node.channel.counters();
    const std::int64_t accepted = counters.reads + counters.writes;
    for (; !node.writes.empty() && node.writes.front().accepted_with <= accepted; node.writes.pop_front()) {
      series.add(channel, cycle, node.writes.front().bytes);
      auto place = out.end();  // answers to reads of later cycles are already known
      while (place != out.begin() && std::prev(place)->cycle > cycle) --place;
      out.insert(place, {cycle, node.writes.front().packet});
    }
    for (const dram::Completion& completion : completions_) {
      if (completion.write) continue;
      const std::int64_t at = std::max(to_cycles_(completion.tick), cycle);
      series.add(channel, at, burst_);
      if (--left_[completion.tag] > 0) continue;
      --node.reads;
      out.push_back({at, completion.tag});
    }
    completions_.clear();
  }

  std::uint32_t burst_;
  dram::CommandEnergy energy_;
  std::int64_t burst_cycles_, banks_, clock_ps_, step_ = 1;
  Ratio to_ticks_, to_cycles_;
  dram::AddressMap map_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> active_;
  std::vector<std::uint32_t> left_;  ///< per packet: bursts of a read in flight
  std::vector<dram::Completion> completions_;
};

}  // namespace

std::unique_ptr<MemoryNodes> ideal_nodes(const Machine& machine) { return std::make_unique<IdealNodes>(machine); }
std::unique_ptr<MemoryNodes> simple_nodes(const Machine& machine) { return std::make_unique<SimpleNodes>(machine); }
std::unique_ptr<MemoryNodes> bank_nodes(const Machine& machine, const dram::Part& part) {
  return std::make_unique<BankNodes>(machine, part);
}

}  // namespace tilesim::engine
