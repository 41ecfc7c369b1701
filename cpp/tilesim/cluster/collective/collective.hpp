// Collectives on a network: selects algorithm and model, and returns the end times.
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
  std::int64_t bytes = 0;   ///< bytes of a device's input or output, whichever is larger
  std::vector<int> places;  ///< devices by position
  Choice choice;
  std::vector<std::pair<int, int>> pairs;  ///< for permute_devices, as positions
  std::optional<Schedule> custom;          ///< user-defined algorithm
  std::int64_t start = 0;                  ///< in picoseconds
};

struct Answer {
  std::int64_t picoseconds = 0;  ///< time until the last device finishes
  std::string algorithm, model;  ///< `model` is "chunks" if `closed` has no formula
  bool exact = true;             ///< closed: the time equals that of `chunks`, since no link is shared
  int classes = 1;               ///< number of simulated timelines; closed: 1
  int pieces = 0;                ///< requested or chosen number; 0: the algorithm's default
};

struct Answers {
  std::vector<Answer> each;
  std::int64_t messages = 0;  ///< number of simulated messages
};

/// Times requests that start together; with `closed`, each without contention. Empty if more than `most` messages would
/// have to be simulated (0: no limit).
std::optional<Answers> price(const Network& network, std::vector<Request> requests, Model model, bool symmetry,
                             std::int64_t most = 0);

/// The candidates of "auto" for a single request under `closed`, each with its time.
std::vector<Answer> tried_of(const Network& network, Request request);

/// Links that a request's messages use, and seconds per byte of the request on each, over all lanes of a link.
struct LinkLoads {
  std::vector<int> links;  ///< ascending
  std::vector<double> seconds;
};

/// Seconds per byte of the busiest link, for the busiest single request and for all together. Empty if no two requests
/// share a link.
struct Busiest { double alone = 0, together = 0; };
std::optional<Busiest> busiest_of(const Network& network, std::vector<Request> requests);

/// Link loads of each request. Custom algorithms are used unchanged.
std::vector<LinkLoads> loads_of(const Network& network, std::vector<Request> requests);

/// The schedule of an algorithm on a network, with every transfer; for tests and for files.
Schedule schedule_of(const Network& network, const Request& request);

}  // namespace tilesim::cluster
