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

/// The source with latencies of kernels, whose computes also differ by signature.
inline constexpr std::string_view instruction_source = "instruction";

/// The text of a compute, with all properties that its latency depends on, besides the machine's units: "mma bf16 bf16
/// b1 m128 n128 k256 ko1" with "stationary_a", "accumulate", "run56" where they apply, or "vector f32 e4096 l128
/// f3,1,0,1 r1"; then "resident", "pipelined" where they apply; last "g0123456789abcdef", the signature, if there is
/// one.
std::string compute_text(const Descriptor& descriptor, const History& history);
std::optional<ComputeKind> compute_kind(std::string_view word);  ///< empty: unknown word
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
  std::int64_t memory_hits = 0, memory_misses = 0;  ///< of the engine's table, which requests missing entries here
  std::map<std::string, std::string> refused;       ///< computes without a latency from the source, and the reason
  std::map<std::string, std::int64_t> counts;       ///< executions by compute; source "instruction" only

 private:
  std::string source_;
  std::map<std::string, TileLatency> entries_;
  std::set<std::string> limits_;  ///< texts that `limit` of entries points to
};

/// A book of latencies, backed by models. A missing entry is computed by `own`, the model of the book's source, and
/// stored in the book. Without such a model, or if it throws Unsupported (noted in the book), the closed form computes
/// it; the book stores that latency only if closed forms are its source.
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
