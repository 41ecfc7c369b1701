// Records the states of units, the times and bytes of kernels, and the end of statements.
#pragma once

#include "tilesim/engine/jobs/job.hpp"

namespace tilesim::engine {

class Accounts {
 public:
  Accounts(OffChip& memory, Agenda& agenda, Units& units, Timeline& timeline, Totals& totals)
      : memory_(memory), agenda_(agenda), units_(units), timeline_(timeline), totals_(totals) {}

  /// Counts the queue's unit as waiting for `reason` until `unblock`, except while other work keeps the unit busy.
  void block(Stream& stream, Queue& queue, UnitState reason);
  void unblock(Stream& stream, Queue& queue);
  void busy(Stream& stream, Queue& queue, std::int64_t begin, std::int64_t end, const ResolvedStatement& statement);
  /// Removes the head of the queue. `over`: the statement is complete.
  void pop(Stream& stream, Queue& queue, bool over = true);
  void over(Stream& stream, const Queue& queue,
            std::int64_t kernel);  ///< completes a statement that was removed from its queue earlier
  /// Records a load, store or send that used its unit from `started` to `done`.
  void transfer(Stream& stream, Queue& queue, const ResolvedStatement& statement, std::int64_t started,
                std::int64_t done);
  void moved(const Request& request);  ///< records a piece that memory has accepted
  /// Records that `bytes` of a statement use the core's DMA engine from now on.
  void passes(Stream& stream, const ResolvedStatement& statement, std::int64_t bytes);
  void fetched(JobState& job, const ResolvedStatement& statement,
               std::int64_t bytes);  ///< records bytes that come from another core's scratchpad
  /// Records a compute. Its unit is busy from `started` to `busy`, its operands have been read at `consumed`, and its
  /// result is complete at `done`.
  struct Computed { std::int64_t started = 0, busy = 0, consumed = 0, done = 0; };
  void compute(Stream& stream, Queue& queue, const ResolvedStatement& statement, const Computed& times);

 private:
  void settle_transfer(Stream& stream, const Queue& queue, const ResolvedStatement& statement, std::int64_t started);
  void settle(Stream& stream, const Queue& queue, std::int64_t kernel, bool was_full);

  OffChip& memory_;
  Agenda& agenda_;
  Units& units_;
  Timeline& timeline_;
  Totals& totals_;
};

}  // namespace tilesim::engine
