// The state of a simulation: events, streams (one per core and context), queues, slots, units.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/engine/cache/level.hpp"
#include "tilesim/engine/cores.hpp"
#include "tilesim/engine/engine.hpp"
#include "tilesim/engine/memory/memory.hpp"
#include "tilesim/engine/memory/routed.hpp"
#include "tilesim/engine/traffic.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::engine {

/// Kinds of events; all deliveries (phase 0) of an instant precede all starts (phase 1).
enum class EventKind : std::uint8_t { commit, release, count, chunk, queue, stream, arrive, piece };

struct Event {
  std::int64_t time = 0;
  std::uint64_t order = 0;  ///< phase, component (stream), port (queue or slot), kind: never the order of insertion
  std::int32_t stream = 0, port = 0;
  EventKind kind = EventKind::queue;
  std::int64_t a = 0, b = 0, c = 0;
};

/// A binary heap by (time, order). Events that compare equal do the same thing, so that their order cannot matter.
class EventQueue {
 public:
  void push(const Event& event);
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }
  Event pop();
  std::size_t size() const { return heap_.size(); }
  std::uint64_t shuffle = 0;  ///< test: salts the insertion path, never the order

 private:
  std::vector<Event> heap_;
};

/// One statement waiting in a queue: everything that depends on loop indices is resolved.
struct Entry {
  program::Opcode opcode = program::Opcode::wait;
  std::int32_t slot = -1;
  std::int32_t counter = -1;
  std::int32_t scope = -1;
  std::int64_t version = 0;
  std::int64_t pieces = 0;    ///< wait: wanted; commit, send: added; signal: count
  std::int64_t index = 0;     ///< counter index
  std::int64_t core = 0;      ///< signal: target
  std::int32_t sequence = 0;  ///< commit: its place among the version's commits
  std::int32_t pattern = -1;  ///< of a transfer, with banks or a cache: where the bytes lie
  std::int64_t kernel = -1;   ///< ordinal of the stream's kernel that it belongs to
  std::int64_t epoch = 0;     ///< acquire: scopes that ended before it in text order
  std::int64_t address = 0, bytes = 0, elements = 0, index_bytes = 0;
  Descriptor descriptor;      ///< computes
  std::int64_t weights = -1;  ///< mma: identifies the stationary operand
  double work = 0;            ///< multiply-adds or element operations
  const program::Instruction* instruction = nullptr;
};

/// Fixed ring of entries.
class EntryRing {
 public:
  explicit EntryRing(std::size_t capacity) : entries_(capacity) {}
  bool full() const { return count_ == entries_.size(); }
  bool empty() const { return count_ == 0; }
  Entry& push() {
    Entry& entry = entries_[(head_ + count_) % entries_.size()];
    ++count_;
    entry = Entry{};
    return entry;
  }
  Entry& front() { return entries_[head_]; }
  const Entry& front() const { return entries_[head_]; }
  void pop() {
    head_ = (head_ + 1) % entries_.size();
    --count_;
  }

 private:
  std::vector<Entry> entries_;
  std::size_t head_ = 0, count_ = 0;
};

struct Queue {
  explicit Queue(std::size_t capacity) : entries(capacity) {}
  EntryRing entries;
  std::int32_t unit = -1;
  std::int64_t busy_end = 0;        ///< end of the unit's last busy interval
  std::int64_t done_until = 0;      ///< all operations so far are complete
  std::int64_t consumed_until = 0;  ///< all operands so far are consumed
  std::int64_t blocked_since = -1;
  UnitState blocked_on = UnitState::idle;
  bool woken = false;  ///< a wake event is scheduled
  // Transfer in progress.
  std::int64_t left = 0, next_address = 0, finish = 0, started = 0;
  bool transferring = false;
  std::array<std::int64_t, 64> in_flight{};  ///< completion of the last chunks, a ring
  std::int64_t chunks = 0;
  std::int64_t issue_ready = 0;    ///< DMA: the next transfer may be issued
  std::int64_t last_weights = -1;  ///< mma: stationary operand used last
  // Behind a network of routers.
  std::deque<std::int32_t> open;  ///< transfers and sends that are not over, in order
  std::int64_t open_pieces = 0;
  bool waits_for_piece = false;
};

