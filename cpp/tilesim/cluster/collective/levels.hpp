// Times of collectives over several axes with ports. One device represents all; its messages are timed one by one.
#pragma once

#include "tilesim/cluster/collective/closed.hpp"

namespace tilesim::cluster {

/// Whether each device has separate links on every axis: ports, or a link to every other member.
bool own_links(const std::vector<Axis>& axes);
/// Whether a chain of all members in order uses no link twice; this includes rings.
bool own_hops(const std::vector<Axis>& axes);

/// Time of `direct` over axes with separate links: gathers, scatters, sums, all_to_all.
std::int64_t direct_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// Time of `hierarchical` in pieces; the messages of a level become ready together.
std::int64_t levels_in_pieces(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes,
                              std::int64_t pieces);
/// Time of flat rings through nodes, as many rings as members per node: the first axis is inside the node, the second
/// between nodes. A repeating pattern is simulated once.
std::int64_t rings_through(Operation operation, const Axis& inside, const Axis& between, std::int64_t bytes);
/// Time of `halving-doubling` on a power of two devices, step by step, without trunks.
std::optional<Closed> halving_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// Time of a broadcast from a root: along a chain of separate links in `pieces`, or directly over separate links.
std::int64_t chain_over(const std::vector<Axis>& axes, int root, std::int64_t bytes, std::int64_t pieces);
std::int64_t root_to_all(const std::vector<Axis>& axes, int root, std::int64_t bytes);

}  // namespace tilesim::cluster
