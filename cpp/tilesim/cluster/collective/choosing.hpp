// Closed-form or simulated time of a collective, and the choice of its fastest algorithm.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/collective/algorithms.hpp"

namespace tilesim::cluster {

struct CollectiveTime {
  Closed time;
  int classes = 1;
  std::int64_t messages = 0;  ///< number of consecutive messages; 0: the time follows from a formula
  bool formula = true;        ///< false: without a formula, the time is that of `chunks`
};

/// Time of a request on the network without faults; empty if the algorithm has no formula. Replaces "auto" by the
/// fastest algorithm that has a formula, or few messages, which are then simulated.
std::optional<CollectiveTime> form(const Network& network, Request& request,
                                   const std::optional<std::vector<Axis>>& axes);

/// The candidates of "auto", each timed once.
struct Tried {
  Choice choice;
  CollectiveTime time;
};
/// All timed candidates; a fast one does not exclude others.
std::vector<Tried> every_form(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes);

}  // namespace tilesim::cluster
