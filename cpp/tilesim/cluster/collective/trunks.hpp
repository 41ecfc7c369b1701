// Load that the steps of an algorithm put on the trunks of a fat tree.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/cluster/collective/shape.hpp"

namespace tilesim::cluster {

/// A step: how many times as long as on a port alone its messages take, and the latency of the farthest.
struct Load {
  double share = 1;
  std::int64_t latency = 0;
};

/// Of messages (source, target) that are sent at the same time; positions on the axis.
Load load_of(const Axis& axis, const std::vector<std::pair<int, int>>& messages);
/// Every member sends to the one `distance` further, modulo the size; or to the exclusive or of it.
Load load_of_shift(const Axis& axis, int distance, bool by_xor);
/// Whether links beyond the ports are shared.
bool crosses(const Axis& axis);
/// Times of one message until every member has sent to every other one, as `direct` does, without latencies: messages
/// wait for their whole way as in `chunks`, and hold up those behind them. `twice`: then once more, a member when all
/// has arrived, as a sum does. Of many members a part of the distances stands for all.
double rounds_of_all(const Axis& axis, bool twice);
/// Latency of turns x (size - 1) hops one after another round a ring of all members, from where it is most.
std::int64_t latency_round(const Axis& axis, int turns = 1);

}  // namespace tilesim::cluster
