// What the walked tiles of one core move and compute, in the order of the program.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

class TileList {
 public:
  /// Of the busiest core, or of one of those that are walked together.
  TileList(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine, const CoreTrips& own,
           std::int64_t core = -1);

  /// An operand's buffers. Versions count the tiles that it has had.
  struct Ring {
    std::vector<std::int64_t> strides;
    std::int64_t base = 0;
    bool shuffled = false, pieces = true;
    std::size_t queue = 0;  ///< that loads it
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
  struct Stretch {                   ///< of a pass over a row of tiles
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

  bool streamed = false;
  std::vector<Ring> rings;
  int shared = -1;                           ///< the result whose buffers are those that are loaded; -1: none
  double active = 1, total = 1;              ///< cores (of contexts) at work; steps of the busiest
  std::vector<std::vector<Transfer>> loads;  ///< per queue
  std::vector<Transfer> stores;
  std::vector<Turn> turns;
  std::vector<Item> items;
  std::vector<std::vector<Need>> reads;  ///< per step
  std::vector<Stretch> stretches;
  double rows = 1, rows_walked = 0;  ///< of tiles that stream by
  std::vector<double> points;        ///< per step of tiles that are not streamed, on one core

 private:
  using Sizes = std::vector<std::int64_t>;

  std::int64_t tile_bytes(const Sizes& index) const;
  void make_rings();
  void find_part();
  void take_part(const CoreTrips& own, std::int64_t core);
  void place(const Sizes& index, Sizes& start, Sizes& size) const;
  bool advance(Sizes& index, bool of_rows, bool all) const;
  void add_points(const Sizes& index);
  void make_entries();
  void cut(const Sizes& start, const Sizes& size, std::vector<Sizes>& starts, std::vector<Sizes>& sizes) const;
  int add_step(const Sizes& index, std::int64_t pass);
  Ring& at(int operand) { return rings[static_cast<std::size_t>(operand)]; }
  void add_load(const Need& need, int step, const Sizes& start, const Sizes& size);
  void add_store(const Need& need, int step, int piece, const Sizes& start, const Sizes& size, bool last);
  void turn(const Need& need, const VectorOperand& operand, const Sizes& size);
  void add_item(const VectorStage& stage, int step, int piece, const Sizes& size, const std::vector<Need>& results);

  const VectorProblem& problem_;
  const VectorTiles& tiles_;
  const Machine& machine_;
  ClosedForm closed_form_;
  std::vector<VectorStage> stages_;
  std::size_t rank_;
  double contexts_;  ///< of a core, that take turns on its units
  std::vector<int> inputs_;
  Sizes trips_, first_;  ///< of the part that is walked: tiles, and where they begin
  int steps_ = 0;
};

}  // namespace tilesim::mapping
