#include "tilesim/isa/kernel/sort_words.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

int log2_of_power(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)) - 1; }

bool has_nan_for_minus_zero(DType dtype) { return dtype == DType::f8e4m3fnuz || dtype == DType::f8e5m2fnuz; }
bool has_sign(DType dtype) {
  return (is_float(dtype) && dtype != DType::f8e8m0fnu) || dtype_class(dtype) == DTypeClass::signed_integer;
}

/// The largest number's bits, infinity where there is one: what is above is NaN.
std::int64_t largest_bits(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7F800000;
    case DType::f16:
      return 0x7C00;
    case DType::bf16:
      return 0x7F80;
    case DType::f8e5m2:
      return 0x7C;
    default:
      return 0x7E;  // f8e4m3fn
  }
}

}  // namespace

unsigned WordRegisters::take() {
  for (unsigned reg = 1; reg < free_.size(); ++reg)
    if (free_[reg]) return free_[reg] = false, reg;
  throw InternalError("a kernel of a sort takes more registers than there are");
}

std::vector<unsigned> WordRegisters::take(std::int64_t count) {
  std::vector<unsigned> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(take());
  return all;
}

unsigned WordRegisters::take_pair() {
  for (unsigned reg = 2; reg + 1 < free_.size(); reg += 2)
    if (free_[reg] && free_[reg + 1]) return free_[reg] = free_[reg + 1] = false, reg;
  throw InternalError("a kernel of a sort takes more registers than there are");
}

std::int64_t WordRegisters::left() const { return std::count(free_.begin() + 1, free_.end(), true); }

WordWriter::WordWriter(Code& code, const SortPlan& plan, DType key, DType position, bool descending)
    : code_(code),
      plan_(plan),
      key_(key),
      position_(position),
      descending_(descending),
      width_(bits(key)),
      shift_(plan.word_bits / 2),
      signed_zero_(is_float(key) && has_sign(key) && !has_nan_for_minus_zero(key)) {}

/// Sets vl for parts of words.
void WordWriter::narrow(int width, bool stay) {
  code_.set_vl(plan_.elements(), static_cast<unsigned>(width), log2_of_power(width) - log2_of_power(plan_.word_bits),
               stay);
}

void WordWriter::begin() {
  if (plan_.columns == 1) return;
  number_ = registers_.take(), first_ = registers_.take();
  words();
  code_.op("vid.v", {number_});
  code_.op("vsrl.vi", {first_, number_, log2_of_power(plan_.rows)});
  code_.load_constant(t1, 2 * plan_.registers);
  code_.op("vmul.vx", {first_, first_, t1});
}

void WordWriter::first_register() { code_.load_constant(place, 0); }

/// Bits of a key as an unsigned number of the same order; −0 as 0, told by the mask; NaN above all.
void WordWriter::encode_key(unsigned x, unsigned y) {
  const std::int64_t sign = -(std::int64_t{1} << (width_ - 1));
  const bool floating = is_float(key_) && key_ != DType::f8e8m0fnu;
  narrow(width_);
  if (!floating) {
    if (has_sign(key_)) code_.load_constant(t1, sign), code_.op("vxor.vx", {x, x, t1});
    if (descending_) code_.op("vxor.vi", {x, x, -1});
    return;
  }
  if (has_nan_for_minus_zero(key_)) {
    code_.load_constant(t1, sign);
    code_.op("vmseq.vx", {0, x, t1});
  } else {
    code_.load_constant(t1, ~sign), code_.op("vand.vx", {y, x, t1});
    code_.load_constant(t1, largest_bits(key_)), code_.op("vmsgtu.vx", {0, y, t1});
  }
  code_.op("vsra.vi", {y, x, width_ - 1});
  code_.load_constant(t1, sign);
  code_.op("vor.vx", {y, y, t1});
  code_.op("vxor.vv", {x, x, y});
  code_.op("vmerge.vim", {x, x, -1});
  if (signed_zero_) {
    code_.load_constant(t1, ~sign);
    code_.op("vmseq.vx", {0, x, t1});
    narrow(width_, true);
    code_.op("vadd.vi", {x, x, 1, 0});
  }
  if (descending_) code_.op("vxor.vi", {x, x, -1});
}

