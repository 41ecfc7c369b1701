#include "tilesim/tile/latency_book.hpp"

#include <array>
#include <charconv>
#include <sstream>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

constexpr ComputeKind kinds[] = {ComputeKind::mma,     ComputeKind::vector, ComputeKind::permute,
                                 ComputeKind::indexed, ComputeKind::sort,   ComputeKind::opaque};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UserError({"cannot read a tile compute: " + why,
                   {},
                   "'" + text + "'",
                   "as 'mma bf16 bf16 b1 m128 n128 k256 ko1 pipelined'",
                   {}});
}

std::int64_t number(const std::string& text, const std::string& word, std::size_t from) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data() + from, word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < 0) refuse(text, "'" + word + "'");
  return value;
}

/// "f1,0,2,0": numbers behind a letter.
std::array<std::int64_t, 4> four(const std::string& text, const std::string& word) {
  std::istringstream parts(word.substr(1));
  std::string part;
  std::array<std::int64_t, 4> numbers{};
  std::size_t i = 0;
  for (; std::getline(parts, part, ','); ++i) {
    if (i == numbers.size()) refuse(text, "'" + word + "'");
    numbers[i] = number(text, part, 0);
  }
  if (i != numbers.size()) refuse(text, "'" + word + "'");
  return numbers;
}

template <class Numbers>
std::string joined(const Numbers& numbers) {
  std::string text;
  for (const auto one : numbers) text += (text.empty() ? "" : ",") + std::to_string(one);
  return text;
}

/// "v0=1,10=2": counts that are not 0, by their places.
std::string moves_text(const VectorMoves& moves) {
  std::string text;
  for (std::size_t i = 0; i < moves.counts.size(); ++i)
    if (moves.counts[i] != 0)
      text += (text.empty() ? "v" : ",") + std::to_string(i) + "=" + std::to_string(moves.counts[i]);
  return text;
}

VectorMoves moves_of(const std::string& text, const std::string& word) {
  std::istringstream parts(word.substr(1));
  std::string part;
  VectorMoves moves;
  while (std::getline(parts, part, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) refuse(text, "'" + word + "'");
    const std::int64_t place = number(text, part.substr(0, equals), 0), count = number(text, part, equals + 1);
    if (place >= std::ssize(moves.counts) || count > UINT16_MAX) refuse(text, "'" + word + "'");
    moves.counts[static_cast<std::size_t>(place)] = static_cast<std::uint16_t>(count);
  }
  return moves;
}

constexpr int hex_digits = 16;

std::string hex(std::uint64_t value) {
  std::string digits(hex_digits, '0');
  for (int i = hex_digits - 1; i >= 0; --i, value >>= 4)
    digits[static_cast<std::size_t>(i)] = "0123456789abcdef"[value & 15];
  return digits;
}

std::uint64_t signature(const std::string& text, const std::string& word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), value, 16);
  if (error != std::errc{} || end != word.data() + word.size() || word != "g" + hex(value))
    refuse(text, "'" + word + "'");
  return value;
}

}  // namespace

std::string compute_text(const Descriptor& d, const History& history) {
  std::string text = std::string(name(d.kind)) + " " + std::string(name(d.dtype));
  const auto add = [&](const char* label, std::int64_t value) { text += " " + (label + std::to_string(value)); };
  switch (d.kind) {
    case ComputeKind::mma:
      text += " " + std::string(name(d.second));
      add("b", d.batch), add("m", d.m), add("n", d.n), add("k", d.k), add("ko", d.k_outer);
      if (d.stationary_a) text += " stationary_a";
      if (d.accumulate) text += " accumulate";
      if (d.run > 0) add("run", d.run);
      break;
    case ComputeKind::opaque:
      add("d", d.duration);
      break;
    case ComputeKind::permute:
      add("e", d.elements), add("l", d.lane_extent), add("k", d.k), add("ko", d.k_outer), add("b", d.batch);
      break;
    case ComputeKind::indexed:
      text += " " + std::string(name(d.second));
      add("e", d.elements), add("m", d.m), add("k", d.k);
      text += " f" + std::to_string(d.functions[0]) + "," + std::to_string(d.functions[1]) + ",0,0";
      break;
    default:
      add("e", d.elements), add("l", d.lane_extent);
      text += " f" + joined(d.functions);
      add("r", d.lane_reductions);
      if (d.lane_scans > 0) add("s", d.lane_scans);
      if (d.kind == ComputeKind::sort) add("k", d.k);
      if (d.custom != CustomWork{}) {
        const std::array<std::int64_t, 4> parts{d.custom.shared, d.custom.crossing, d.custom.apart, d.custom.latency};
        text += " u" + joined(parts);
      }
      if (d.combined > 1) add("c", d.combined);
      if (d.moves.known()) text += " " + moves_text(d.moves);
  }
  if (history.weights_resident) text += " resident";
  if (history.pipelined) text += " pipelined";
  if (d.signature != 0) text += " g" + hex(d.signature);
  return text;
}

