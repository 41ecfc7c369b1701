// Writes the per-device form of one function; internal to the partitioner.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/cluster/partition/halo.hpp"
#include "tilesim/cluster/partition/layout.hpp"
#include "tilesim/cluster/partition/partition.hpp"
#include "tilesim/cluster/partition/propagate.hpp"
#include "tilesim/graph/builder.hpp"

namespace tilesim::partitioning {

/// Data shared by the functions of one graph.
struct Module {
  const Grid& grid;
  const Graph& source;
  const Spread& spread;
  Graph& out;
  std::vector<Inserted>& inserted;
  std::map<std::int32_t, std::int32_t> copied{};  ///< functions that are equal on each device (comparators)
  int made = 0;                                   ///< number of functions, for names

  /// Copies a function with all functions that it calls to the local graph.
  std::int32_t copy_function(std::int32_t index);
};

/// The neutral element of a combiner; for maximum and minimum the extreme number.
double neutral_of(const std::string& combiner, DType dtype);

/// Atoms of an operand's axis with a single factor; empty if it is not sharded.
Atoms atoms_of(const Rule& rule, const Division& division, std::size_t operand, std::size_t axis);

class Body {
 public:
  Body(Module& module, std::size_t function, const std::string& name);

  /// Writes the function for these layouts of inputs and outputs; returns its index in the local graph.
  std::int32_t write(const std::vector<Layout>& inputs, const std::vector<Layout>& outputs);

 private:
  struct Version {
    Layout layout;
    ValueId id;
  };
  struct Reason { std::string consumer, text; };

  const GraphFunction& source() const { return module_.source.functions[function_]; }
  const TensorType& type(ValueId value) const { return source().value(value).type; }
  const Layout& home(ValueId value) const { return module_.spread.layouts[function_][static_cast<std::size_t>(value)]; }
  void add_version(ValueId value, Layout layout, ValueId id);

  // body_moves.cpp
  ValueId request(ValueId value, const Layout& layout, const Reason& reason);
  double price(ValueId value, const Layout& layout) const;
  /// For a value computed from constants only (iota, a broadcast number): the division of its operation in this layout.
  std::optional<Division> anywhere(ValueId value, const Layout& layout) const;
  ValueId apply(const Move& move, ValueId x, ValueId value, const Reason& reason);
  ValueId collective(const Move& move, ValueId x, ValueId value, const Reason& reason);
  ValueId shard_index(const Atoms& atoms, std::int64_t scale);
  ValueId sliced(ValueId x, std::size_t axis, const Atoms& atoms);
  /// Replaces elements at or beyond `extent`, on an axis sharded by `atoms`, by `neutral`.
  ValueId masked(ValueId x, std::size_t axis, const Atoms& atoms, std::int64_t extent, double neutral);
  /// x on the first of the devices that differ in `atoms`, `neutral` on the others.
  ValueId once(ValueId x, const Atoms& atoms, double neutral = 0);
  ValueId number(double value, DType dtype);
  ValueId binary(Function function, ValueId a, ValueId b);
  std::string stem(ValueId value) const { return source().value(value).name; }

  // body_halo.cpp
  void take_borders(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands);
  double mirror_bytes(const Op& op, const Rule& rule, const Division& division) const;
  double border_bytes(const Op& op, const Rule& rule, const Division& division) const;
  void neighbours(const Op& op, const Halo& halo, const Atoms& atoms, int distance, std::int64_t reach, ValueId x,
                  std::vector<ValueId>& pieces);
  ValueId sent_piece(const Op& op, std::size_t operand, std::size_t axis, const std::vector<std::int64_t>& pairs,
                     std::int64_t parts, ValueId piece, std::int64_t rows, const std::string& where);
  ValueId with_borders(const Op& op, const Halo& halo, const Borders& borders, const Atoms& atoms, ValueId x);
  ValueId cut_borders(const Borders& borders, std::size_t axis, const Atoms& atoms, ValueId x);
  ValueId filled(const Borders& borders, const Halo& halo, const Atoms& atoms, ValueId x, ValueId fill);

  // body_joins.cpp
  /// A part of `length` elements of a sharded axis, assembled from parts of sources.
  struct Assembly {
    std::size_t axis;
    std::int64_t length;
    const Atoms& atoms;
    std::vector<ValueId> sources;
    std::vector<std::size_t> operands;  ///< operands that contain the sources
  };
  ValueId cut(ValueId x, std::size_t axis, std::int64_t from, std::int64_t to);
  ValueId together(std::vector<ValueId> pieces, std::size_t axis, const std::string& name);
  ValueId by_part(const std::vector<std::int64_t>& values, const Atoms& atoms);
  ValueId hop_piece(const Assembly& made, const Hop& hop);
  std::vector<ValueId> sent_hops(const Op& op, const Assembly& made, const Route& route);
  ValueId shifted(ValueId x, const Assembly& made, const std::vector<std::int64_t>& offsets);
  ValueId assembled(const Op& op, const Assembly& made, const Route& route, const std::string& name = {});
  ValueId joined(const Op& op, const Rule& rule, const Division& division, const std::vector<ValueId>& operands);

