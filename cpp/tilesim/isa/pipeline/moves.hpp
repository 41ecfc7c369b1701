// Timing of DMA transfers: queues process them in order and share the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"

namespace tilesim::isa {

/// What an instruction asks of DMA.
enum class MoveWork : std::uint8_t { none, start, wait, done };

/// The queues of a core, which its sequencers share. A transfer takes its queue for the issue cycles, then until its
/// last request has left: by the queue's rate, or by how many requests may be under way. It is over when all bytes have
/// passed the queue and memory has answered, after others' bytes, and the DMA latency later: what the engine's closed
/// form says of a transfer alone. One without bytes takes the issue cycles. A plain value.
class MoveQueues {
 public:
  struct Queue {
    Ticks free = 0, busy = 0;  ///< busy: issued, or passed bytes
    Ticks answered = 0;        ///< the last of its transfers is over
    Ticks memory = 0;          ///< before `free`: waited for memory, to take requests or to answer the last ones
    std::deque<Ticks> starts;  ///< of the last `entries`

    Ticks memory_until(Ticks end) const { return memory + std::max<Ticks>(0, std::min(answered, end) - free); }
  };

  MoveQueues() = default;
  explicit MoveQueues(const MoveTiming& timing) : timing_(timing), queues_(timing.load_queues + timing.store_queues) {}

  /// Before this the queue has no place for another.
  Ticks place(unsigned queue) const;
  /// A transfer comes to a queue; when it is over.
  Ticks start(unsigned queue, Ticks at, std::uint64_t bytes);
  const std::vector<Queue>& queues() const { return queues_; }
  void repeat(const MoveQueues& before, Ticks by, std::int64_t times);
  void state(Ticks now, std::vector<Ticks>& to) const;

 private:
  MoveTiming timing_;
  std::vector<Queue> queues_;
  Ticks memory_free_ = 0;
};

/// The tickets that one sequencer was given.
class Tickets {
 public:
  bool over(std::uint64_t ticket, unsigned queue) const { return until(ticket, queue) <= asked_; }
  void ask(Ticks now) { asked_ = now; }
  /// When the transfer of a ticket (0: all of the queue) is over; 0 for a ticket that there is not.
  Ticks until(std::uint64_t ticket, unsigned queue) const;
  /// After `given` others: one that was not carried out is forgotten.
  void add(Ticks over, unsigned queue, std::uint64_t given);

 private:
  std::vector<Ticks> over_;
  std::vector<Ticks> queues_;  ///< the last of each
  Ticks asked_ = 0;
};

}  // namespace tilesim::isa
