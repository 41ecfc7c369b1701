// The simple network: a latency, and per core a port with bandwidth and a finite buffer.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/base/units.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::engine {

class Ports {
 public:
  explicit Ports(const Machine& machine)
      : core_(machine.core.clock),
        network_(machine.network),
        buffered_(machine.network.buffer_bytes / machine.network.port_bytes_per_cycle),
        ports_(static_cast<std::size_t>(machine.core.count), 0),
        busy_(ports_.size(), 0),
        one_way_(cycles_at_or_after({network_.latency_cycles, network_.clock.hertz}, core_)) {}

  std::int64_t one_way() const { return one_way_; }  ///< in core cycles
  /// Whether the port's buffer has space; otherwise `retry` is the first core cycle with space.
  bool has_room(std::int64_t core, std::int64_t now, std::int64_t& retry) const {
    const std::int64_t port = ports_[index(core)], here = network_cycle(now);
    if (port - here <= buffered_) return true;
    retry = std::max(now + 1, cycles_at_or_after({port - buffered_, network_.clock.hertz}, core_));
    return false;
  }
  /// Passes bytes through the port. Returns the core cycle of the last one.
  std::int64_t pass(std::int64_t core, std::int64_t bytes, std::int64_t now) {
    std::int64_t& port = ports_[index(core)];
    const std::int64_t cycles = ceil_div(bytes, network_.port_bytes_per_cycle);
    busy_[index(core)] += cycles;
    port = std::max(port, network_cycle(now)) + cycles;
    return cycles_at_or_after({port, network_.clock.hertz}, core_);
  }
  /// Undoes a core's last pass, whose bytes were not sent.
  void undo(std::int64_t core, std::int64_t bytes) {
    const std::int64_t cycles = ceil_div(bytes, network_.port_bytes_per_cycle);
    ports_[index(core)] -= cycles;
    busy_[index(core)] -= cycles;
  }
  /// Core cycles in which the busiest port moved bytes.
  std::int64_t longest_busy() const {
    return cycles_at_or_after({*std::max_element(busy_.begin(), busy_.end()), network_.clock.hertz}, core_);
  }
  struct Sent { std::int64_t through = 0, arrival = 0; };  ///< core cycles: at the source's port; at the last target
  /// Sends a tile from one core to others, through the source's port once and each destination's port. While it waits
  /// at its source, other transfers may pass the destinations' ports: it takes port time, not a queue position.
  std::optional<Sent> send(std::int64_t from, std::span<const std::int64_t> to, std::int64_t bytes, std::int64_t now,
                           std::int64_t& retry) {
    if (!has_room(from, now, retry)) return std::nullopt;
    for (const std::int64_t core : to)
      if (!has_room(core, now, retry)) return std::nullopt;
    const std::int64_t cycles = ceil_div(bytes, network_.port_bytes_per_cycle);
    const std::int64_t here = network_cycle(now),
                       left = ports_[index(from)] = std::max(ports_[index(from)], here) + cycles;
    std::int64_t last = left;
    busy_[index(from)] += cycles;
    for (const std::int64_t core : to) {
      std::int64_t& port = ports_[index(core)];
      if (core != from) port = std::max(port, here) + cycles, busy_[index(core)] += cycles;
      last = std::max(last, port);
    }
    return Sent{cycles_at_or_after({left, network_.clock.hertz}, core_),
                cycles_at_or_after({last + network_.latency_cycles, network_.clock.hertz}, core_)};
  }

 private:
  std::size_t index(std::int64_t core) const { return static_cast<std::size_t>(core) % ports_.size(); }
  std::int64_t network_cycle(std::int64_t now) const { return cycles_at_or_after({now, core_.hertz}, network_.clock); }

  Clock core_;
  NetworkSpec network_;
  std::int64_t buffered_;
  std::vector<std::int64_t> ports_, busy_;  ///< network cycles: end of use; busy time
  std::int64_t one_way_;
};

}  // namespace tilesim::engine