WordWriter::Words WordWriter::encode(std::int64_t count) {
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v"};
  static constexpr const char* wider[] = {"vzext.vf2", "vzext.vf4", "vzext.vf8"};
  Words all;
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned x = registers_.take(), y = registers_.take(), word = registers_.take();
    narrow(width_);
    code_.op(loads[log2_of_power(width_) - 3], {x, in});
    code_.advance(in, bytes(width_));
    encode_key(x, y);
    words();
    code_.op(wider[log2_of_power(plan_.word_bits / width_) - 1], {word, x});
    code_.load_constant(t1, shift_);
    code_.op("vsll.vx", {word, word, t1});
    if (plan_.columns > 1) code_.op("vor.vv", {word, word, first_});
    code_.op("vadd.vx", {word, word, place});
    if (signed_zero_) set_masked(), code_.op("vadd.vi", {word, word, 1, 0});
    if (plan_.padded()) {
      words();
      code_.op("vadd.vx", {y, first_, place});
      code_.load_constant(t1, 2 * plan_.extent - 1);
      code_.op("vmsgtu.vx", {0, y, t1});
      code_.op("vmerge.vim", {word, word, -1});
    }
    code_.op("addi", {place, place, 2});
    registers_.give(x), registers_.give(y);
    all.push_back(word);
  }
  return all;
}

WordWriter::Words WordWriter::placeholders(std::int64_t count) {
  Words all = registers_.take(count);
  words();
  for (const unsigned word : all) code_.op("vmv.v.i", {word, -1});
  return all;
}

void WordWriter::decode_key(unsigned x, unsigned y, unsigned place_of) {
  const std::int64_t sign = -(std::int64_t{1} << (width_ - 1));
  const bool floating = is_float(key_) && key_ != DType::f8e8m0fnu;
  narrow(width_);
  if (descending_) code_.op("vxor.vi", {x, x, -1});
  code_.load_constant(t1, sign);
  if (!floating) {
    if (has_sign(key_)) code_.op("vxor.vx", {x, x, t1});
    return;
  }
  if (has_nan_for_minus_zero(key_)) code_.op("vmseq.vi", {0, x, -1});
  code_.op("vsra.vi", {y, x, width_ - 1});
  code_.op("vxor.vi", {y, y, -1});
  code_.op("vor.vx", {y, y, t1});
  code_.op("vxor.vv", {x, x, y});
  if (!has_nan_for_minus_zero(key_)) {
    narrow(shift_);
    code_.op("vand.vi", {y, place_of, 1});
    code_.op("vmsne.vi", {0, y, 0});
    narrow(width_);
  }
  code_.op("vmerge.vxm", {x, x, t1});
}

void WordWriter::decode(const Words& all) {
  static constexpr const char* stores[] = {"vse8.v", "vse16.v", "vse32.v", "vse64.v"};
  for (const unsigned word : all) {
    const unsigned x = registers_.take(), y = registers_.take(), at = registers_.take();
    narrow(shift_);
    code_.load_constant(t1, shift_);
    code_.op("vnsrl.wx", {x, word, t1});
    code_.op("vnsrl.wi", {at, word, 0});
    for (int width = shift_ / 2; width >= width_; width /= 2) narrow(width), code_.op("vnsrl.wi", {x, x, 0});
    decode_key(x, y, at);
    code_.op(stores[log2_of_power(width_) - 3], {x, keys});
    code_.advance(keys, bytes(width_));
    narrow(shift_);
    code_.op("vsrl.vi", {at, at, 1});
    const int wide = bits(position_);
    if (wide > shift_) {
      const unsigned to = wide > plan_.word_bits ? registers_.take_pair() : y;
      narrow(wide);
      code_.op(wide == 2 * shift_ ? "vzext.vf2" : "vzext.vf4", {to, at});
      code_.op(stores[log2_of_power(wide) - 3], {to, positions});
      if (to != y) registers_.give({to, to + 1});
    } else {
      code_.op(stores[log2_of_power(wide) - 3], {at, positions});
    }
    code_.advance(positions, bytes(wide));
    registers_.give({x, y, at});
  }
}

void WordWriter::load(const Words& all, unsigned pointer, std::int64_t step) {
  words();
  for (const unsigned word : all) {
    code_.op(plan_.word_bits == 64 ? "vle64.v" : "vle32.v", {word, pointer});
    code_.advance(pointer, step * word_bytes());
  }
}

void WordWriter::store(const Words& all, unsigned pointer, std::int64_t step) {
  words();
  for (const unsigned word : all) {
    code_.op(plan_.word_bits == 64 ? "vse64.v" : "vse32.v", {word, pointer});
    code_.advance(pointer, step * word_bytes());
  }
}

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
  // of each pair at most two flips and two results
  const std::size_t together = static_cast<std::size_t>(std::max<std::int64_t>(1, registers_.left() / 4));
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
    Words results;
    for (const Side& side : sides) {
      results.push_back(registers_.take());
      code_.op("vmaxu.vv", {results.back(), *side.word, side.other});
    }
    set_masked();
    for (std::size_t i = 0; i < sides.size(); ++i)
      code_.op("vminu.vv", {results[i], *sides[i].word, sides[i].other, 0});
    for (std::size_t i = 0; i < sides.size(); ++i) {
      registers_.give(sides[i].other), registers_.give(*sides[i].word);
      *sides[i].word = results[i];
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
