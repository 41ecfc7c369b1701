// Words in order: comparators of registers and of parts of rows.
#include <algorithm>
#include <array>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/order/sort_words.hpp"

namespace tilesim::isa {

void WordWriter::exchange(const std::vector<Pair>& pairs) {
  words();
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
  for (const Pair& pair : pairs) code_.op("vminu.vv", {*pair.low, *pair.low, *pair.high});
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

/// A pair of sorted runs of half the size: the first comparator meets the last one.
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

void WordWriter::cross(const std::vector<Pair>& pairs, std::int64_t parts, int bit) {
  if (bit >= 0) lower_parts(bit);
  // of each word a flip and a result
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
    // one word after the other: its next flip need not wait for the last one's
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
  const auto move = [&](std::size_t i, unsigned to) {
    code_.op("vmv.v.v", {to, all[i]});
    if (!holds(home, all[i])) registers_.give(all[i]);
    all[i] = to;
  };
  for (bool moved = true; all != home;) {
    // a ring of registers that stand in each other's places is opened by one that goes aside
    if (!moved)
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] != home[i] && holds(home, all[i])) {
          move(i, registers_.take());
          break;
        }
    moved = false;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != home[i] && !holds(all, home[i])) move(i, home[i]), moved = true;
  }
}

}  // namespace tilesim::isa
