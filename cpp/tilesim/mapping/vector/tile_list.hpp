// Bytes and work of the tiles of one core, in program order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

class TileList {
 public:
  /// Lists the tiles of core number `core`; -1: of the busiest core.
  TileList(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, const CoreTrips& own,
           std::int64_t core = -1);

  /// The buffers of an operand; `versions`: number of tiles so far.
  struct Ring {
    std::vector<std::int64_t> strides;
    std::optional<TensorMap> map;  ///< empty if it has no access
    std::int64_t base = 0;
    bool pieces = true;
    int versions = 0;
  };
  struct Transfer {
    int operand = 0, version = 0, piece = 0, step = 0;
    bool last = false;  ///< last transfer of its tile or piece
    std::int64_t address = 0, bytes = 0;
  };
  struct Turn {  ///< a permute on the cross-lane unit
    int operand = 0, version = 0;
    double busy = 0;
  };
  struct Need { int operand = 0, version = 0; };
  struct Pass {                      ///< a pass over a row of tiles
    std::size_t first = 0, end = 0;  ///< range of steps
    double skipped = 0;              ///< number of tiles that are not walked
  };
  struct Item {  ///< a compute of the vector unit
    int step = 0, piece = 0;
    double busy = 0, done = 0;
    bool waits = false;         ///< the next compute reads its result
    std::vector<Need> results;  ///< tiles that it writes; `reads` has the tiles that its step reads
    bool frees = false;         ///< releases the inputs of its step
  };

  double points_of_all() const;

  VectorPlan plan;
  bool streamed = false;  ///< several tiles, or parts of a window, form one result
  std::vector<Ring> rings;
  int shared = -1;                           ///< result that uses a load's buffers; -1: none
  double active = 1, total = 1;              ///< busy cores (or contexts); number of steps of the busiest one
  std::vector<std::vector<Transfer>> loads;  ///< per queue
  std::vector<Transfer> stores;
  std::vector<Turn> turns;
  std::vector<Item> items;
  std::vector<std::vector<Need>> reads;  ///< per step
  std::vector<Pass> passes;
  double rows = 1, rows_walked = 0;  ///< rows of streaming tiles; rows that are walked
  std::vector<double> points;        ///< per step of tiles that do not stream, on one core

 private:
  using Sizes = std::vector<std::int64_t>;
  /// One tile or piece: a range per axis.
  using TileBox = std::vector<Stretch>;

  Moved moved_by(std::size_t operand, const TileBox& place) const;
  std::int64_t tile_bytes() const;
  void make_rings();
  void find_part();
  void take_part(const CoreTrips& own, std::int64_t core);
  TileBox place() const;
  std::vector<TileBox> cut(const TileBox& tile) const;
  bool advance(const std::vector<VectorPlan::Loop>& loops, Sizes& index, const Sizes& trips) const;
  bool next_column();
  void add_points();
  void make_entries();
  void add_row();
  void add_step(const VectorPhase& phase);
  Ring& at(int operand) { return rings[static_cast<std::size_t>(operand)]; }
  bool turned(int operand) const { return plan.buffers[static_cast<std::size_t>(operand)].turned; }
  void add_load(const Need& need, int step, const TileBox& place);
  void add_store(const Need& need, int step, int piece, const TileBox& place, bool last);
  void turn(const Need& need, const TileBox& place);
  void add_item(const VectorStage& stage, int step, int piece, const TileBox& place, const std::vector<Need>& results);

  const VectorProblem& problem_;
  const VectorTiles& tiles_;
  const Share& machine_;
  ClosedForm closed_form_;
  std::map<std::pair<const void*, Sizes>, TileLatency> latencies_;  ///< of stages and permutes, by tile size
  std::vector<VectorStage> stages_;
  std::size_t rank_;
  double contexts_;            ///< contexts per core, which share the core's units
  Sizes trips_, first_;        ///< of the core's part, per axis: number of tiles, first tile
  Sizes index_, part_;         ///< indices of the current tile, and of the window's part
  std::vector<Stretch> taps_;  ///< current taps; empty: all
  int steps_ = 0, pieces_ = 0;
};

}  // namespace tilesim::mapping
