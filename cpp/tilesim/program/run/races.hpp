// Computes the exact happens-before relation of a program during a walk in text order.
//  Every load, store, compute and send has two events: consumed (all operands read) and complete (all results written).
// A commit has one event: shown. A version must not be free before all its commits have shown. A queue learns of
// earlier events by the waits and acquires that it passes: each passes on the events that the matching commits,
// releases and signals knew. An access is a race unless the queue knows that all conflicting accesses are over.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/residents.hpp"

namespace tilesim::program {

constexpr std::int32_t given = -1, unwritten = -2;  ///< writer of data that no operation has written

/// A set of events; bits 2i and 2i+1 are `consumed` and `complete` of operation i. It contains all events in words
/// before `base_`.
class EventSet {
 public:
  void add_consumed(std::int32_t operation) { set(2 * static_cast<std::size_t>(operation)); }
  void add_complete(std::int32_t operation) {
    add_consumed(operation);
    set(2 * static_cast<std::size_t>(operation) + 1);
  }
  bool consumed(std::int32_t operation) const { return has(2 * static_cast<std::size_t>(operation)); }
  bool complete(std::int32_t operation) const { return has(2 * static_cast<std::size_t>(operation) + 1); }
  void add(const EventSet& other);
  /// Adds the events of all operations before `operation`.
  void add_all_below(std::int32_t operation);
  /// An event that was added to this set individually and is missing in `other`, as 2 * operation + (complete ? 1 : 0);
  /// -1 if `other` contains all of them.
  std::int64_t first_missing_in(const EventSet& other) const;

 private:
  void set(std::size_t bit);
  bool has(std::size_t bit) const;
  std::size_t base_ = 0;              ///< index of the first word in `words_`
  std::vector<std::uint64_t> words_;  ///< words from `base_` on
};

class Races {
 public:
  Races(const CompiledProgram& program, std::size_t streams);

  /// Sets the text of the current statement for messages. Call it before each function below.
  void set_statement(std::string statement) { statement_ = std::move(statement); }

  void acquire(std::size_t stream, const Operation& op);
  void commit(std::size_t stream, const Operation& op);
  /// `freed`: whether all consumers have now released the version.
  void release(std::size_t stream, const Operation& op, bool freed);
  void wait_slot(std::size_t stream, const Operation& op);
  void wait_counter(std::size_t stream, const Operation& op);
  void signal(std::size_t stream, const Operation& op);
  /// Checks a load, store or compute; its row indices must have been read.
  void operation(std::size_t stream, const Operation& op);
  /// Checks a send that fills version `versions[i]` of op.slot in stream `streams[i]`.
  void send(std::size_t stream, const Operation& op, const std::vector<std::size_t>& streams,
            const std::vector<std::int64_t>& versions);
  /// Records that all earlier operations of this stream are complete.
  void barrier(std::size_t stream);
  /// Records that `stream` reads one element during the walk, to evaluate an expression.
  void walker_reads(std::size_t stream, int tensor, std::int64_t position);

 private:
  struct Uses { EventSet users, writes; };  ///< operations of one queue that use, that write a version
  struct Version {
    std::int64_t number = -1;
    std::vector<std::int32_t> writer, readers;  ///< per element: last writer; index of the set of readers since then
    std::uint32_t live_for = 0;                 ///< mask of queues that know of its acquire
    EventSet released, needed;
    std::map<int, Uses> by_queue;
    std::vector<std::pair<std::int64_t, EventSet>> commits;  ///< total pieces; events that a wait implies
  };
  struct Signal {
    EventSet events;
    std::int64_t source, count;
    std::string statement;
  };
  struct CounterWait {
    std::int32_t event;  ///< event: the queue has passed this wait
    std::int64_t pieces;
    std::vector<std::size_t> before;  ///< signals that may come before it
    std::vector<std::size_t> relied;  ///< signals without which it cannot pass
    std::string statement;
  };
  struct Memory {  ///< accesses to the bytes of a tensor
    std::vector<std::int32_t> writer, readers;
    std::int64_t unit = 0;  ///< bytes per entry
  };
  struct LastSend {
    std::int32_t operation = -1;
    std::size_t stream = 0;  ///< stream of the sender
    int queue = -1;
  };
  struct Stream {
    std::vector<EventSet> queues, done;             ///< per queue: events that it knows; its operations
    EventSet walker, shown;                         ///< shown: events that the stream's commits imply
    std::vector<std::vector<Version>> rings;        ///< per slot and buffer
    std::map<std::pair<int, int>, EventSet> freed;  ///< per slot and buffer: events that the last release implies
    std::map<int, LastSend> last_send;              ///< per slot: sender of the latest received version
    std::map<int, EventSet> residents;              ///< per value in the scratchpad: operations that used it
  };

  [[noreturn]] void race(const std::string& what, std::int32_t other = -1) const;
  Version& version(std::size_t stream, int slot, std::int64_t number);
  /// The version; throws unless the queue knows of its acquire.
  Version& live(std::size_t stream, int queue, int slot, std::int64_t number);
  void start_version(std::size_t stream, int slot, std::int64_t number, EventSet& events);
  void take_residents(std::size_t stream, int slot, std::int64_t number, const EventSet& events);
  void use_resident(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id);
  std::int32_t begin_operation();
  void add_update_order(Stream& stream, const Operation& op, EventSet& events);
  void access(std::size_t stream, const Operation& op, const SlotView& view, bool write, const EventSet& events,
              std::int32_t id);
  void access_transfer(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id);
  void read_through(const Operation& op, const EventSet& events, std::int32_t id);
  void read_element(Version& v, std::int64_t element, const EventSet& events, std::int32_t id);
  void write_element(Version& v, std::int64_t element, const EventSet& events, std::int32_t id);
  void touch_memory(int tensor, std::int64_t element, bool write, const EventSet& events, std::int32_t id);
  void check_readers(std::int32_t set, const EventSet& events, std::int32_t id, const std::string& what) const;
  std::int32_t with_reader(std::int32_t set, std::int32_t id);
  void record(Version& v, int queue, const EventSet& events, std::int32_t id, bool writes);
  void add_signal(std::pair<int, std::int64_t> cell, Signal signal);
  /// The signals in `before` that are necessary: without each of them, the others sum to less than `pieces`.
  std::vector<std::size_t> needed_signals(const std::vector<Signal>& made, const std::vector<std::size_t>& before,
                                          std::int64_t pieces) const;
  void finish_operation(std::size_t stream, const Operation& op, const EventSet& events, std::int32_t id);

  const CompiledProgram& program_;
  std::vector<Stream> streams_;
  Residents residents_;
  std::vector<Memory> memories_;                                         ///< per tensor that is not an alias
  std::map<std::pair<int, std::int64_t>, std::vector<Signal>> signals_;  ///< per counter and cell
  std::map<std::pair<int, std::int64_t>, std::vector<CounterWait>> counter_waits_;
  std::vector<std::string> names_;  ///< names of operations and commits
  std::set<std::int32_t> commits_;
  std::vector<std::vector<std::int32_t>> reader_sets_{{}};
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> larger_sets_;
  std::string statement_;
  std::int32_t checked_writer_ = -1;                      ///< writer whose completion the current operation knows
  std::pair<std::int32_t, std::int32_t> last_set_{0, 0};  ///< set of readers before and after adding the current one
};

}  // namespace tilesim::program
