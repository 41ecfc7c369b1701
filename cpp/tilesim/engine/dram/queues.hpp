// Requests queued in a channel. Each bank has a list of requests for the open row (hits) and a list of others (misses),
// oldest first. All requests of a list need the same next command, so only the first of each list is a candidate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/engine/dram/timing.hpp"

namespace tilesim::engine::dram {

struct QueuedRequest {
  std::int64_t arrival = 0;  ///< absolute tick
  std::uint64_t address = 0;
  Tick key = 0;  ///< age * number of banks in the mask + bank: a minimum of keys gives the oldest request and its bank
  std::int32_t row = 0;
  std::uint32_t tag = 0;
  std::uint16_t next = 0;
  bool counted = false;  ///< whether it was counted as a hit, miss or conflict
};

/// Definitions that do not depend on the number of banks.
struct QueueNames {
  static constexpr std::uint16_t none = 0xffff;
  enum : std::size_t { reads = 0, writes = 1 };
};

template <class Mask>
class Queues : public QueueNames {
 public:
  static constexpr auto width = static_cast<std::size_t>(mask_banks<Mask>);

  Queues(std::int64_t read_entries, std::int64_t write_entries, int banks);

  /// Appends a request to a list of its bank. Returns whether it becomes the list's candidate.
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

  /// Whether `row` is the bank's open row.
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

  /// Removes the oldest hit; call it when the column command issues.
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

  /// Removes the request for which the row was opened; call it when its column command issues.
  void take_opened(std::size_t queue, int bank) {
    opened[queue] &= ~bank_bit<Mask>(bank);
    free_.push_back(opened_slot_[static_cast<std::size_t>(bank)]);
  }

  /// Begins an ACT for the oldest miss of a closed bank and removes this request from its list. Until `end_activate`,
  /// the bank is not open and has no candidates.
  void begin_activate(std::size_t queue, int bank);
  /// Opens the row. The request that caused the ACT waits for its column command; others for the row become hits.
  void end_activate(std::size_t queue, int bank);
  void precharge(int bank);

  std::array<std::int64_t, 2> count{};  ///< number of entries per queue
  Mask open = 0;                        ///< banks with an open row
  std::array<Mask, 2> hit{}, miss{};    ///< banks that have hits; banks that have misses
  std::array<Mask, 2> opened{};         ///< banks with a request that opened the row and waits for its column command
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
  std::array<std::uint16_t, 256> filter_{};  ///< number of queued writes per hash of the address
  Tick next_age_ = 0;
  int banks_;
};

}  // namespace tilesim::engine::dram
