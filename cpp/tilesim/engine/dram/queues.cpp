#include "tilesim/engine/dram/queues.hpp"

#include <algorithm>

namespace tilesim::engine::dram {

template <class Mask>
Queues<Mask>::Queues(std::int64_t read_entries, std::int64_t write_entries, int banks)
    : entries_(static_cast<std::size_t>(read_entries + write_entries + banks)), banks_(banks) {
  for (std::size_t slot = entries_.size(); slot-- > 0;) free_.push_back(static_cast<std::uint16_t>(slot));
  for (std::size_t queue : {reads, writes}) {
    hit_key[queue].at.fill(never);
    miss_key[queue].at.fill(never);
  }
  opened_key.at.fill(never);
}

template <class Mask>
void Queues<Mask>::refresh_keys(std::size_t queue, int bank) {
  const auto b = static_cast<std::size_t>(bank);
  const auto bit = bank_bit<Mask>(bank);
  const std::uint16_t first_hit = hit_[queue][b].head, first_miss = miss_[queue][b].head;
  hit[queue] = first_hit == none ? hit[queue] & ~bit : hit[queue] | bit;
  miss[queue] = first_miss == none ? miss[queue] & ~bit : miss[queue] | bit;
  if (first_hit != none) hit_key[queue].at[b] = entries_[first_hit].key;
  if (first_miss != none) miss_key[queue].at[b] = entries_[first_miss].key;
}

template <class Mask>
void Queues<Mask>::begin_activate(std::size_t queue, int bank) {
  const auto b = static_cast<std::size_t>(bank);
  const std::uint16_t slot = miss_[queue][b].head;
  leave(queue, slot);
  opened_slot_[b] = slot;
  miss_[queue][b].head = entries_[slot].next;
  refresh_keys(queue, bank);
}

template <class Mask>
void Queues<Mask>::end_activate(std::size_t queue, int bank) {
  const auto b = static_cast<std::size_t>(bank);
  const std::int32_t row = opened_entry(bank).row;
  opened[queue] |= bank_bit<Mask>(bank);
  opened_key.at[b] = opened_entry(bank).key;
  open |= bank_bit<Mask>(bank);
  open_row[b] = row;
  for (std::size_t q : {reads, writes}) {
    std::uint16_t at = miss_[q][b].head;
    if (at == none) {
      miss[q] &= ~bank_bit<Mask>(bank);
      continue;
    }
    List hits, misses;
    for (std::uint16_t next = none; at != none; at = next) {
      next = entries_[at].next;
      entries_[at].next = none;
      List& list = entries_[at].row == row ? hits : misses;
      if (list.head == none)
        list.head = at;
      else
        entries_[list.tail].next = at;
      list.tail = at;
    }
    hit_[q][b] = hits;
    miss_[q][b] = misses;
    refresh_keys(q, bank);
  }
}

template <class Mask>
void Queues<Mask>::precharge(int bank) {
  const auto b = static_cast<std::size_t>(bank);
  open &= ~bank_bit<Mask>(bank);
  for (std::size_t q : {reads, writes}) {
    if ((hit[q] >> bank & 1) == 0) continue;
    // Merge both lists by age: the bank is closed, and its oldest request determines the next row.
    List merged;
    std::uint16_t one = hit_[q][b].head, other = miss_[q][b].head;
    while (one != none || other != none) {
      std::uint16_t& oldest = other == none || (one != none && entries_[one].key < entries_[other].key) ? one : other;
      const std::uint16_t slot = oldest;
      oldest = entries_[slot].next;
      if (merged.head == none)
        merged.head = slot;
      else
        entries_[merged.tail].next = slot;
      merged.tail = slot;
      entries_[slot].next = none;
    }
    hit_[q][b] = {};
    miss_[q][b] = merged;
    refresh_keys(q, bank);
  }
}

template <class Mask>
void Queues<Mask>::renumber() {
  std::vector<std::uint16_t> alive;
  for (int bank = 0; bank < banks_; ++bank) {
    const auto b = static_cast<std::size_t>(bank);
    for (std::size_t q : {reads, writes}) {
      for (const List& list : {hit_[q][b], miss_[q][b]})
        for (std::uint16_t slot = list.head; slot != none; slot = entries_[slot].next) alive.push_back(slot);
    }
    alive.push_back(opened_slot_[b]);  // in use or out of date; an old slot has no effect
  }
  std::sort(alive.begin(), alive.end());
  alive.erase(std::unique(alive.begin(), alive.end()), alive.end());
  std::sort(alive.begin(), alive.end(), [&](auto x, auto y) { return entries_[x].key < entries_[y].key; });
  next_age_ = 0;
  for (const std::uint16_t slot : alive)
    entries_[slot].key = next_age_++ * mask_banks<Mask> + entries_[slot].key % mask_banks<Mask>;
  for (int bank = 0; bank < banks_; ++bank) {
    for (std::size_t q : {reads, writes}) refresh_keys(q, bank);
    opened_key.at[static_cast<std::size_t>(bank)] = opened_entry(bank).key;
  }
}

template class Queues<NarrowMask>;
template class Queues<WideMask>;

}  // namespace tilesim::engine::dram
