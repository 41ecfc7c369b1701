// One DRAM channel with its controller (first-ready, first-come-first-served), simulated per command, not per cycle.
//  In cycle c, the controller first tries to accept one request: the oldest due request that it has not yet accepted.
// In tick c + 1, finished reads return, due refreshes are queued, and commands are selected and issued. A channel
// advances independently of others up to a given tick. It skips ticks in which no command can issue; results equal
// those of a model that steps through every tick (tests/cpp/engine/stepped_channel.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "tilesim/engine/dram/part.hpp"
#include "tilesim/engine/dram/queues.hpp"
#include "tilesim/engine/dram/readiness.hpp"

namespace tilesim::engine::dram {

struct Request {
  std::int64_t not_before = 0;  ///< earliest cycle in which the controller may accept the request
  std::uint64_t address = 0;    ///< compared exactly: the write queue answers a read of a queued write's address
  std::int32_t row = 0;
  std::uint32_t tag = 0;  ///< returned with the completion
  std::uint8_t bank = 0;
  bool write = false;
};

/// A queue in contiguous memory.
template <class T>
class Ring {
 public:
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }
  const T& front() const { return items_[head_ & mask_]; }
  void pop_front() { ++head_; }
  void push_back(const T& item) {
    if (size() > mask_) grow();
    items_[tail_++ & mask_] = item;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.size() * 2);
    for (std::size_t i = head_; i != tail_; ++i) larger[i & (larger.size() - 1)] = items_[i & (items_.size() - 1)];
    items_.swap(larger);
    mask_ = items_.size() - 1;
  }
  std::vector<T> items_ = std::vector<T>(16);
  std::size_t head_ = 0, tail_ = 0, mask_ = 15;
};

struct Completion {
  std::uint32_t tag = 0;
  bool write = false;
  std::int64_t tick = 0;  ///< read: data has returned; write: command has issued, or merged with a queued write
};

/// Histogram of latencies with one bin per tick below 8 ticks, then eight bins per doubling.
struct Histogram {
  std::array<std::int64_t, 256> bins{};
  static std::size_t bin(std::int64_t value) {
    if (value < 8) return static_cast<std::size_t>(value);
    const auto v = static_cast<std::uint64_t>(value);
    const auto top = static_cast<std::size_t>(std::bit_width(v)) - 1;
    return std::min<std::size_t>((top - 2) * 8 + (v >> (top - 3) & 7), 255);
  }
  static std::int64_t low(std::size_t bin);  ///< smallest value in a bin
};

struct Counters {
  std::int64_t reads = 0, writes = 0;      ///< numbers of accepted requests
  std::int64_t forwarded = 0, merged = 0;  ///< reads answered from the write queue; writes merged with a queued write
  std::int64_t hits = 0, misses = 0, conflicts = 0;
  std::array<std::int64_t, command_count> commands{};  ///< issued commands
  std::int64_t latency_sum = 0, latency_max = 0;       ///< of reads, in ticks
  Histogram latency;
};

/// Numbers of commands to one bank: ACT; RD and WR.
struct BankCounters { std::int64_t activates = 0, columns = 0; };

enum class Bus : std::uint8_t { shared, row_and_column, both_edges, two_step };
enum class Until : std::uint8_t { tick, accepted, drained };

/// A channel for parts whose number of banks fits this type of mask.
template <class Mask>
class ChannelOf {
 public:
  explicit ChannelOf(const Part& part);

  /// Appends a request to the offered requests. `not_before` must not precede a processed tick.
  void offer(const Request& request) { offers_.push_back(request); }
  std::size_t waiting() const { return offers_.size(); }
  /// Processes all ticks up to and including `tick`.
  void advance(std::int64_t tick);
  /// Runs until every offered request is accepted, and stops in that cycle: results are the same as if requests offered
  /// afterwards had been offered before the run.
  void advance_until_accepted();
  /// Runs until every read has returned and every request is accepted; writes may still be queued. Returns the tick.
  std::int64_t finish();

  /// Runs until no read or write is queued.
  void drain() {
    finish();
    while (outstanding() > 0) advance(now() + 64);
  }
  /// Runs until every read has returned, and stops in that tick. Returns the tick in which the last read returned.
  std::int64_t finish_reads() {
    run_bus(never, Until::drained);
    return last_return_;
  }

  std::int64_t now() const { return base_ + now_; }  ///< last processed tick
  /// Cycle in which the last request was accepted; -1: none yet.
  std::int64_t accepted_at() const { return last_accept_; }
  const Counters& counters() const { return counters_; }
  std::int64_t reads_waiting() const { return reads_waiting_; }
  /// Number of accepted reads and writes that have not completed.
  std::int64_t outstanding() const { return reads_waiting_ + queues_.count[1] + bank_count(queues_.opened[1]); }
  /// Sets the vector that receives completions; it must outlive the channel. Null: completions are discarded.
  void report_to(std::vector<Completion>* completions) { completions_ = completions; }
  std::span<const BankCounters> banks() const { return bank_counters_; }