/// A commit, release or count that waits for transfers whose end is not known yet.
struct Deferred {
  EventKind kind = EventKind::commit;
  std::int32_t port = 0;
  std::int64_t a = 0, b = 0, c = 0;
  std::int64_t delay = 0;  ///< after they are over
};

/// A transfer or send under way in a network of routers.
struct OpenTransfer {
  Entry entry;
  std::int32_t stream = 0, queue = 0;
  std::int64_t started = 0, left = 0;                 ///< left: pieces
  std::int64_t passed = 0;                            ///< when the last byte has passed the DMA engine
  bool issued = false;                                ///< all pieces
  std::vector<std::pair<int, std::int64_t>> targets;  ///< send: (stream, version)
  std::vector<Deferred> after;
};

struct BufferState {
  std::int64_t version = -1;
  std::int64_t pieces = 0;
  std::int32_t next_sequence = 0;
  std::uint32_t released = 0;
  bool free = true;
  std::uint64_t done_mask = 0;  ///< commits beyond next_sequence that have completed
  std::array<std::int32_t, 64> pending{};
};

struct SlotState {
  std::vector<BufferState> buffers;
  std::vector<std::int32_t> dispatched;  ///< per version modulo its size: commits handed out so far
  std::int64_t received = 0, sent = 0;   ///< receives dispatched here; sends that arrived
  std::vector<std::int64_t> epochs;      ///< per receive modulo its size: as Entry::epoch
  std::uint32_t waiting = 0;             ///< queues to wake when anything changes
  std::uint64_t remote_waiting = 0;      ///< streams with a send waiting for this slot
};

/// What a unit's busy time counts as in the rows of kernels.
enum class KernelTime : std::uint8_t { none, array, vector };

struct UnitCounters {
  std::string name, kind;
  std::int64_t core = 0;
  KernelTime counts_as = KernelTime::none;
  std::array<std::int64_t, unit_state_count> cycles{};
  std::int64_t operations = 0, bytes = 0;
  double work = 0;
};

struct KernelCounters {
  std::int64_t count = 0, start = -1, finish = 0, cycles = 0, exclusive = 0;
  std::int64_t load_bytes = 0, store_bytes = 0, below_bytes = 0, array_busy = 0, vector_busy = 0, memory_busy = 0,
               launch = 0;
  double multiply_adds = 0, vector_operations = 0;
};

/// A kernel (outermost named scope) under way in a stream.
struct KernelRun {
  std::int32_t scope = -1;
  std::int64_t start = -1, finish = 0;
  std::int64_t pending = 0;   ///< its statements in queues
  bool ended = false;         ///< all of them have been dispatched
  bool worked = false;        ///< one of them took a unit
  std::int64_t instance = 0;  ///< of its scope in this stream
};

/// A kernel over all streams of its job; some have yet to finish their part.
struct KernelSpan {
  std::int64_t start = -1, finish = 0;
  std::size_t streams = 0;
};

/// A buffer of a scope that has ended in text order, whose last version is not free yet: later scopes may lie on its
/// bytes.
struct EndedBuffer {
  std::int32_t slot = 0;
  std::int64_t version = 0, epoch = 0;
};

/// One instruction stream of a job on a core.
struct Stream {
  Stream(const program::CompiledProgram& p, std::int64_t core, std::int64_t context_id,
         const CompiledExpr::TensorReader* reader)
      : program(&p), cursor(p, core, context_id, reader), virtual_core(core), context(context_id) {}
  const program::CompiledProgram* program;
  program::Cursor cursor;
  std::int64_t virtual_core, context, physical_core = 0;
  int job = 0;
  CoreKind* kind = nullptr;                    ///< of its core
  const program::Instruction* held = nullptr;  ///< resolved next statement that found its queue full
  std::int64_t stalled_until = 0;              ///< launch, barrier
  bool waiting_for_drain = false, finished = false, started = false;
  std::vector<Queue> queues;
  std::vector<SlotState> slots;
  std::int64_t done_until = 0;
  std::vector<std::int32_t> kernels;               ///< enclosing named scopes
  std::map<std::int32_t, std::int64_t> instances;  ///< per scope: kernels begun
  std::deque<KernelRun> running;                   ///< in text order
  std::int64_t first_running = 0;                  ///< ordinal of the front
  std::vector<EndedBuffer> ended;
  std::int64_t ended_scopes = 0;     ///< with slots
  std::uint32_t ended_waiting = 0;   ///< queues whose acquire waits for one of `ended`
  std::uint64_t remote_waiting = 0;  ///< streams with a send that waits for one of `ended`
  std::int64_t entries_in_queues = 0;
};

