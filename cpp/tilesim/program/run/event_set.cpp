// Sets of events.
#include <bit>

#include "tilesim/program/run/races.hpp"

namespace tilesim::program {

void EventSet::set(std::size_t bit) {
  const std::size_t word = bit / 64;
  if (word < base_) return;
  if (word - base_ >= words_.size()) words_.resize(word - base_ + 1, 0);
  words_[word - base_] |= std::uint64_t{1} << (bit % 64);
}

bool EventSet::has(std::size_t bit) const {
  const std::size_t word = bit / 64;
  if (word < base_) return true;
  return word - base_ < words_.size() && (words_[word - base_] >> (bit % 64) & 1) != 0;
}

void EventSet::add(const EventSet& other) {
  if (other.base_ > base_) {
    const std::size_t drop = std::min(other.base_ - base_, words_.size());
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(drop));
    base_ = other.base_;
  }
  const std::size_t skip = base_ - other.base_;
  if (other.words_.size() <= skip) return;
  if (other.words_.size() - skip > words_.size()) words_.resize(other.words_.size() - skip, 0);
  for (std::size_t i = skip; i < other.words_.size(); ++i) words_[i - skip] |= other.words_[i];
}

void EventSet::add_all_below(std::int32_t operation) {
  EventSet all;
  all.base_ = static_cast<std::size_t>(operation) * 2 / 64;
  add(all);
  for (std::size_t bit = base_ * 64; bit < 2 * static_cast<std::size_t>(operation); ++bit) set(bit);
}

std::int64_t EventSet::first_missing_in(const EventSet& other) const {
  // Ignores events below `base_`: callers ensure that `other` contains them.
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
      const std::size_t bit = (base_ + i) * 64 + static_cast<std::size_t>(std::countr_zero(left));
      if (!other.has(bit)) return static_cast<std::int64_t>(bit);
    }
  }
  return -1;
}

}  // namespace tilesim::program
