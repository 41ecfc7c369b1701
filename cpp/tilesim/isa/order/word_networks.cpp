// Sorts words: comparators for registers and for parts of rows.
#include <algorithm>
#include <array>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/order/sort_words.hpp"

namespace tilesim::isa {

/// Compares 128-bit words: the comparison of the lower halves is the borrow of the upper ones.
void WordWriter::in_front(unsigned a, unsigned b) {
  code_.op("vmsltu.vv", {0, a + 1, b + 1});
  code_.op("vmsbc.vvm", {0, a, b});
}

/// Exchanges keys by minimum and maximum; positions follow the comparison of the full words.
void WordWriter::exchange_wide(const Pair& pair) {
  const unsigned low = *pair.low, high = *pair.high, lower = registers_.take_pair();
  in_front(high, low);
  code_.op("vminu.vv", {lower, low, high});
  code_.op("vmaxu.vv", {high, low, high});
  code_.op("vmerge.vvm", {lower + 1, low + 1, high + 1});
  code_.op("vmerge.vvm", {high + 1, high + 1, low + 1});
  give({low});
  *pair.low = lower;
}

void WordWriter::exchange(const std::vector<Pair>& pairs) {
  words();
  if (plan_.wide) {
    for (const Pair& pair : pairs) exchange_wide(pair);
    return;
  }
  for (const Pair& pair : pairs) {
    const unsigned lower = registers_.take();
    code_.op("vminu.vv", {lower, *pair.low, *pair.high});
    code_.op("vmaxu.vv", {*pair.high, *pair.low, *pair.high});
    registers_.give(*pair.low);
    *pair.low = lower;
  }
}

void WordWriter::keep(const std::vector<Pair>& pairs) {
  words();
  for (const Pair& pair : pairs) {
    const unsigned low = *pair.low, high = *pair.high;
    if (plan_.wide) in_front(high, low);
    code_.op("vminu.vv", {low, low, high});
    if (plan_.wide) code_.op("vmerge.vvm", {low + 1, low + 1, high + 1});
  }
}

void WordWriter::clean(const std::vector<Words*>& blocks, std::int64_t widest) {
  for (std::int64_t d = widest; d > 0; d /= 2) {
    std::vector<Pair> pairs;
    for (Words* block : blocks)
      for (std::size_t i = 0; i + static_cast<std::size_t>(d) < block->size(); ++i)
        if ((i & static_cast<std::size_t>(d)) == 0)
          pairs.push_back({&(*block)[i], &(*block)[i + static_cast<std::size_t>(d)]});
    exchange(pairs);
  }
}

/// Merges pairs of sorted runs of half the size: the first comparator takes the first and the last word.
void WordWriter::sort(const std::vector<Words*>& blocks) {
  std::size_t longest = 0;
  for (const Words* block : blocks) longest = std::max(longest, block->size());
  for (std::size_t size = 2; size / 2 < longest; size *= 2) {
    std::vector<Pair> pairs;
    for (Words* block : blocks)
      for (std::size_t base = 0; base < block->size(); base += size)
        for (std::size_t q = 0; q < size / 2; ++q)
          if (base + size - 1 - q < block->size())
            pairs.push_back({&(*block)[base + q], &(*block)[base + size - 1 - q]});
    exchange(pairs);
    clean(blocks, static_cast<std::int64_t>(size) / 4);
  }
}

void WordWriter::lower_parts(int bit) {
  const unsigned part = registers_.take();
  words();
  code_.load_constant(t1, plan_.rows << bit);
  code_.op("vand.vx", {part, number_, t1});
  code_.op("vmseq.vi", {0, part, 0});
  registers_.give(part);
}

/// word = the lower of both words; for elements with a bit in `upper`, the higher one.
void WordWriter::cross_wide(unsigned word, unsigned other, unsigned upper) {
  in_front(other, word);
  if (upper != 0) code_.op("vmxor.mm", {0, 0, upper});
  for (const unsigned part : {0U, 1U}) code_.op("vmerge.vvm", {word + part, word + part, other + part});
}

void WordWriter::cross_all_wide(const std::vector<Pair>& pairs, std::int64_t parts, int bit) {
  words();
  unsigned upper = 0;
  if (bit >= 0) {
    upper = registers_.take();
    code_.load_constant(t1, plan_.rows << bit);
    code_.op("vand.vx", {upper, number_, t1});
    code_.op("vmsne.vi", {0, upper, 0});
    code_.op("vmand.mm", {upper, 0, 0});
  }
  code_.load_constant(t1, parts * plan_.rows);
  const auto flipped = [&](unsigned word) {
    const unsigned other = registers_.take_pair();
    for (const unsigned part : {0U, 1U}) code_.op("xl.flip", {other + part, word + part, t1});
    return other;
  };
  for (const Pair& pair : pairs) {
    const unsigned for_low = flipped(*pair.high), for_high = pair.low == pair.high ? 0 : flipped(*pair.low);
    cross_wide(*pair.low, for_low, upper);
    give({for_low});
    if (for_high == 0) continue;
    cross_wide(*pair.high, for_high, upper);
    give({for_high});
  }
  if (upper != 0) registers_.give(upper);
}

void WordWriter::cross(const std::vector<Pair>& pairs, std::int64_t parts, int bit) {
  if (plan_.wide) return cross_all_wide(pairs, parts, bit);
  if (bit >= 0) lower_parts(bit);
  // per word one register for the flipped word and one for the result
  const std::int64_t each = !pairs.empty() && pairs[0].low == pairs[0].high ? 2 : 4;
  const auto together = static_cast<std::size_t>(std::max<std::int64_t>(1, registers_.left() / each));
  for (std::size_t from = 0; from < pairs.size(); from += together) {
    const std::size_t to = std::min(pairs.size(), from + together);
    struct Side {
      unsigned* word;
      unsigned other;
    };
    std::vector<Side> sides;
    words();
    code_.load_constant(t1, parts * plan_.rows);
    for (std::size_t i = from; i < to; ++i) {
      const Pair& pair = pairs[i];
      sides.push_back({pair.low, registers_.take()});
      code_.op("xl.flip", {sides.back().other, *pair.high, t1});
      if (pair.low == pair.high) continue;
      sides.push_back({pair.high, registers_.take()});
      code_.op("xl.flip", {sides.back().other, *pair.low, t1});
    }
    if (bit < 0) {
      for (const Side& side : sides) code_.op("vminu.vv", {*side.word, *side.word, side.other});
      for (const Side& side : sides) registers_.give(side.other);
      continue;
    }
    // one word after the other, so that flips overlap
    set_masked();
    for (const Side& side : sides) {
      const unsigned result = registers_.take();
      code_.op("vmaxu.vv", {result, *side.word, side.other});
      code_.op("vminu.vv", {result, *side.word, side.other, 0});
      registers_.give(side.other), registers_.give(*side.word);
      *side.word = result;
    }
  }
}

void WordWriter::settle(Words& all, const Words& home) {
  words();
  const auto holds = [](const Words& those, unsigned reg) {
    return std::find(those.begin(), those.end(), reg) != those.end();
  };
  for (const unsigned reg : home) registers_.claim(reg);
  for (const unsigned reg : plan_.wide ? places(home) : Words{}) registers_.claim(reg);
  const auto move = [&](std::size_t i, unsigned to) {
    code_.op("vmv.v.v", {to, all[i]});
    if (plan_.wide) code_.op("vmv.v.v", {to + 1, all[i] + 1});
    if (!holds(home, all[i])) give({all[i]});
    all[i] = to;
  };
  for (bool moved = true; all != home;) {
    // moves one register of a cycle to a free one, which breaks the cycle
    if (!moved)
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] != home[i] && holds(home, all[i])) {
          move(i, take(1)[0]);
          break;
        }
    moved = false;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != home[i] && !holds(all, home[i])) move(i, home[i]), moved = true;
  }
}

}  // namespace tilesim::isa
