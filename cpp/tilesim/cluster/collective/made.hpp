// Builds the schedule of a collective's algorithm for a request.
#pragma once

#include <memory>
#include <variant>

#include "tilesim/cluster/collective/collective.hpp"

namespace tilesim::cluster {

using Made = std::variant<Template, Schedule>;

/// The messages of a named algorithm on the axes of its devices (empty: one axis of ports).
Made make(const Network& network, const Request& request, const std::optional<std::vector<Axis>>& axes);

/// A program ready for timing, and its translations.
struct Prepared {
  std::shared_ptr<const Program> program;
  Turns turns;
};
/// `shared`: images of a message may use the same link.
Prepared prepare(const Made& made, const Network& network, const std::vector<int>& places, bool shared);
/// Seconds per byte of the request on the busiest link, which bound the arrival of the last message from below.
double busiest(const Network& network, const Made& made, const std::vector<int>& places);

/// The same after checking the request: sorts devices if their order has no meaning, and replaces "auto" by an
/// algorithm.
Made made_of(const Network& network, Request& request);

}  // namespace tilesim::cluster
