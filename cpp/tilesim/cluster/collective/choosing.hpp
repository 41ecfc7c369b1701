// Closed-form or short-simulation time of a collective, and the choice of its fastest algorithm.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/collective/made.hpp"

namespace tilesim::cluster {

struct CollectiveTime {
  Closed time;
  int classes = 1;
  std::int64_t messages = 0;  ///< number of consecutive messages; 0: time from a formula
  bool formula = true;        ///< false: no formula, and the time is that of `chunks`
};

/// Closed-form time of a request on the network without faults, if there is one. Chooses an algorithm if none is named:
/// the fastest for the operation, among those without a closed form the ones with few messages.
std::optional<CollectiveTime> form(const Network& network, Request& request,
                                   const std::optional<std::vector<Axis>>& axes);

/// The candidates of "auto", each timed once.
struct Tried {
  Choice choice;
  CollectiveTime time;
};
/// All candidates that were timed; a faster one does not exclude others.
std::vector<Tried> every_form(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes);

}  // namespace tilesim::cluster
