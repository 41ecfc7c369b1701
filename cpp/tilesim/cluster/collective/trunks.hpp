// Load that the steps of an algorithm put on the trunks of a fat tree.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/cluster/collective/shape.hpp"

namespace tilesim::cluster {

/// A step: time of its messages relative to a port alone, and the largest latency.
struct Load {
  double share = 1;
  std::int64_t latency = 0;
};

/// Load of messages (source, target) sent at the same time; positions on the axis.
Load load_of(const Axis& axis, const std::vector<std::pair<int, int>>& messages);
/// Load if every member sends to the one at `distance`, modulo the size, or at the exclusive or with it.
Load load_of_shift(const Axis& axis, int distance, bool by_xor);
/// Whether members share links beyond the ports.
bool crosses(const Axis& axis);
/// Time until every member has sent to every other one by `direct`, in message times without latencies: messages wait
/// for their whole route as in `chunks`, and block those behind them. `twice`: then once more, a member as soon as it
/// has received all, as for a sum. For many members, some of the distances represent all.
double rounds_of_all(const Axis& axis, bool twice);
/// Largest latency of turns x (size - 1) consecutive hops around a ring of all members.
std::int64_t latency_round(const Axis& axis, int turns = 1);

}  // namespace tilesim::cluster
