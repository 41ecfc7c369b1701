// The public interface of the engine: it simulates programs over time, as sessions of jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/engine/chip/options.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim {

/// A simulation in progress. Jobs on disjoint cores run concurrently and share network and memory. Jobs on the same
/// core run one after the other, ordered by (arrival, priority, submission). Two jobs on a core run concurrently and
/// share its units if the core has contexts for both and each fits its share of the scratchpad.
class Session {
 public:
  explicit Session(const Machine& machine, SimulateOptions options = {});
  ~Session();
  int submit(Job job);  ///< returns the job's id
  /// Processes all events up to and including `core_cycles`; returns false when no work is left.
  bool run_until(std::int64_t core_cycles);
  void run();                ///< runs to the end; on deadlock, throws InternalError that lists the waiting queues
  std::int64_t now() const;  ///< current time in core cycles
  std::optional<std::int64_t> finished(int job) const;  ///< core cycle in which the job completed; empty: not yet
  Result result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Simulates one job, on cores 0 to n-1 if `cores` is empty. Extrapolates long programs if `options` allow it.
Result simulate(const program::Program& program, const Machine& machine, const SimulateOptions& options = {},
                std::vector<std::int64_t> cores = {});

}  // namespace tilesim
