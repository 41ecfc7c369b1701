// Requests queued in a channel, kept per bank: those that hit the open row, and the others, oldest first.
//
// All requests of a bank share at most two next commands, so only the head of each list is a candidate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/engine/dram/timing.hpp"

namespace tilesim::engine::dram {

struct QueuedRequest {
  std::int64_t arrival = 0;  ///< absolute tick
  std::uint64_t address = 0;
  Tick key = 0;  ///< age * number of banks in the mask + bank: one minimum finds both
  std::int32_t row = 0;
  std::uint32_t tag = 0;
  std::uint16_t next = 0;
  bool counted = false;  ///< its hit, miss or conflict has been counted
};

/// Definitions that are independent of the number of banks.
struct QueueNames {
  static constexpr std::uint16_t none = 0xffff;
  enum : std::size_t { reads = 0, writes = 1 };
};

template <class Mask>
class Queues : public QueueNames {
 public:
  static constexpr auto width = static_cast<std::size_t>(mask_banks<Mask>);

  Queues(std::int64_t read_entries, std::int64_t write_entries, int banks);

  /// Appends a request to its list. Returns whether it becomes its bank's candidate.
  bool push(std::size_t queue, int bank, std::int32_t row, std::uint64_t address, std::uint32_t tag,
            std::int64_t arrival) {
    const std::uint16_t slot = free_.back();
    free_.pop_back();
    if (next_age_ == age_limit) renumber();
    QueuedRequest& entry = entries_[slot];
    entry = {arrival, address, next_age_++ * mask_banks<Mask> + bank, row, tag, none, false};
    ++count[queue];
    if (queue == writes) ++filter_[bucket(address)];
    const auto b = static_cast<std::size_t>(bank);
    const bool hits = this->hits(bank, row);
    List& list = hits ? hit_[queue][b] : miss_[queue][b];
    if (list.head != none) {
      entries_[list.tail].next = slot;
      list.tail = slot;
      return false;
    }
    list = {slot, slot};
    (hits ? hit_key : miss_key)[queue].at[b] = entry.key;
    (hits ? hit : miss)[queue] |= bank_bit<Mask>(bank);
    return true;
  }

  /// Whether this row is open in a bank.
  bool hits(int bank, std::int32_t row) const {
    return (open >> bank & 1) != 0 && open_row[static_cast<std::size_t>(bank)] == row;
  }

  bool holds_write(std::uint64_t address, int bank) const {
    if (filter_[bucket(address)] == 0) return false;
    const auto b = static_cast<std::size_t>(bank);
    return contains(hit_[writes][b], address) || contains(miss_[writes][b], address);
  }

  QueuedRequest& oldest_hit(std::size_t queue, int bank) {
    return entries_[hit_[queue][static_cast<std::size_t>(bank)].head];
  }
  QueuedRequest& oldest_miss(std::size_t queue, int bank) {
    return entries_[miss_[queue][static_cast<std::size_t>(bank)].head];
  }
  QueuedRequest& opened_entry(int bank) { return entries_[opened_slot_[static_cast<std::size_t>(bank)]]; }

  /// Removes the oldest hit when its column command issues.
  void take_hit(std::size_t queue, int bank) {
    const auto b = static_cast<std::size_t>(bank);
    List& list = hit_[queue][b];
    const std::uint16_t slot = list.head;
    leave(queue, slot);
    free_.push_back(slot);
    list.head = entries_[slot].next;
    if (list.head == none)
      hit[queue] &= ~bank_bit<Mask>(bank);
    else
      hit_key[queue].at[b] = entries_[list.head].key;
  }

  /// Removes the request that opened the row when its column command issues.
  void take_opened(std::size_t queue, int bank) {
    opened[queue] &= ~bank_bit<Mask>(bank);
    free_.push_back(opened_slot_[static_cast<std::size_t>(bank)]);
  }

  /// Starts ACT for the oldest request of a closed bank and removes it from its queue. Until `end_activate` the bank is
  /// neither open nor a candidate.
  void begin_activate(std::size_t queue, int bank);
  /// Opens the row: its request waits in the opened list for the column command; others of the row become hits.
  void end_activate(std::size_t queue, int bank);
  void precharge(int bank);

  std::array<std::int64_t, 2> count{};  ///< number of entries in each queue
  Mask open = 0;                        ///< banks with an open row
  std::array<Mask, 2> hit{}, miss{};    ///< banks with hits; with misses
  std::array<Mask, 2> opened{};         ///< banks whose opening request waits for its column command
  std::array<PerBank<Mask>, 2> hit_key, miss_key;
  PerBank<Mask> opened_key;
  std::array<std::int32_t, width> open_row{};

 private:
  struct List { std::uint16_t head = none, tail = none; };
  static constexpr Tick age_limit = (1 << 30) / mask_banks<Mask> - 1;

  static std::size_t bucket(std::uint64_t address) { return (address >> 5 ^ address >> 13 ^ address >> 21) & 255; }
  bool contains(const List& list, std::uint64_t address) const {
    for (std::uint16_t slot = list.head; slot != none; slot = entries_[slot].next)
      if (entries_[slot].address == address) return true;
    return false;
  }
  void leave(std::size_t queue, std::uint16_t slot) {
    --count[queue];
    if (queue == writes) --filter_[bucket(entries_[slot].address)];
  }
  void refresh_keys(std::size_t queue, int bank);
  void renumber();

  std::vector<QueuedRequest> entries_;
  std::vector<std::uint16_t> free_;
  std::array<std::array<List, width>, 2> hit_, miss_;
  std::array<std::uint16_t, width> opened_slot_{};
  std::array<std::uint16_t, 256> filter_{};  ///< number of queued writes by hashed address
  Tick next_age_ = 0;
  int banks_;
};

}  // namespace tilesim::engine::dram
