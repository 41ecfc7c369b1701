// Links of one instance of a dimension, and routes between two of its members.
#pragma once

#include <vector>

#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

/// Number of links of one instance.
int links_of_instance(const Dimension& dimension);

/// Appends the links; `members` are the devices by coordinate, `next` the first free node number, which it advances.
void append_links(const Dimension& dimension, const std::vector<int>& members, int& next, std::vector<Link>& links);

/// Appends the numbers of the links from one member to another; `base` is the number of the instance's first link.
void append_route(const Dimension& dimension, int from, int to, int base, std::vector<int>& links);

/// Class of a link in an instance, equal for equivalent links of all members if coordinates are taken modulo `group`
/// (sizes of axes). Grids: axis and direction; switch: up or down; full: the distance, cyclic or by xor.
int class_of_link(const Dimension& dimension, int local, bool by_xor);

}  // namespace tilesim::cluster
