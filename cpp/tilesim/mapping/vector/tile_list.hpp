// Bytes and work of the tiles of one core, in the order of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

class TileList {
 public:
  /// Of the busiest core, or of one of those that are walked together.
  TileList(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, const CoreTrips& own,
           std::int64_t core = -1);

  /// An operand's buffers. Versions count the tiles that it has had.
  struct Ring {
    std::vector<std::int64_t> strides;
    std::optional<TensorMap> map;  ///< where its access is known
    std::int64_t base = 0;
    bool pieces = true;
    int versions = 0;
  };
  struct Transfer {
    int operand = 0, version = 0, piece = 0, step = 0;
    bool last = false;  ///< of its tile, or of its piece
    std::int64_t address = 0, bytes = 0;
  };
  struct Turn {  ///< through the cross-lane unit
    int operand = 0, version = 0;
    double busy = 0;
  };
  struct Need { int operand = 0, version = 0; };
  struct Pass {                      ///< over a row of tiles
    std::size_t first = 0, end = 0;  ///< steps
    double skipped = 0;              ///< tiles that are not walked
  };
  struct Item {  ///< of the vector unit
    int step = 0, piece = 0;
    double busy = 0, done = 0;
    bool waits = false;         ///< what follows reads its result
    std::vector<Need> results;  ///< tiles that it writes; those that it reads: `reads` of its step
    bool frees = false;         ///< what its step reads
  };

  double points_of_all() const;

  VectorPlan plan;
  bool streamed = false;  ///< several tiles, or parts of a window, give one of the results
  std::vector<Ring> rings;
  int shared = -1;                           ///< the result whose buffers are those that are loaded; -1: none
  double active = 1, total = 1;              ///< cores (of contexts) at work; steps of the busiest
  std::vector<std::vector<Transfer>> loads;  ///< per queue
  std::vector<Transfer> stores;
  std::vector<Turn> turns;
  std::vector<Item> items;
  std::vector<std::vector<Need>> reads;  ///< per step
  std::vector<Pass> passes;
  double rows = 1, rows_walked = 0;  ///< of tiles that stream by
  std::vector<double> points;        ///< per step of tiles that are not streamed, on one core

 private:
  using Sizes = std::vector<std::int64_t>;
  /// One tile, or piece: a stretch per axis; and the taps at hand of a window in parts.
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
  std::vector<VectorStage> stages_;
  std::size_t rank_;
  double contexts_;            ///< of a core, that take turns on its units
  Sizes trips_, first_;        ///< of the part that is walked: tiles, and where they begin
  Sizes index_, part_;         ///< of the tile at hand, and of the window's part
  std::vector<Stretch> taps_;  ///< at hand; empty: all
  int steps_ = 0, pieces_ = 0;
};

}  // namespace tilesim::mapping
