// Builds the schedule of a collective's algorithm for a request.
#pragma once

#include <memory>
#include <variant>

#include "tilesim/cluster/collective/collective.hpp"

namespace tilesim::cluster {

using Made = std::variant<Template, Schedule>;

/// Of an algorithm that is named, on the axes of its devices (none: they are taken as one axis of ports).
Made make(const Network& network, const Request& request, const std::optional<std::vector<Axis>>& axes);

/// Ready to be timed.
struct Prepared {
  std::shared_ptr<const Program> program;
  Turns turns;
};
/// `shared`: images of a message may take one link.
Prepared prepare(const Made& made, const Network& network, const std::vector<int>& places, bool shared);
/// Seconds of the busiest link for each byte of the request: none of its messages' last arrives before that.
double busiest(const Network& network, const Made& made, const std::vector<int>& places);

/// The same of a request that is checked first, its devices sorted where their order means nothing, and its algorithm
/// chosen where it is "auto".
Made made_of(const Network& network, Request& request);

}  // namespace tilesim::cluster
