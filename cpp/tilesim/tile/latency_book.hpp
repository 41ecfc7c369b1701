// A table of tile latencies, indexed by a text of the compute. It is kept between runs; files or a latency model fill
// it.
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

/// Name of the source whose latencies come from kernels; its computes also differ by signature.
inline constexpr std::string_view instruction_source = "instruction";

/// The text of a compute: all properties on which its latency depends, besides the machine. "mma bf16 bf16 b1 m128 n128
/// k256 ko1", optionally with "stationary_a", "accumulate", "run56"; or "vector f32 e4096 l128 f3,1,0,1 r1"; then
/// optionally "resident", "pipelined"; last "g0123456789abcdef", if there is a signature.
std::string compute_text(const Descriptor& descriptor, const History& history);
std::optional<ComputeKind> compute_kind(std::string_view word);  ///< empty if the word is unknown
/// Parses the result of compute_text; throws UserError for other text.
std::pair<Descriptor, History> parse_compute(const std::string& text);

class LatencyBook {
 public:
  explicit LatencyBook(std::string source) : source_(std::move(source)) {}
  const std::string& source() const { return source_; }
  /// Adds or replaces the entry of a compute. Throws UserError for negative cycles, or if `busy` exceeds `done`.
  void put(const std::string& compute, TileLatency latency, const std::string& limit);
  const TileLatency* find(const std::string& compute);
  const std::map<std::string, TileLatency>& entries() const { return entries_; }

  std::int64_t hits = 0, misses = 0;                ///< lookups in this book
  std::int64_t memory_hits = 0, memory_misses = 0;  ///< lookups in the engine's cache in front of this book
  std::map<std::string, std::string> refused;       ///< computes without a latency from the source: the reason
  std::map<std::string, std::int64_t> counts;       ///< executions per compute; source "instruction" only

 private:
  std::string source_;
  std::map<std::string, TileLatency> entries_;
  std::set<std::string> limits_;  ///< texts to which `limit` of entries points
};

/// Latencies from a book, or from a model for missing entries. `own`, the model of the book's source, computes a
/// missing entry, which is added to the book. If there is no such model, or if it throws Unsupported (which the book
/// records), the closed form computes the latency; the book stores it only if closed forms are the book's source.
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
