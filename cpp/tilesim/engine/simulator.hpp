// The simulator: its components, and the loop that processes their events.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/engine/dispatch/dispatch.hpp"
#include "tilesim/engine/engine.hpp"
#include "tilesim/engine/jobs/jobs.hpp"
#include "tilesim/engine/transfers/heads.hpp"

namespace tilesim::engine {

class Simulator {
 public:
  Simulator(const Machine& machine, SimulateOptions options);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  int submit(Job job) { return jobs_.submit(std::move(job)); }
  bool run_until(std::int64_t cycles);
  std::int64_t now() const { return agenda_.now(); }
  std::optional<std::int64_t> finished(int job) const;
  Result result() const;
  const Jobs& jobs() const { return jobs_; }

 private:
  void process(const Event& event);
  void deliver(Stream& stream, const Event& event);
  void count(Stream& stream, const Event& event);
  [[noreturn]] void deadlock() const;

  static SimulateOptions with_port(const Machine& machine, SimulateOptions options);

  Chip chip_;
  Totals totals_;
  OffChip memory_;
  Agenda agenda_;
  Units units_;
  Timeline timeline_;
  Jobs jobs_;
  Accounts accounts_;
  Dispatch dispatch_;
  Transfers transfers_;
  Sends sends_;
  Heads heads_;
};

}  // namespace tilesim::engine