std::optional<ComputeKind> compute_kind(std::string_view word) {
  for (const ComputeKind kind : kinds)
    if (name(kind) == word) return kind;
  return std::nullopt;
}

std::pair<Descriptor, History> parse_compute(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  Descriptor d;
  History history;
  words >> word;
  const auto kind = compute_kind(word);
  if (!kind) refuse(text, "unknown kind '" + word + "'");
  d.kind = *kind;
  if (!(words >> word)) refuse(text, "the element type is missing");
  d.dtype = parse_dtype(word);
  if (d.kind == ComputeKind::mma || d.kind == ComputeKind::indexed) {
    if (!(words >> word)) refuse(text, "the second element type is missing");
    d.second = parse_held_dtype(word);
  }
  while (words >> word) {
    if (word == "resident")
      history.weights_resident = true;
    else if (word == "pipelined")
      history.pipelined = true;
    else if (word == "stationary_a")
      d.stationary_a = true;
    else if (word == "accumulate")
      d.accumulate = true;
    else if (word.rfind("run", 0) == 0)
      d.run = number(text, word, 3);
    else if (word[0] == 'g')
      d.signature = signature(text, word);
    else if (word.rfind("ko", 0) == 0)
      d.k_outer = number(text, word, 2);
    else if (word[0] == 'b')
      d.batch = number(text, word, 1);
    else if (word[0] == 'm')
      d.m = number(text, word, 1);
    else if (word[0] == 'n')
      d.n = number(text, word, 1);
    else if (word[0] == 'k')
      d.k = number(text, word, 1);
    else if (word[0] == 'd')
      d.duration = number(text, word, 1);
    else if (word[0] == 'e')
      d.elements = number(text, word, 1);
    else if (word[0] == 'l')
      d.lane_extent = number(text, word, 1);
    else if (word[0] == 'r')
      d.lane_reductions = number(text, word, 1);
    else if (word[0] == 's')
      d.lane_scans = number(text, word, 1);
    else if (word[0] == 'f') {
      const std::array<std::int64_t, 4> counts = four(text, word);
      for (std::size_t i = 0; i < counts.size(); ++i) d.functions[i] = static_cast<std::int32_t>(counts[i]);
    } else if (word[0] == 'u') {
      const std::array<std::int64_t, 4> parts = four(text, word);
      d.custom = {parts[0], parts[1], parts[2], parts[3]};
    } else if (word[0] == 'c')
      d.combined = number(text, word, 1);
    else if (word[0] == 'v')
      d.moves = moves_of(text, word);
    else
      refuse(text, "'" + word + "'");
  }
  return {d, history};
}

void LatencyBook::put(const std::string& compute, TileLatency latency, const std::string& limit) {
  for (const std::int64_t cycles :
       {latency.busy, latency.weights_consumed, latency.consumed, latency.first, latency.done})
    if (cycles < 0)
      throw UserError({"a tile latency is a number of cycles", compute, std::to_string(cycles), "0 or more", {}});
  if (latency.busy > latency.done)
    throw UserError({"a unit is busy at most until its last result",
                     compute,
                     std::to_string(latency.busy) + " cycles",
                     "at most " + std::to_string(latency.done),
                     {}});
  latency.limit = limits_.insert(limit).first->c_str(), latency.why = limits_.insert(latency.why).first->c_str();
  entries_[compute] = latency;
}

const TileLatency* LatencyBook::find(const std::string& compute) {
  const auto entry = entries_.find(compute);
  ++(entry == entries_.end() ? misses : hits);
  return entry == entries_.end() ? nullptr : &entry->second;
}

/// Entries of other sources may omit properties that do not affect them: accumulation, runs of rows, moves.
const TileLatency* BookedLatency::find(const Descriptor& descriptor, const History& history) {
  const std::string whole = compute_text(descriptor, history);
  const bool more = descriptor.accumulate || descriptor.run > 0 || descriptor.moves.known();
  if (!more || book_.source() == instruction_source || book_.source() == closed_form_.name() ||
      book_.entries().contains(whole))
    return book_.find(whole);
  Descriptor less = descriptor;
  less.accumulate = false, less.run = 0, less.combined = 1, less.moves = {};
  return book_.find(compute_text(less, history));
}

TileLatency BookedLatency::latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) {
  Descriptor key = descriptor;
  if (book_.source() != instruction_source) key.signature = 0;
  const std::string compute = compute_text(key, history);
  if (const TileLatency* found = find(key, history)) return *found;
  if (own_ && !book_.refused.contains(compute)) {
    try {
      const TileLatency latency = own_->latency(descriptor, history, source);
      book_.put(compute, latency, latency.limit);
      return book_.entries().at(compute);
    } catch (const Unsupported& error) {
      book_.refused[compute] = error.parts().what;
    }
  }
  const TileLatency latency = closed_form_.latency(descriptor, history, source);
  if (book_.source() == closed_form_.name()) book_.put(compute, latency, latency.limit);
  return latency;
}

}  // namespace tilesim