/// What an instruction costs, as far as it does not depend on loop indices.
struct StaticCost {
  std::array<std::int32_t, 4> functions{};
  std::int64_t lane_reductions = 0, lane_scans = 0;
  std::int32_t functions_total = 0;
};

/// A unit that several queues (contexts) may share.
struct UnitState_ { std::int64_t busy_until = 0; };

struct JobState {
  Job job;
  bool started = false, finished = false;
  std::int64_t start = 0, finish = 0;
  int streams_left = 0;
  /// Of each core that it takes; all of them where its slots exceed its share of the memories.
  std::vector<std::int64_t> contexts;
  std::unique_ptr<MemoryMap> map;
  std::int32_t first_tensor = 0;  ///< its tensors among the cache's
  std::unique_ptr<CompiledExpr::TensorReader> reader;
  std::vector<StaticCost> costs;                    ///< per instruction
  std::vector<std::vector<std::int64_t>> counters;  ///< per counter: core * size + index
  /// Per counter and cell: (stream, queue).
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<std::pair<std::int32_t, std::int32_t>>> counter_waiters;
  std::map<std::pair<std::int32_t, std::int64_t>, KernelSpan> spans;  ///< by scope and instance
  std::vector<KernelCounters> kernels;                                ///< per scope id
  std::vector<std::vector<std::int32_t>> slots_of;                    ///< per scope id
  std::int32_t last_kernel = -1;
  std::int64_t accounted = 0;  ///< kernels have been given the time up to here
  std::vector<int> streams;
};

class Simulator {
 public:
  Simulator(const Machine& machine, SimulateOptions options);
  int submit(Job job);
  bool run_until(std::int64_t cycles);
  void run();
  std::int64_t now() const { return now_; }
  std::optional<std::int64_t> finished(int job) const;
  Result result() const;

