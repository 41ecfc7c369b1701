// Times of collectives over several axes that have ports. One device stands for all; its messages are timed one by one.
#pragma once

#include "tilesim/cluster/collective/closed.hpp"

namespace tilesim::cluster {

/// Whether no link of any axis is shared by messages of several devices: ports, or a link to every other member.
bool own_links(const std::vector<Axis>& axes);
/// Whether a chain of all members in their order takes no link twice: circles as well.
bool own_hops(const std::vector<Axis>& axes);

/// `direct` over axes with separate links: gathers, scatters, sums, all_to_all.
std::int64_t direct_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// `hierarchical` in pieces, each level of which is one batch of messages that are ready together.
std::int64_t levels_in_pieces(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes,
                              std::int64_t pieces);
/// Flat rings through nodes: the first axis is inside the node, the second between nodes; as many as a node has
/// members. A pattern that comes again is not walked again.
std::int64_t rings_through(Operation operation, const Axis& inside, const Axis& between, std::int64_t bytes);
/// `halving-doubling` of a power of two, step after step; over trunks an estimate.
std::optional<Closed> halving_over(Operation operation, const std::vector<Axis>& axes, std::int64_t bytes);
/// Broadcasts from a root: down a chain of own hops to all members in `pieces`, and straight over own links.
std::int64_t chain_over(const std::vector<Axis>& axes, int root, std::int64_t bytes, std::int64_t pieces);
std::int64_t root_to_all(const std::vector<Axis>& axes, int root, std::int64_t bytes);

}  // namespace tilesim::cluster
