// Tile latencies by what was computed, as text: kept between runs, read from files, or given by another source.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// "mma bf16 bf16 b1 m128 n128 k256 ko1", "vector f32 e4096 l128 f3,1,0,1 r1"; then "resident", "pipelined" where so.
/// Everything that a latency depends on besides the machine's units.
std::string compute_text(const Descriptor& descriptor, const History& history);
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
  std::int64_t memory_hits = 0, memory_misses = 0;  ///< of the engine's own table, which asks here for what it lacks

 private:
  std::string source_;
  std::map<std::string, TileLatency> entries_;
  std::set<std::string> limits_;  ///< what the entries' `limit` points to
};

/// A book in front of another model. What the book lacks is asked there, and written into the book if it is the book's
/// own source.
class BookedLatency final : public LatencyModel {
 public:
  BookedLatency(LatencyBook& book, LatencyModel& model) : book_(book), model_(model) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) override;
  std::string_view name() const override { return book_.source(); }

 private:
  LatencyBook& book_;
  LatencyModel& model_;
};

}  // namespace tilesim