  // body_ops.cpp
  void operation(const Op& op, const Rule& rule);
  bool keeps_partial(const Op& op, const Rule& rule);
  bool made_of_numbers(const Op& op, const Rule& rule) const;
  void compute(const Op& op, const Rule& rule, const Division& division);
  Division choose(const Op& op, const Rule& rule) const;
  double cost(const Op& op, const Rule& rule, const Division& division) const;
  std::vector<Division> candidates(const Op& op, const Rule& rule) const;
  void add_moved(const Op& op, const Rule& rule, std::vector<Division>& found) const;
  void add_queries(const Rule& rule, std::vector<Division>& found) const;
  Layout produced(const Rule& rule, std::size_t result, const Division& division) const;
  void mask_reduced(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands);
  void mask_divisor(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands);

  // body_loops.cpp
  void cross(const Op& op, const Crossing& crossing);
  bool reads_rows(std::size_t function, ValueId value) const;
  Layout carried(const Op& op, std::size_t state) const;
  void loop(const Op& op);
  void branch(const Op& op);

  // body_kinds.cpp
  Attributes localized(const Op& op, const std::vector<ValueId>& operands, const std::vector<TensorType>& results);
  std::vector<ValueId> emit(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands,
                            const std::vector<TensorType>& results, const Atoms& partial);

  // body_indices.cpp
  ValueId rows_of_table(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands,
                        Attributes attributes);
  ValueId own_indices(const Op& op, const Rule& rule, const Division& division, const std::vector<ValueId>& operands);
  ValueId limits_of_indices(const Attributes& attributes, const char* map, ValueId x, std::size_t rank,
                            std::int64_t beyond);
  void by_rows(const Op& op, std::size_t axis, std::vector<ValueId>& operands, Attributes& attributes);
  std::int64_t moved_behind(ValueId& updates, std::vector<std::int64_t>& windows, std::int64_t dim);
  std::vector<std::size_t> window_axes(const Op& op, const Rule& rule, const Division& division) const;
  std::int64_t window_of(const Op& op, std::size_t axis) const;
  std::vector<ValueId> own_windows(const Op& op, const Rule& rule, const Division& division,
                                   std::vector<ValueId> operands, Attributes& attributes);

  // body_places.cpp
  ValueId piece(const Op& op, const Rule& rule, const Division& division, const std::vector<ValueId>& operands);
  ValueId own_update(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands);
  ValueId mirrored(const Op& op, const Rule& rule, const Division& division, ValueId x);
  ValueId start_of(const Op& op, const std::vector<ValueId>& operands, std::size_t axis, std::int64_t size,
                   const Atoms& atoms, std::int64_t part);
  ValueId taken(ValueId x, std::size_t axis, ValueId start, std::int64_t size);
  ValueId padded_around(ValueId x, std::size_t axis, std::int64_t by);
  ValueId clamped(std::int64_t low, ValueId x, std::int64_t high);
  ValueId whole_number(std::int64_t value) { return number(static_cast<double>(value), DType::i64); }
  ValueId listed(const std::vector<std::int64_t>& values, std::size_t rank, std::size_t axis);
  ValueId places(std::size_t rank, std::size_t axis, std::int64_t extent);

  // attentions
  void look_from_place(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands,
                       Attributes& attributes);
  void see(const Op& op, ValueId key, ValueId last, std::int64_t window, std::vector<ValueId>& operands,
           Attributes& attributes);
  std::vector<ValueId> attended(const Op& op, const Atoms& atoms, std::vector<ValueId> operands, Attributes attributes);
  double attention_bytes(const Op& op, const Rule& rule, const Division& division) const;

  // body_kinds.cpp
  double inner_bytes(const Op& op, const Rule& rule, const Division& division) const;
  ValueId inner(const Op& op, Kind kind, ValueId x, const Atoms& atoms, Attributes attributes, const std::string& why,
                double bytes);
  ValueId place_of_extreme(const Op& op, ValueId x, const Atoms& atoms);  ///< atoms in the order of parts
  ValueId scanned(const Op& op, ValueId x, const Atoms& atoms, std::int64_t extent);
  ValueId counted(const Op& op, ValueId local, const Atoms& atoms);

  Module& module_;
  std::size_t function_;
  Builder builder_;
  std::vector<std::vector<Version>> versions_;
  std::vector<int> uses_;                   ///< per value of the unsharded function
  std::map<ValueId, std::size_t> numbers_;  ///< operations that are recomputed for each reader
  std::map<std::pair<Atoms, std::int64_t>, ValueId> indices_;
  ValueId device_ = no_value;
};

}  // namespace tilesim::partitioning
