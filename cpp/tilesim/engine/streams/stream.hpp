// The instruction stream of a job on one context of a core, with its cursor, queues and slots.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tilesim/engine/chip/cores.hpp"
#include "tilesim/engine/events/agenda.hpp"
#include "tilesim/engine/kernels/kernels.hpp"
#include "tilesim/engine/streams/slots.hpp"
#include "tilesim/engine/streams/statement.hpp"

namespace tilesim::engine {

struct JobState;

struct Stream {
  Stream(const program::CompiledProgram& p, std::int64_t core, std::int64_t context_id,
         const CompiledExpr::TensorReader* reader)
      : program(&p), cursor(p, core, context_id, reader), virtual_core(core), context(context_id), slots(p) {}
  bool leads() const { return virtual_core == 0 && context == 0; }

  const program::CompiledProgram* program;
  program::Cursor cursor;
  int number = 0;  ///< unique in the run; events refer to it
  int place = 0;   ///< unique among current streams; index of tables
  std::int64_t virtual_core, context, physical_core = 0;
  JobState* job = nullptr;
  CoreKind* kind = nullptr;                    ///< type of its core
  const program::Instruction* held = nullptr;  ///< the next statement if its queue is full
  std::int64_t stalled_until = 0;              ///< end of a kernel launch; dispatch stops until then
  bool finished = false;
  std::vector<Queue> queues;
  Slots slots;
  std::int64_t done_until = 0;
  std::vector<std::int32_t> scopes;  ///< named scopes around the current statement
  KernelRuns kernels;
  std::int64_t entries_in_queues = 0;
};

/// Streams of running jobs by number. A number is never used again, so that a lookup of an ended stream fails.
class StreamTable {
 public:
  void add(Stream& stream);  ///< assigns its number and place
  void remove(const Stream& stream);
  Stream* find(int number) const {
    Stream* const found = table_[static_cast<std::size_t>(number) & (table_.size() - 1)];
    return found && found->number == number ? found : nullptr;
  }
  std::vector<const Stream*> all() const;  ///< sorted by number
  std::size_t size() const { return count_; }

 private:
  void grow();

  std::vector<Stream*> table_ = std::vector<Stream*>(64, nullptr);  ///< size is a power of two; at most half full
  std::vector<int> free_places_;
  std::size_t count_ = 0;
  int next_ = 0;
};

/// Schedules an event that examines the head of a queue.
void wake(Agenda& agenda, Stream& stream, int queue, std::int64_t time);
void wake_queues(Agenda& agenda, Stream& stream, std::uint32_t queues);
/// The stream's bit in masks of waiting senders.
inline std::uint64_t sender_bit(const Stream& stream) { return 1ULL << (stream.number & 63); }
/// Schedules events that examine the queues of these streams whose head is a send.
void wake_senders(Agenda& agenda, const std::vector<std::unique_ptr<Stream>>& streams, std::uint64_t senders);

}  // namespace tilesim::engine
