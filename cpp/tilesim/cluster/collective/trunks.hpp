// Load of an algorithm's steps on the trunks of a fat tree.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/cluster/collective/shape.hpp"

namespace tilesim::cluster {

/// Latency of a message between two members.
std::int64_t latency_between(const Axis& axis, int source, int target);
/// Whether members share links beyond the ports.
bool crosses(const Axis& axis);
/// Time until every member has sent to every other one by `direct`, in message times without latencies. Messages wait
/// for their whole route as in `chunks`, and block later ones. `twice`: then once more, as for a sum, each member as
/// soon as it has received all. For many members a sample of distances represents all.
double rounds_of_all(const Axis& axis, bool twice);
/// Largest latency of turns x (size - 1) consecutive hops around a ring of all members.
std::int64_t latency_round(const Axis& axis, int turns = 1);

}  // namespace tilesim::cluster
