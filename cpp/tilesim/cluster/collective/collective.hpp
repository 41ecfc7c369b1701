// Collectives on a network: which algorithm, which model, and when they end.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/cluster/collective/closed.hpp"
#include "tilesim/cluster/collective/program.hpp"

namespace tilesim::cluster {

enum class Model : std::uint8_t { closed, chunks, flows };
/// Throws UserError with the nearest spelling.
Model model_of(const std::string& name);

/// One collective of one group of devices.
struct Request {
  Operation operation = Operation::all_reduce;
  std::int64_t bytes = 0;   ///< the larger of what a device puts in and takes out
  std::vector<int> places;  ///< devices by position
  Choice choice;
  std::vector<std::pair<int, int>> pairs;  ///< of permute_devices: positions
  std::optional<Schedule> custom;          ///< the user's algorithm
  std::int64_t start = 0;                  ///< picoseconds
};

struct Answer {
  std::int64_t picoseconds = 0;  ///< when the last device is done
  std::string algorithm, model;  ///< `model` "chunks" where `closed` was asked for and there is no formula
  bool exact = true;             ///< closed: no link is shared, the time of `chunks`
  int classes = 1;               ///< simulated; closed: 1
  int pieces = 0;                ///< that were asked for or chosen; 0: what the algorithm takes
};

struct Answers {
  std::vector<Answer> each;
  std::int64_t messages = 0;  ///< simulated
};

/// Prices requests that start at the same time; under `closed` each as if it were alone. Nothing where more than `most`
/// messages would be simulated together (0: any number).
std::optional<Answers> price(const Network& network, std::vector<Request> requests, Model model, bool symmetry,
                             std::int64_t most = 0);

/// What "auto" looks at for a request alone under `closed`, each timed.
std::vector<Answer> tried_of(const Network& network, Request request);

/// Links that a request's messages take, and the seconds that each of the request's bytes takes of them; of a link of
/// several lanes, of all of them.
struct LinkLoads {
  std::vector<int> links;  ///< rising
  std::vector<double> seconds;
};

/// Seconds per byte of the busiest link of a request alone, and of all requests together; nothing where no two of them
/// take one link.
struct Busiest { double alone = 0, together = 0; };
std::optional<Busiest> busiest_of(const Network& network, std::vector<Request> requests);

/// Of each request. Own algorithms are taken as they are.
std::vector<LinkLoads> loads_of(const Network& network, std::vector<Request> requests);

/// The schedule of an algorithm on a network, with every transfer; for tests and for files.
Schedule schedule_of(const Network& network, const Request& request);

}  // namespace tilesim::cluster
