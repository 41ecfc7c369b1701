// Closed-form or short-simulation time of a collective, and the choice of its fastest algorithm.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/collective/made.hpp"

namespace tilesim::cluster {

struct CollectiveTime {
  Closed time;
  int classes = 1;
  std::int64_t messages = 0;  ///< sent one after another; 0: by formula
  bool formula = true;        ///< false: none, and the time is that of `chunks`
};

/// The time of a request without the network's faults, where there is a form. An algorithm that was not named is
/// chosen: the quickest of all that do the operation, of those that have no form the ones with few messages.
std::optional<CollectiveTime> form(const Network& network, Request& request,
                                   const std::optional<std::vector<Axis>>& axes);

/// All that "auto" looks at, each once it is timed.
struct Tried {
  Choice choice;
  CollectiveTime time;
};
/// Those that were timed; none is passed over because another is quicker.
std::vector<Tried> every_form(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes);

}  // namespace tilesim::cluster
