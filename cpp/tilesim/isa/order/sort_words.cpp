#include "tilesim/isa/order/sort_words.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

int log2_of_power(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)) - 1; }

bool has_sign(DType dtype) {
  return (is_float(dtype) && dtype != DType::f8e8m0fnu) || dtype_class(dtype) == DTypeClass::signed_integer;
}

/// Bits of the largest number, or of infinity if the type has one; larger bits are NaN.
std::int64_t largest_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7FF0000000000000;
    case DType::f32:
      return 0x7F800000;
    case DType::f16:
      return 0x7C00;
    case DType::bf16:
      return 0x7F80;
    case DType::f8e5m2:
      return 0x7C;
    case DType::f8e4m3ieee:
      return 0x78;
    case DType::f8e3m4:
      return 0x70;
    default:
      return 0x7E;  // f8e4m3fn
  }
}

}  // namespace

unsigned WordRegisters::take() {
  const auto count = static_cast<unsigned>(free_.size());
  for (unsigned i = 1; i < count; ++i)
    if (const unsigned reg = from_top_ ? count - i : i; free_[reg]) return free_[reg] = false, reg;
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
      shift_(plan.wide ? 64 : plan.word_bits / 2),
      signed_zero_(is_float(key) && has_sign(key) && !nan_for_minus_zero(key)),
      registers_(plan.wide) {}

WordWriter::Words WordWriter::take(std::int64_t count) {
  if (!plan_.wide) return registers_.take(count);
  Words all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(registers_.take_pair());
  return all;
}

void WordWriter::give(const Words& all) {
  registers_.give(all);
  if (plan_.wide) registers_.give(places(all));
}

WordWriter::Words WordWriter::places(const Words& all) const {
  Words beside = all;
  for (unsigned& reg : beside) ++reg;
  return beside;
}

/// Sets vl for parts of words.
void WordWriter::narrow(int width) {
  code_.set_vl(plan_.elements(), static_cast<unsigned>(width), log2_of_power(width) - log2_of_power(plan_.word_bits));
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

/// Writes one instruction for several registers, so that none waits for the previous result.
void WordWriter::immediate(const char* name, const Words& to, const Words& from, std::int64_t value) {
  for (std::size_t i = 0; i < to.size(); ++i) code_.op(name, {to[i], from[i], value});
}

void WordWriter::scalar(const char* name, const Words& to, const Words& from, std::int64_t value) {
  code_.load_constant(t1, value);
  immediate(name, to, from, t1);
}

void WordWriter::vectors(const char* name, const Words& to, const Words& a, const Words& b) {
  for (std::size_t i = 0; i < to.size(); ++i) code_.op(name, {to[i], a[i], b[i]});
}

void WordWriter::shift(const char* name, const Words& to, const Words& from, int by) {
  const std::string form = name;
  by < 32 ? immediate((form + ".vi").c_str(), to, from, by) : scalar((form + ".vx").c_str(), to, from, by);
}

/// y = all ones if y is above `limit`, else 0.
void WordWriter::ones_above(const Words& y, std::int64_t limit, int width) {
  scalar("vssubu.vx", y, y, limit);
  immediate("vrsub.vi", y, y, 0);
  shift("vsra", y, y, width - 1);
}

/// y = 1 if x equals `value`, else 0.
void WordWriter::is_value(const Words& y, const Words& x, std::int64_t value) {
  scalar("vxor.vx", y, x, value);
  scalar("vminu.vx", y, y, 1);
  immediate("vrsub.vi", y, y, 1);
}

/// Converts keys to unsigned numbers of the same order: NaN is the largest, −0 becomes 0; y = 1 for keys of −0.
void WordWriter::encode_keys(const Words& x, const Words& y, const Words& z) {
  const auto sign = static_cast<std::int64_t>(~std::uint64_t{0} << (width_ - 1));
  const bool floating = is_float(key_) && key_ != DType::f8e8m0fnu, fnuz = nan_for_minus_zero(key_);
  narrow(width_);
  if (floating) {
    if (!fnuz) {
      scalar("vand.vx", y, x, ~sign);
      ones_above(y, largest_bits(key_), width_);
    }
    shift("vsra", z, x, width_ - 1);
    scalar("vor.vx", z, z, sign);
    vectors("vxor.vv", x, x, z);
    if (!fnuz) {
      vectors("vor.vv", x, x, y);
      is_value(y, x, ~sign);
      vectors("vadd.vv", x, x, y);
    } else {  // NaN replaces −0: larger bits move down, NaN moves to the top
      immediate("vsrl.vi", z, x, width_ - 1);
      is_value(y, x, ~sign);
      vectors("vsub.vv", x, x, z);
      immediate("vsll.vi", y, y, width_ - 1);
      vectors("vadd.vv", x, x, y);
    }
  } else if (has_sign(key_)) {
    scalar("vxor.vx", x, x, sign);
  }
  if (descending_) immediate("vxor.vi", x, x, -1);
}

WordWriter::Words WordWriter::encode(std::int64_t count) {
  Words all;
  constexpr std::int64_t side = 4;
  for (std::int64_t done = 0; done < count; done += side) {
    const Words some = encode_some(std::min(side, count - done));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Loads keys and positions into separate registers.
WordWriter::Words WordWriter::encode_wide(std::int64_t count) {
  const Words keys_of = take(count), at = places(keys_of), y = registers_.take(count);
  words();
  for (const unsigned reg : keys_of) {
    code_.op("vle64.v", {reg, in});
    code_.advance(in, bytes(width_));
  }
  encode_keys(keys_of, y, at);
  for (std::size_t i = 0; i < at.size(); ++i) {
    plan_.columns > 1 ? code_.op("vadd.vx", {at[i], first_, place}) : code_.op("vmv.v.x", {at[i], place});
    code_.op("addi", {place, place, 2});
  }
  if (signed_zero_) vectors("vor.vv", at, at, y);
  if (plan_.padded()) {
    for (std::size_t i = 0; i < at.size(); ++i) code_.op("vmv.v.v", {y[i], at[i]});
    ones_above(y, 2 * plan_.extent - 1, plan_.word_bits);
    vectors("vor.vv", keys_of, keys_of, y);
    vectors("vor.vv", at, at, y);
  }
  registers_.give(y);
  return keys_of;
}

WordWriter::Words WordWriter::encode_some(std::int64_t count) {
  if (plan_.wide) return encode_wide(count);
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v"};
  static constexpr const char* wider[] = {"vzext.vf2", "vzext.vf4", "vzext.vf8"};
  const char* const widen = wider[log2_of_power(plan_.word_bits / width_) - 1];
  const Words x = registers_.take(count), y = registers_.take(count), word = registers_.take(count);
  narrow(width_);
  for (const unsigned reg : x) {
    code_.op(loads[log2_of_power(width_) - 3], {reg, in});
    code_.advance(in, bytes(width_));
  }
  encode_keys(x, y, word);
  words();
  for (std::size_t i = 0; i < x.size(); ++i) code_.op(widen, {word[i], x[i]});
  scalar("vsll.vx", word, word, shift_);
  if (signed_zero_) {
    for (std::size_t i = 0; i < x.size(); ++i) code_.op(widen, {x[i], y[i]});
    vectors("vor.vv", word, word, x);
  }
  if (plan_.columns > 1) immediate("vor.vv", word, word, first_);
  for (std::size_t i = 0; i < x.size(); ++i) {
    code_.op("vadd.vx", {word[i], word[i], place});
    if (plan_.padded()) code_.op("vadd.vx", {y[i], first_, place});
    code_.op("addi", {place, place, 2});
  }
  if (plan_.padded()) {
    ones_above(y, 2 * plan_.extent - 1, plan_.word_bits);
    vectors("vor.vv", word, word, y);
  }
  registers_.give(x), registers_.give(y);
  return word;
}

WordWriter::Words WordWriter::placeholders(std::int64_t count) {
  Words all = take(count);
  words();
  for (const unsigned word : all) code_.op("vmv.v.i", {word, -1});
  for (const unsigned reg : plan_.wide ? places(all) : Words{}) code_.op("vmv.v.i", {reg, -1});
  return all;
}

void WordWriter::decode_keys(const Words& x, const Words& y, const Words& places) {
  const auto sign = static_cast<std::int64_t>(~std::uint64_t{0} << (width_ - 1));
  const bool floating = is_float(key_) && key_ != DType::f8e8m0fnu, fnuz = nan_for_minus_zero(key_);
  narrow(width_);
  if (descending_) immediate("vxor.vi", x, x, -1);
  if (!floating) {
    if (has_sign(key_)) scalar("vxor.vx", x, x, sign);
    return;
  }
  if (fnuz) {  // NaN moves from the top to the bits of −0, larger bits move up
    immediate("vadd.vi", y, x, 1);
    immediate("vsrl.vi", y, y, width_ - 1);
    vectors("vadd.vv", y, y, x);
    is_value(x, x, -1);
    immediate("vsll.vi", x, x, width_ - 1);
    vectors("vsub.vv", x, y, x);
  }
  shift("vsra", y, x, width_ - 1);
  immediate("vxor.vi", y, y, -1);
  scalar("vor.vx", y, y, sign);
  vectors("vxor.vv", x, x, y);
  if (fnuz) return;
  // the lowest bit of a position is the sign of 0
  narrowed(y, places);
  narrow(width_);
  shift("vsll", y, y, width_ - 1);
  vectors("vor.vv", x, x, y);
}

/// Narrows the low bits of half words to the width of keys.
void WordWriter::narrowed(const Words& to, const Words& from) {
  if (shift_ == width_) {
    narrow(width_);
    for (std::size_t i = 0; i < to.size(); ++i) code_.op("vmv.v.v", {to[i], from[i]});
    return;
  }
  const Words* source = &from;
  for (int width = shift_ / 2; width >= width_; width /= 2, source = &to) {
    narrow(width);
    immediate("vnsrl.wi", to, *source, 0);
  }
}

void WordWriter::decode(const Words& all) {
  constexpr std::size_t side = 4;
  for (std::size_t from = 0; from < all.size(); from += side)
    decode_some({all.begin() + static_cast<std::ptrdiff_t>(from),
                 all.begin() + static_cast<std::ptrdiff_t>(std::min(from + side, all.size()))});
}

void WordWriter::decode_wide(const Words& all) {
  const auto count = std::ssize(all);
  const Words x = registers_.take(count), y = registers_.take(count), at = places(all);
  words();
  for (std::size_t i = 0; i < x.size(); ++i) code_.op("vmv.v.v", {x[i], all[i]});
  decode_keys(x, y, at);
  for (const unsigned reg : x) {
    code_.op("vse64.v", {reg, keys});
    code_.advance(keys, bytes(width_));
  }
  immediate("vsrl.vi", y, at, 1);
  const bool whole = bits(position_) == 64;
  if (!whole) narrow(bits(position_)), immediate("vnsrl.wi", y, y, 0);
  for (const unsigned reg : y) store_places(whole ? "vse64.v" : "vse32.v", reg);
  registers_.give(x), registers_.give(y);
}

void WordWriter::decode_some(const Words& all) {
  if (plan_.wide) return decode_wide(all);
  static constexpr const char* stores[] = {"vse8.v", "vse16.v", "vse32.v", "vse64.v"};
  const auto count = std::ssize(all);
  const Words x = registers_.take(count), y = registers_.take(count), at = registers_.take(count);
  narrow(shift_);
  scalar("vnsrl.wx", x, all, shift_);
  immediate("vnsrl.wi", at, all, 0);
  if (width_ < shift_) narrowed(x, x);
  decode_keys(x, y, at);
  narrow(width_);
  for (const unsigned reg : x) {
    code_.op(stores[log2_of_power(width_) - 3], {reg, keys});
    code_.advance(keys, bytes(width_));
  }
  narrow(shift_);
  immediate("vsrl.vi", at, at, 1);
  const int wide = bits(position_);
  if (wide > plan_.word_bits) {  // two registers each
    const unsigned to = registers_.take_pair();
    for (const unsigned reg : at) {
      narrow(wide);
      code_.op("vzext.vf4", {to, reg});
      store_places(stores[log2_of_power(wide) - 3], to);
    }
    registers_.give({to, to + 1});
  } else {
    narrow(wide);
    if (wide > shift_)
      for (std::size_t i = 0; i < y.size(); ++i) code_.op("vzext.vf2", {y[i], at[i]});
    for (const unsigned reg : wide > shift_ ? y : at) store_places(stores[log2_of_power(wide) - 3], reg);
  }
  registers_.give(x), registers_.give(y), registers_.give(at);
}

void WordWriter::store_places(const char* name, unsigned reg) {
  code_.op(name, {reg, positions});
  code_.advance(positions, bytes(bits(position_)));
}

/// Computes addresses by independent additions, for all runs before the first access.
void WordWriter::access(bool loads, const std::vector<Run>& runs) {
  static constexpr std::array<unsigned, 6> addresses{t0, a5, t6, 29, t2, place};
  const char* const name = plan_.word_bits == 64 ? (loads ? "vle64.v" : "vse64.v") : loads ? "vle32.v" : "vse32.v";
  words();
  const std::size_t parts = plan_.wide ? 2 : 1;
  const std::size_t side = (1 + addresses.size() / 2) / parts;  // words at a time for two runs; one run needs half
  for (std::size_t from = 0; from < runs[0].words.size(); from += side) {
    const std::size_t count = std::min(side, runs[0].words.size() - from);
    std::size_t next = 0;
    std::vector<unsigned> at;
    for (const Run& run : runs)
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t part = 0; part < parts; ++part) {
          at.push_back(i + part == 0 ? run.pointer : addresses[next++]);
          if (i + part == 0) continue;
          const auto words_on = static_cast<std::int64_t>(i) * run.step;
          code_.add(at.back(), run.pointer, words_on * word_bytes() + (part == 0 ? 0 : word_bytes() / 2));
        }
      }
    std::size_t reg = 0;
    for (const Run& run : runs)
      for (std::size_t i = 0; i < count * parts; ++i)
        code_.op(name, {run.words[from + i / parts] + static_cast<unsigned>(i % parts), at[reg++]});
    for (const Run& run : runs) code_.advance(run.pointer, static_cast<std::int64_t>(count) * run.step * word_bytes());
  }
}

}  // namespace tilesim::isa
