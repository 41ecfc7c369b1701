// The table of algorithms: which operations they perform, their messages, and their formulas.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "tilesim/cluster/collective/collective.hpp"

namespace tilesim::cluster {

using Made = std::variant<Template, Schedule>;

/// A request with the axes of its devices.
struct Asked {
  const Network& network;
  const Request& request;
  std::vector<Axis> axes;  ///< one axis of ports if the devices do not form a box in the network
  bool box = true;
  std::int64_t devices() const { return static_cast<std::int64_t>(request.places.size()); }
  std::int64_t pieces() const { return std::max(1, request.choice.pieces); }
};
/// `axes` is empty if the devices do not form a box.
Asked asked(const Network& network, const Request& request, const std::vector<Axis>* axes);

/// A row of the table: an algorithm for some operations. A new algorithm is a row and the functions that it names.
struct Algorithm {
  std::string_view name;
  std::vector<Operation> operations;
  bool (*tried)(const Asked&);              ///< whether "auto" considers it
  Made (*make)(const Asked&);               ///< its messages; throws Unsupported for devices that it does not serve
  std::int64_t (*transfers)(const Asked&);  ///< approximate number of transfers of its list, before that is made
  std::optional<Closed> (*time)(const Setting&);  ///< its formula; null: none
  std::int64_t (*sent)(const Asked&) = nullptr;   ///< least number of messages of a member; null: by the transfers
};
/// All rows; those of an operation in the order in which "auto" considers them.
const std::vector<Algorithm>& algorithms();
/// The row of a name for an operation; null if there is none.
const Algorithm* find_algorithm(Operation operation, std::string_view name);

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
