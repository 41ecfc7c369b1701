// The resources of a core that kernels of vector computes use.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tilesim/machine/share.hpp"

namespace tilesim {

/// A core's units, with the meaning that kernels give them (isa/pipeline/machine_core.cpp). Times in cycles.
struct VectorUnits {
  VectorUnits() = default;
  explicit VectorUnits(const Share& machine) {
    const VectorSpec& vector = machine.core.vector;
    const CrossLaneSpec& crossing = machine.core.cross_lane;
    const IsaSpec& isa = machine.core.isa;
    lanes = vector.lanes;
    const std::int64_t vlen = isa.vlen > 0 ? isa.vlen : 32 * vector.lanes * vector.sublanes;
    rows = std::max<std::int64_t>(1, vlen / 32 / lanes);
    bits = static_cast<double>(vlen);
    cost = {vector.simple, vector.multiply, vector.divide, vector.transcendental};
    issue = static_cast<double>(std::clamp<std::int64_t>(vector.issue, 1, 8));
    latency = static_cast<double>(vector.latency);
    reduce_latency = static_cast<double>(vector.reduce_latency);
    port = isa.port_bytes > 0 ? bits / 8 / static_cast<double>(isa.port_bytes) : 1;
    loads = static_cast<double>(isa.loads), stores = static_cast<double>(isa.stores);
    load_latency = static_cast<double>(isa.load_latency) + 1;
    pass = bits / 8 / static_cast<double>(crossing.bytes_per_cycle);
    cross_latency = static_cast<double>(crossing.latency);
    width = static_cast<double>(isa.width);
  }
  std::int64_t lanes = 1, rows = 1;  ///< per register
  double bits = 32;
  std::array<double, 4> cost{};
  double issue = 1, latency = 1, reduce_latency = 0, port = 1, loads = 1, stores = 1, load_latency = 1, pass = 1,
         cross_latency = 1, width = 1;
  friend bool operator==(const VectorUnits&, const VectorUnits&) = default;
};

}  // namespace tilesim
