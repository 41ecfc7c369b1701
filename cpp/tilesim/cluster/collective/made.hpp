// Builds the schedule of a collective's algorithm for a request.
#pragma once

#include <memory>
#include <variant>

#include "tilesim/cluster/collective/collective.hpp"

namespace tilesim::cluster {

using Made = std::variant<Template, Schedule>;

/// The messages of a named algorithm on the axes of its devices (empty: one axis of ports).
Made make(const Network& network, const Request& request, const std::optional<std::vector<Axis>>& axes);

/// A program that is ready to be timed.
struct Prepared {
  std::shared_ptr<const Program> program;
  Turns turns;
};
/// `shared`: images of a message may use the same link.
Prepared prepare(const Made& made, const Network& network, const std::vector<int>& places, bool shared);
/// Seconds per byte of the request on the busiest link: a lower bound on the arrival of its last message.
double busiest(const Network& network, const Made& made, const std::vector<int>& places);

/// The same for a request that is checked first: sorts its devices if their order has no meaning, and chooses an
/// algorithm for "auto".
Made made_of(const Network& network, Request& request);

}  // namespace tilesim::cluster