 private:
  using Queues = dram::Queues<Mask>;

  // Defined in channel_run.hpp and channel_issue.hpp: acceptance of requests, effects of commands.
  template <Bus bus>
  void run(Tick until, Until mode);
  void run_bus(Tick until, Until mode);
  template <Bus bus>
  Tick accept_due(Tick next, bool planned);
  [[gnu::always_inline]] inline bool accept(const Request& request, Tick c);
  /// Whether the first offered request may be accepted. After a rejection, this is false until its queue has space.
  bool may_accept() const { return !offers_.empty() && queues_.count[refused_] != refused_at_; }
  [[gnu::always_inline]] inline void finish_read(const QueuedRequest& entry, std::int64_t tick);
  [[gnu::always_inline]] inline void issue(Command command, int bank, Tick t);
  void issue_all(Command command, int scope, Tick t);
  [[gnu::always_inline]] inline void take_column(std::size_t queue, int bank, bool opener, Tick t);
  void issue_column(std::size_t queue, int bank, bool opener, Tick t);
  void issue_activate(std::size_t queue, int bank, Tick t);
  void issue_precharge(std::size_t queue, int bank, Tick t);
  void issue_second_activate();
  void pair(Tick edge, int bank);
  void rebase();
  // Defined in channel_idle.hpp: periods without requests.
  bool idle() const;
  std::int64_t idle_round() const;
  std::vector<std::int64_t> idle_state() const;
  template <Bus bus>
  void step_idle(std::int64_t end);
  template <Bus bus>
  void skip_idle(std::int64_t target);
  void skip_bus(std::int64_t target);
  /// Earliest cycle in which the first offered request can be accepted.
  std::int64_t next_due() const { return std::max(next_offer_, offers_.front().not_before); }
  /// Applies deferred effects of column commands before the channel examines candidates of the other direction.
  void settle() {
    if (readiness_.unsettled(0) && (drain_ || queues_.opened[1] != 0)) readiness_.settle(0);
    if (readiness_.unsettled(1) && (!drain_ || queues_.opened[0] != 0)) readiness_.settle(1);
  }
  // Defined in channel_tick.hpp: selection of the commands of one tick.
  template <Bus bus>
  Tick bank_ready(std::size_t queue, int bank, Tick c) const;
  template <Bus bus>
  Tick next_tick() const;
  template <Bus bus>
  void tick(Tick t);
  void tick_shared(Tick t);
  template <bool both_edges>
  void tick_row_and_column(Tick t);
  template <bool both_edges>
  void row_slot(Tick t);
  void tick_two_step(Tick t);
  // Defined in channel_plan.hpp: selection of the next command together with its tick.
  template <Bus bus>
  [[gnu::always_inline]] inline std::uint64_t plan_columns(Tick soon) const;
  template <Bus bus>
  [[gnu::always_inline]] inline std::uint64_t plan_rows(Tick soon) const;
  template <Bus bus>
  void plan_newcomer(std::size_t queue, int bank, Tick c);
  template <Bus bus>
  [[gnu::always_inline]] inline void tick_planned(Tick t);
  template <Bus bus>
  void issue_planned_row(Tick t);
  // Defined in channel_stream.hpp: many column commands in one loop.
  bool streams() const;
  template <Bus bus>
  [[gnu::always_inline]] inline bool accept_in_stream(std::size_t queue, Tick limit);
  template <Bus bus>
  void stream(Tick limit);
  [[gnu::always_inline]] inline void issue_planned_column(Tick t);
  [[gnu::always_inline]] inline void replan_rows(int bank, bool opener, Tick t);
  /// First tick in which state may still change.
  Tick soon() const { return static_cast<Tick>(std::max(base_ + now_, last_accept_) - base_) + 1; }
  struct Pick {
    Tick key = never;
    Command command = Command::read;
    bool opener = false;
  };
  Pick pick_opened(Tick t) const;
  Pick pick_hit(Tick t) const;
  Pick pick_row(Tick t, Mask allowed, bool activates) const;
  void issue_pick(const Pick& pick, Tick t);
  bool serve_maintenance(Tick t, bool falling, bool paired);
  Mask idle_banks() const;
  Tick idle_ready() const;
  void close_idle(Tick t, Mask allowed);
  /// Whether queued requests may issue. An all-bank refresh stops all of them; a per-bank refresh stops those of its
  /// bank and further ACT commands.
  bool queue_may_go() const { return maintenance_.empty() || per_bank_; }
  Mask refreshing() const {
    return per_bank_ && !maintenance_.empty() ? bank_bit<Mask>(maintenance_.front()) : Mask{0};
  }
  Mask scope_banks(int scope) const {
    return static_cast<Mask>(readiness_.timing().scope_banks[static_cast<std::size_t>(scope)]);
  }
  std::pair<Tick, bool> maintenance_ready() const;
  void refresh_due(Tick t);
  bool drain_flips() const {
    return drain_ ? queues_.count[1] <= drain_low_ && queues_.count[0] > 0
                  : queues_.count[1] >= drain_high_ || queues_.count[0] == 0;
  }
  void update_drain() { drain_ ^= drain_flips(); }
  Mask activating() const { return pending_bank_ < 0 ? Mask{0} : bank_bit<Mask>(pending_bank_); }

