// Timing of DMA transfers: queues process them in order and share the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"

namespace tilesim::isa {

/// Use of DMA by an instruction.
enum class MoveWork : std::uint8_t { none, start, wait, done };

/// The DMA queues of a core, shared by its sequencers. A transfer occupies its queue for the issue cycles, then until
/// its last request has left, limited by the queue's rate or the number of requests in flight. It completes one DMA
/// latency after all bytes have passed the queue and memory has answered, behind the bytes of other transfers. A single
/// transfer takes the engine's closed-form time; an empty one takes the issue cycles. A value type.
class MoveQueues {
 public:
  struct Queue {
    Ticks free = 0, busy = 0;  ///< busy: issue and passing of bytes
    Ticks answered = 0;        ///< end of its last transfer
    Ticks memory = 0;          ///< time before `free` in which it waited for memory to accept or answer requests
    std::deque<Ticks> starts;  ///< start times of the last `entries` transfers

    Ticks memory_until(Ticks end) const { return memory + std::max<Ticks>(0, std::min(answered, end) - free); }
  };

  MoveQueues() = default;
  explicit MoveQueues(const MoveTiming& timing) : timing_(timing), queues_(timing.load_queues + timing.store_queues) {}

  /// Time at which the queue has a free entry.
  Ticks place(unsigned queue) const;
  /// Adds a transfer to a queue; returns its end.
  Ticks start(unsigned queue, Ticks at, std::uint64_t bytes);
  const std::vector<Queue>& queues() const { return queues_; }
  void repeat(const MoveQueues& before, Ticks by, std::int64_t times);
  void state(Ticks now, std::vector<Ticks>& to) const;

 private:
  MoveTiming timing_;
  std::vector<Queue> queues_;
  Ticks memory_free_ = 0;
};

/// Tickets of one sequencer.
class Tickets {
 public:
  bool over(std::uint64_t ticket, unsigned queue) const { return until(ticket, queue) <= asked_; }
  void ask(Ticks now) { asked_ = now; }
  /// End of a ticket's transfer (ticket 0: of all transfers in the queue); 0 for an unknown ticket.
  Ticks until(std::uint64_t ticket, unsigned queue) const;
  /// Adds a ticket after `given` others; replaces the ticket of an instruction that was not executed.
  void add(Ticks over, unsigned queue, std::uint64_t given);

 private:
  std::vector<Ticks> over_;
  std::vector<Ticks> queues_;  ///< end of the last transfer, per queue
  Ticks asked_ = 0;
};

}  // namespace tilesim::isa
