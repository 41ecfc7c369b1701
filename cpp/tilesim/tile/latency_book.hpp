// A cache of tile latencies, keyed by a text of the compute: kept between runs, read from files or filled by another
// source.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// The source whose latencies are those of kernels: its computes are told apart by their signatures too.
inline constexpr std::string_view instruction_source = "instruction";

/// "mma bf16 bf16 b1 m128 n128 k256 ko1", of which "stationary_a", "accumulate", "run56" where so,
/// "vector f32 e4096 l128 f3,1,0,1 r1"; then "resident", "pipelined" where so;
/// last "g0123456789abcdef", the signature, where there is one. Everything that a latency depends on besides the
/// machine's units.
std::string compute_text(const Descriptor& descriptor, const History& history);
std::optional<ComputeKind> compute_kind(std::string_view word);  ///< none: no kind is called so
/// Reads compute_text; UserError for anything else.
std::pair<Descriptor, History> parse_compute(const std::string& text);

class LatencyBook {
 public:
  explicit LatencyBook(std::string source) : source_(std::move(source)) {}
  const std::string& source() const { return source_; }
  /// Replaces an entry of the same compute. UserError for negative cycles, or `busy` above `done`.
  void put(const std::string& compute, TileLatency latency, const std::string& limit);
  const TileLatency* find(const std::string& compute);
  const std::map<std::string, TileLatency>& entries() const { return entries_; }

  std::int64_t hits = 0, misses = 0;                ///< of lookups here
  std::int64_t memory_hits = 0, memory_misses = 0;  ///< of the engine's own table, which asks here for missing entries
  std::map<std::string, std::string> refused;       ///< computes for which the source has no latency, and why
  std::map<std::string, std::int64_t> counts;       ///< executions by compute; of source "instruction" alone

 private:
  std::string source_;
  std::map<std::string, TileLatency> entries_;
  std::set<std::string> limits_;  ///< what the entries' `limit` points to
};

/// A book in front of closed forms. What the book lacks is asked of `own`, the model of the book's source, and written
/// into the book; where none exists, or it throws Unsupported (noted in the book), the closed form answers, whose
/// latencies are written into the book of their source only.
class BookedLatency final : public LatencyModel {
 public:
  BookedLatency(LatencyBook& book, LatencyModel& closed_form, LatencyModel* own = nullptr)
      : book_(book), closed_form_(closed_form), own_(own) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return book_.source(); }

 private:
  const TileLatency* find(const Descriptor& descriptor, const History& history);

  LatencyBook& book_;
  LatencyModel& closed_form_;
  LatencyModel* own_;
};

}  // namespace tilesim
