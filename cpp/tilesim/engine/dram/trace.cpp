#include "tilesim/engine/dram/trace.hpp"

#include <charconv>
#include <functional>
#include <sstream>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::engine::dram {

namespace {

using Address = std::uint64_t;
struct Access {
  Address address = 0;
  bool write = false;
};
using Generator = std::function<Access(Address)>;

const std::vector<std::string> known{
    "sequential_read", "sequential_write",  "copy_blocks_64KiB", "tile_256B_pitch_4096B", "stride_4KiB",
    "two_streams_far", "two_streams_1MiB",  "random_read",       "random_write",          "mixed_rand",
    "mixed_small",     "mixed_small_64KiB", "mixed_seq"};

/// xorshift64 (Marsaglia, "Xorshift RNGs", 2003); each call advances the state first.
class Xorshift {
 public:
  Address operator()() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  Address state_ = 88172645463325252ULL;
};

class Name {
 public:
  explicit Name(const std::string& text) : text_(text) {}
  bool take(const std::string& word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  bool end() const { return at_ == text_.size(); }
  bool is(const std::string& word) const { return text_ == word; }
  /// Reads a size such as "256B" or "64KiB": a positive multiple of `unit`.
  Address size(Address unit) {
    const std::size_t begin = at_;
    Address value = 0;
    const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    at_ = static_cast<std::size_t>(rest - text_.data());
    const int shift = take("KiB") ? 10 : take("MiB") ? 20 : take("GiB") ? 30 : take("B") ? 0 : -1;
    if (error != std::errc{} || rest == text_.data() + begin || shift < 0) unknown();
    if (value == 0 || value > (1ULL << 50) >> shift || (value << shift) % unit != 0)
      throw UserError({"a size in the trace's name does not fit",
                       text_,
                       text_.substr(begin, at_ - begin),
                       "a positive multiple of " + std::to_string(unit) + " B",
                       {}});
    return value << shift;
  }
  [[noreturn]] void unknown() const {
    throw UserError({"unknown trace", {}, "'" + text_ + "'", join(known), nearest(text_, known)});
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

Generator random_one(Address burst, Address span, const std::function<bool(Address)>& is_write) {
  return [=, random = Xorshift()](Address) mutable {
    const Address x = random();
    return Access{x % (span / burst) * burst, is_write(x)};
  };
}

Generator generator(const std::string& text, Address b, Address span) {
  Name name(text);
  const Address half = span / 2;
  if (name.is("sequential_read")) return [=](Address i) { return Access{i * b, false}; };
  if (name.is("sequential_write")) return [=](Address i) { return Access{i * b, true}; };
  if (name.is("random_read")) return random_one(b, span, [](Address) { return false; });
  if (name.is("random_write")) return random_one(b, span, [](Address) { return true; });
  if (name.is("mixed_rand")) return random_one(b, span, [](Address x) { return (x >> 40) % 3 == 0; });
  if (name.is("mixed_seq")) return [=](Address i) { return Access{i / 2 * b + (i % 2) * half, i % 2 == 1}; };
  Generator result;
  if (name.take("copy_blocks_")) {
    const Address size = name.size(b), per = size / b;
    result = [=](Address i) {
      const Address block = i / per;
      return Access{block % 2 * half + block / 2 * size + i % per * b, block % 2 == 1};
    };
  } else if (name.take("tile_")) {
    const Address row = name.size(b), per = row / b;
    if (!name.take("_pitch_")) name.unknown();
    const Address pitch = name.size(b);
    const bool write = name.take("_write");
    result = [=](Address i) { return Access{i / per * pitch + i % per * b, write}; };
  } else if (name.take("stride_")) {
    const Address stride = name.size(1);
    const bool write = name.take("_write");
    result = [=](Address i) { return Access{stride * i % span, write}; };
  } else if (name.take("two_streams_")) {
    const Address apart = name.take("far") ? span / 4 : name.size(b);
    result = [=](Address i) { return Access{i / 2 * b + i % 2 * apart, false}; };
  } else if (name.take("mixed_small")) {
    const Address small = name.end() ? 32768 : name.take("_") ? name.size(b) : (name.unknown(), 0);
    result = random_one(b, small, [](Address x) { return (x >> 40 & 1) != 0; });
  }
  if (!result || !name.end()) name.unknown();
  return result;
}

}  // namespace

Trace make_trace(const std::string& name, std::int64_t requests, std::int64_t burst, std::int64_t span) {
  constexpr std::int64_t most = std::int64_t{1} << 30, largest_burst = 1 << 20;
  if (requests < 0 || requests > most)
    throw UserError({"wrong number of requests", "requests", std::to_string(requests), "0 to 2^30", {}});
  if (burst < 1 || burst > largest_burst)
    throw UserError({"the burst does not fit", "burst_bytes", std::to_string(burst), "1 to 2^20 B", {}});
  if (span < 4 * burst || span % (4 * burst) != 0)
    throw UserError({"the span does not fit",
                     "span",
                     std::to_string(span),
                     "a positive multiple of " + std::to_string(4 * burst) + " B",
                     {}});
  Generator next = generator(name, static_cast<Address>(burst), static_cast<Address>(span));
  Trace trace;
  trace.addresses.reserve(static_cast<std::size_t>(requests));
  trace.writes.reserve(static_cast<std::size_t>(requests));
  for (Address i = 0; i < static_cast<Address>(requests); ++i) {
    if ((i & 0xFFF) == 0) worked(1 << 14);
    const Access access = next(i);
    trace.addresses.push_back(access.address);
    trace.writes.push_back(access.write ? 1 : 0);
  }
  return trace;
}

namespace {

template <class Integer>
bool read_number(const std::string& word, Integer& value) {
  const bool hex = word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  const char* begin = word.data() + (hex ? 2 : 0);
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
  return error == std::errc{} && rest == end;
}

}  // namespace

Trace parse_trace(const std::string& text, const std::string& source) {
  Trace trace;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    worked(256);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string kind, address, cycle, more;
    if (!(words >> kind)) continue;
    words >> address >> cycle >> more;
    const bool read = kind == "R" || kind == "LD", write = kind == "W" || kind == "ST";
    Address at = 0;
    std::int64_t when = 0;
    const bool timed = !cycle.empty();
    const bool good = (read || write) && read_number(address, at) && (!timed || read_number(cycle, when)) &&
                      more.empty() && when >= 0 && when <= latest_cycle;
    if (!good)
      throw UserError({"a line of the trace cannot be read",
                       source + ":" + std::to_string(number),
                       "'" + line + "'",
                       "R or W, an address, and perhaps a cycle of at most 2^61, separated by blanks",
                       {}});
    if (!trace.addresses.empty() && timed == trace.cycles.empty())
      throw UserError({"some lines of the trace have a cycle and some have none",
                       source + ":" + std::to_string(number),
                       "'" + line + "'",
                       "all or none",
                       {}});
    if (timed && !trace.cycles.empty() && when < trace.cycles.back())
      throw UserError({"the cycles of a trace run backwards",
                       source + ":" + std::to_string(number),
                       std::to_string(when),
                       std::to_string(trace.cycles.back()) + " or later",
                       {}});
    trace.addresses.push_back(at);
    trace.writes.push_back(write ? 1 : 0);
    if (timed) trace.cycles.push_back(when);
  }
  return trace;
}

}  // namespace tilesim::engine::dram
