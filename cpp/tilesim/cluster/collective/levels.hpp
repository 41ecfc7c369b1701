// Times of collectives over several axes that have ports. One device stands for all; its messages are timed one by one.
#pragma once

#include "tilesim/cluster/collective/closed.hpp"

namespace tilesim::cluster {

/// Whether each device has separate links on every axis: ports, or a link to every other member.
bool own_links(const std::vector<Axis>& axes);
/// Whether a chain of all members in order uses no link twice; includes rings.
bool own_hops(const std::vector<Axis>& axes);

/// Time of `direct` over axes with separate links: gathers, scatters, sums, all_to_all.
std::int64_t direct_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// Time of `hierarchical` in pieces; each level is one batch of messages that are ready together.
std::int64_t levels_in_pieces(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes,
                              std::int64_t pieces);
/// Time of flat rings through nodes: the first axis is inside the node, the second between nodes; there are as many
/// rings as members per node. A repeating pattern is walked once.
std::int64_t rings_through(Operation operation, const Axis& inside, const Axis& between, std::int64_t bytes);
/// Time of `halving-doubling` of a power of two, step by step; an estimate over trunks.
std::optional<Closed> halving_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// Time of a broadcast from a root: along a chain of separate links in `pieces`, or direct over separate links.
std::int64_t chain_over(const std::vector<Axis>& axes, int root, std::int64_t bytes, std::int64_t pieces);
std::int64_t root_to_all(const std::vector<Axis>& axes, int root, std::int64_t bytes);

}  // namespace tilesim::cluster