  Readiness<Mask> readiness_;
  Queues queues_;
  Bus bus_ = Bus::shared;
  bool drain_ = false;  ///< write mode: commands serve the write queue
  bool per_bank_ = false, closes_idle_ = false;
  int next_bank_ = 0;
  Tick page_timeout_ = 0;
  PerBank<Mask> idle_at_;  ///< tick in which the controller closes an idle row
  Tick now_ = 0, next_refresh_ = never;
  std::int64_t base_ = 0;
  std::deque<std::int32_t> maintenance_;  ///< pending refreshes: scopes, or banks with per-bank refresh
  Ring<Request> offers_;
  std::uint64_t columns_plan_ = 0, rows_plan_ = 0;  ///< 0: the plan must be recomputed
  bool newcomer_leads_ = false;                     ///< whether the last accepted request is its bank's candidate
  bool ends_when_accepted_ = false;
  bool may_skip_ = false;  ///< whether the next offer may be far in the future
  bool columns_touch_rows_ = false, rows_touch_columns_ = false;
  std::int64_t next_offer_ = 0;  ///< absolute cycle; at most one request is accepted per cycle
  std::int64_t reads_waiting_ = 0, last_return_ = 0, last_accept_ = -1;
  std::array<std::int64_t, 2> capacity_{};
  std::size_t refused_ = 0;
  std::int64_t refused_at_ = -1;  ///< length of the full queue; -1: the first offered request was not rejected
  std::int64_t drain_high_ = 0, drain_low_ = 0;
  Tick read_latency_ = 0, refresh_interval_ = 0;
  // For commands on both edges: the last row command on a rising edge, and the falling edge that it restricts.
  Tick paired_edge_ = long_ago;
  Mask paired_blocked_ = 0, paired_scope_banks_ = 0;
  // For two-step activation and clock synchronisation.
  bool has_sync_ = false, two_step_ = false, held_ = false;
  Pick held_pick_;
  int pending_bank_ = -1;
  std::size_t pending_queue_ = 0;
  Tick pending_deadline_ = never, sync_until_ = 0, activate_window_ = 0;
  std::array<Tick, 2> sync_{};
  Counters counters_;
  std::array<BankCounters, static_cast<std::size_t>(mask_banks<Mask>)> bank_counters_{};
  std::vector<Completion>* completions_ = nullptr;
};

extern template class ChannelOf<NarrowMask>;
extern template class ChannelOf<WideMask>;

/// A channel with the mask type that fits the part's number of banks; ChannelOf documents its members.
class Channel {
 public:
  /// Calls `call` with the ChannelOf; use it around long operations to select the type once.
  template <class Call>
  [[gnu::always_inline]] decltype(auto) visit(Call call) {
    if (auto* narrow = std::get_if<0>(&either_)) [[likely]]
      return call(*narrow);
    return call(*std::get_if<1>(&either_));
  }
  template <class Call>
  [[gnu::always_inline]] decltype(auto) visit(Call call) const {
    if (const auto* narrow = std::get_if<0>(&either_)) [[likely]]
      return call(*narrow);
    return call(*std::get_if<1>(&either_));
  }

  explicit Channel(const Part& part);

  void offer(const Request& request) {
    visit([&](auto& channel) { channel.offer(request); });
  }
  std::size_t waiting() const {
    return visit([](const auto& channel) { return channel.waiting(); });
  }
  void advance(std::int64_t tick) {
    visit([&](auto& channel) { channel.advance(tick); });
  }
  void advance_until_accepted() {
    visit([](auto& channel) { channel.advance_until_accepted(); });
  }
  std::int64_t finish() {
    return visit([](auto& channel) { return channel.finish(); });
  }
  void drain() {
    visit([](auto& channel) { channel.drain(); });
  }
  std::int64_t finish_reads() {
    return visit([](auto& channel) { return channel.finish_reads(); });
  }
  std::int64_t now() const {
    return visit([](const auto& channel) { return channel.now(); });
  }
  std::int64_t accepted_at() const {
    return visit([](const auto& channel) { return channel.accepted_at(); });
  }
  const Counters& counters() const {
    return visit([](const auto& channel) -> const Counters& { return channel.counters(); });
  }
  std::int64_t reads_waiting() const {
    return visit([](const auto& channel) { return channel.reads_waiting(); });
  }
  std::int64_t outstanding() const {
    return visit([](const auto& channel) { return channel.outstanding(); });
  }
  void report_to(std::vector<Completion>* completions) {
    visit([&](auto& channel) { channel.report_to(completions); });
  }
  std::span<const BankCounters> banks() const {
    return visit([](const auto& channel) { return channel.banks(); });
  }

 private:
  std::variant<ChannelOf<NarrowMask>, ChannelOf<WideMask>> either_;
};

}  // namespace tilesim::engine::dram