 private:
  void add_views(Result& result) const;  // views.cpp
  void add_fidelity(Result& result) const;
  std::int64_t network_busy() const;  ///< bounds.cpp: core cycles of the port or link that was busy longest
  std::int64_t network_busy(const KernelCounters& kernel, const JobState& job) const;
  std::string assumed_values() const;  ///< values.cpp: what was not given, in words
  static std::map<std::string, std::string> data_sources(const JobState& job);
  // simulator.cpp: jobs, events
  void start_jobs();
  void start(JobState& job, int id);
  void count_costs(JobState& job) const;
  void make_memory();
  void place_tensors(const JobState& job);
  // residency.cpp: what the cache knows of tensors
  void add_tensors(JobState& job);
  std::int32_t new_pattern(const JobState& job, const program::Cursor& cursor,
                           const program::CompiledTransfer& transfer);
  void account_pattern(const Entry& entry, KernelCounters* kernel);
  void add_cache(Result& result) const;
  void add_cache_fidelity(Result& result) const;
  std::vector<const cache::Level*> caches() const;
  void process(const Event& event);
  void step_poll();
  [[noreturn]] void deadlock() const;
  [[noreturn]] void race(int stream, int slot, std::int64_t version, const char* who) const;
  void push(EventKind kind, std::int64_t time, int stream, int port, std::int64_t a = 0, std::int64_t b = 0,
            std::int64_t c = 0);
  void wake(int stream, int queue, std::int64_t time);
  void wake_mask(int stream, std::uint32_t& mask);
  void wake_senders(std::uint64_t& mask);
  void finish_stream(int stream);
  // dispatch.cpp: from the cursor into queues
  void dispatch(int stream);
  bool dispatch_one(int stream, const program::Instruction& instruction);
  bool begin_scope(int stream, const program::Instruction& instruction);
  void end_scope(int stream, const program::Instruction& instruction);
  void resolve(int stream, const program::Instruction& instruction, Entry& entry);
  void resolve_mma(Stream& stream, const program::Instruction& instruction, Entry& entry);
  void resolve_vector(Stream& stream, const program::Instruction& instruction, Entry& entry);
  // queues.cpp: from the head of a queue into a unit
  void advance(int stream, int queue);
  bool try_head(int stream, int queue, Entry& entry);
  bool try_wait(int stream, int queue, const Entry& entry);
  bool try_acquire(int stream, int queue, const Entry& entry);
  bool try_compute(int stream, int queue, const Entry& entry);
  bool try_transfer(int stream, int queue, Entry& entry);
  bool try_send(int stream, int queue, const Entry& entry);
  void chunk(int stream, int queue);
  void end_transfer(int stream, int queue, std::int64_t done);
  void account_transfer(int stream, int queue, const Entry& entry, std::int64_t started, std::int64_t done);
  void block(int stream, int queue, UnitState reason);
  void unblock(int stream, int queue);
  void busy(int stream, int queue, std::int64_t begin, std::int64_t end, const Entry& entry);
  void popped(int stream, int queue);
  void settled(Stream& stream, int id, const Queue& queue, std::int64_t kernel, bool was_full);
  void commit(int stream, int slot, std::int64_t version, std::int64_t sequence, std::int64_t pieces);
  void release(int stream, int slot, std::int64_t version, int queue);
  void arrive(int stream, int slot, std::int64_t version, std::int64_t pieces);
  // routed.cpp's side of it, in transfers.cpp: transfers whose end is told later
  void add_routed_memory();
  bool advance_routed(std::int64_t limit);
  void routed_chunk(int stream, int queue);
  bool routed_send(int stream, int queue, const Entry& entry, std::vector<std::pair<int, std::int64_t>> targets);
  std::int32_t open_transfer(int stream, int queue, const Entry& entry, std::int64_t started);
  void issued(int stream, int queue, std::int32_t transfer);
  void piece(std::int32_t transfer, std::int64_t target);
  void finish_transfers(int stream, int queue);
  void after_transfers(int stream, int queue, std::int64_t time, const Deferred& what);
  int unit_of(const Stream& stream, const std::string& queue);
  KernelCounters* kernel_of(const Stream& stream, const Entry& entry);
  // kernels.cpp: time of kernels, bytes of scopes that have ended
  void begin_kernel(int stream, std::int32_t scope, std::int64_t launch);
  void used(Stream& stream, const Entry& entry, std::int64_t start, std::int64_t finish);
  void settle(Stream& stream);
  void account(JobState& job, std::int32_t scope, const KernelSpan& span) const;
  void end_slots(Stream& stream, std::int32_t scope);
  bool is_free(const Stream& stream, const EndedBuffer& ended) const;
  bool on_ended_bytes(Stream& stream, std::int32_t slot, std::int64_t version, std::int64_t epoch) const;

  Machine machine_;
  SimulateOptions options_;
  std::unique_ptr<MemorySystem> memory_;  ///< with the simple network; else:
  std::unique_ptr<RoutedMemory> routed_;
  Ports send_ports_;                         ///< where memory has ports of its own
  std::unique_ptr<cache::Tensors> tensors_;  ///< with a cache
  bool banks_ = false;                       ///< memory of fidelity bank: pieces that lie apart are looked up
  std::deque<Pattern> patterns_;             ///< of transfers in queues; pointers to them stay
  std::vector<std::int32_t> free_patterns_;
  std::vector<OpenTransfer> open_;
  std::vector<std::int32_t> free_open_;
  std::vector<std::unique_ptr<CoreKind>> kinds_;
  std::vector<CoreKind*> kind_of_core_;
  EventQueue events_;
  std::int64_t now_ = 0;
  std::vector<std::unique_ptr<JobState>> jobs_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<UnitCounters> units_;
  std::vector<UnitState_> unit_states_;
  std::vector<std::int64_t> contexts_used_;  ///< of each core
  std::int64_t next_base_ = 0;
  std::int64_t tile_operations_ = 0, event_count_ = 0, read_bytes_ = 0, written_bytes_ = 0, network_bytes_ = 0,
               finish_ = 0;
  std::vector<Interval> intervals_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::int32_t> label_of_;  ///< index in labels_
  std::int64_t dropped_ = 0;
};

}  // namespace tilesim::engine
