// Rules of kinds whose domain does not describe single axes, from their attributes.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning::rules_of_kinds {

namespace {

using Integers = std::vector<std::int64_t>;

bool holds(const Integers& list, std::int64_t value) { return std::ranges::find(list, value) != list.end(); }

class Maker {
 public:
  Maker(const GraphFunction& function, const Op& op, Rule& rule) : function_(function), op_(op), rule_(rule) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) rule.operands.emplace_back(rank(i));
    for (std::size_t i = 0; i < op.results.size(); ++i) rule.results.emplace_back(result(i).size());
  }
  const Attributes& attributes() const { return op_.attributes; }
  const Shape& shape(std::size_t operand) const { return function_.value(op_.operands[operand]).type.shape; }
  const Shape& result(std::size_t index) const { return function_.value(op_.results[index]).type.shape; }
  std::size_t rank(std::size_t operand) const { return op_.operands[operand] == no_value ? 0 : shape(operand).size(); }
  std::size_t operands() const { return op_.operands.size(); }

  int factor(const std::string& name, std::int64_t extent, bool uneven = true) {
    rule_.factors.push_back({.name = name, .extent = extent, .uneven = uneven, .combiner = {}, .why = {}});
    return static_cast<int>(rule_.factors.size()) - 1;
  }
  int sum(const std::string& name, std::int64_t extent, const std::string& combiner, bool uneven) {
    const int made = factor(name, extent, uneven);
    rule_.factors[at(made)].sort = Factor::Sort::reduced;
    rule_.factors[at(made)].combiner = combiner;
    return made;
  }
  void on(std::size_t operand, std::size_t axis, int factor) { rule_.operands[operand][axis].push_back(factor); }
  void gives(std::size_t index, std::size_t axis, int factor) { rule_.results[index][axis].push_back(factor); }
  void keeps(std::size_t axis, int factor) {  ///< sets an axis of the first operand and first result
    on(0, axis, factor);
    gives(0, axis, factor);
  }
  const std::vector<int>& rows(std::size_t operand, std::size_t axis) const { return rule_.operands[operand][axis]; }
  void why(const std::string& text) { rule_.why = text; }
  void whole(int factor, const std::string& text) {
    rule_.factors[at(factor)].sort = Factor::Sort::whole;
    rule_.factors[at(factor)].why = text;
  }
  DType dtype(std::size_t operand) const { return function_.value(op_.operands[operand]).type.dtype; }
  int pieces(std::size_t axis, std::int64_t extent) { return rules_of_kinds::pieces(rule_, axis, extent, dtype(0)); }
  std::map<std::int64_t, std::size_t> numbered() const { return numbered_axes(function_, op_); }

  /// Adds a factor for every axis except those in `apart`, shared by all operands and results.
  void same_but(const Integers& apart) {
    for (std::size_t axis = 0; axis < result(0).size(); ++axis) {
      if (holds(apart, static_cast<std::int64_t>(axis))) continue;
      const int made = factor("d" + std::to_string(axis), result(0)[axis]);
      for (std::size_t i = 0; i < operands(); ++i)
        if (rank(i) == result(0).size() && shape(i)[axis] == result(0)[axis]) on(i, axis, made);
      for (std::size_t i = 0; i < rule_.results.size(); ++i) gives(i, axis, made);
    }
  }

 private:
  const GraphFunction& function_;
  const Op& op_;
  Rule& rule_;
};

/// Splits and merges axes with common divisors, from the major side.
void reshape(Maker& make) {
  const Shape &from = make.shape(0), &to = make.result(0);
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const std::size_t first_i = i, first_j = j;
    std::int64_t left = from[i++], right = to[j++];
    while (left != right)
      if (left < right)
        left *= from[i++];
      else
        right *= to[j++];
    std::size_t a = first_i, b = first_j;
    std::int64_t rest_a = from[a], rest_b = to[b];
    const auto one_of = [](const Shape& shape, std::size_t first, std::size_t end) {
      return std::count(shape.begin() + static_cast<std::ptrdiff_t>(first),
                        shape.begin() + static_cast<std::ptrdiff_t>(end), 1) +
                 1 >=
             static_cast<std::ptrdiff_t>(end - first);
    };
    const bool alone = one_of(from, first_i, i) && one_of(to, first_j, j);
    while (true) {
      while (rest_a == 1 && ++a < i) rest_a = from[a];
      while (rest_b == 1 && ++b < j) rest_b = to[b];
      if (a >= i || b >= j) break;
      const std::int64_t common = std::gcd(rest_a, rest_b);
      if (common == 1) break;
      const int made = make.factor("f" + std::to_string(a) + "_" + std::to_string(b), common, alone);
      make.on(0, a, made);
      make.gives(0, b, made);
      rest_a /= common;
      rest_b /= common;
      if (rest_a != 1 && rest_b != 1) break;
    }
  }
}

void gather(Maker& make) {
  const Shape &x = make.shape(0), &indices = make.shape(1);
  const Integers offsets = make.attributes().integers("offset_dims"),
                 collapsed = make.attributes().integers("collapsed_slice_dims"),
                 map = make.attributes().integers("start_index_map"), sizes = make.attributes().integers("slice_sizes");
  const auto vector_dim = make.attributes().integer("index_vector_dim");
  std::size_t next = 0, batch = 0;
  std::map<std::size_t, int> of_batch;
  Integers kept;
  for (std::size_t axis = 0; axis < x.size(); ++axis)
    if (!holds(collapsed, static_cast<std::int64_t>(axis))) kept.push_back(static_cast<std::int64_t>(axis));
  for (std::size_t axis = 0; axis < make.result(0).size(); ++axis) {
    if (holds(offsets, static_cast<std::int64_t>(axis))) {
      const std::int64_t source = kept[next++];
      if (sizes[at(source)] != x[at(source)]) continue;
      const int made = make.factor("offset" + std::to_string(source), x[at(source)]);
      make.on(0, at(source), made);
      make.gives(0, axis, made);
      continue;
    }
    if (static_cast<std::int64_t>(batch) == vector_dim) ++batch;
    const int made = make.factor("batch" + std::to_string(batch), indices[batch]);
    of_batch[batch] = made;
    make.on(1, batch++, made);
    make.gives(0, axis, made);
  }
  if (make.attributes().text("mode", "clip") != "clip") return;
  const std::map<std::int64_t, std::size_t> numbered = make.numbered();
  std::set<std::size_t> taken;
  for (const std::int64_t axis : map) {
    if (sizes[at(axis)] == x[at(axis)] && !make.rows(0, at(axis)).empty()) continue;
    // Each position of the batch axis reads the same position of this axis.
    const auto found = sizes[at(axis)] == 1 ? numbered.find(axis) : numbered.end();
    if (found != numbered.end() && taken.insert(found->second).second)
      make.on(0, at(axis), of_batch.at(found->second));
    else  // rows and windows by index: zeros for those of other devices
      make.on(0, at(axis), make.pieces(at(axis), x[at(axis)]));
  }
}

/// Windows over a full axis are parallel, and so are indexed rows of x, and batch axes that enumerate an axis of x.
void scatter(Maker& make) {
  const Shape &x = make.shape(0), &indices = make.shape(1), &updates = make.shape(2);
  const Integers window = make.attributes().integers("update_window_dims"),
                 inserted = make.attributes().integers("inserted_window_dims"),
                 map = make.attributes().integers("scatter_dims_to_operand_dims");
  // Updates for rows of other devices are dropped.
  const bool drops = make.attributes().text("mode", "drop") == "drop";
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (holds(inserted, static_cast<std::int64_t>(axis))) continue;
    const std::size_t source = at(window[next++]);
    if (updates[source] != x[axis]) {
      if (drops && holds(map, static_cast<std::int64_t>(axis)))
        make.keeps(axis, make.factor("rows" + std::to_string(axis), x[axis]));
      continue;
    }
    const int made = make.factor("window" + std::to_string(axis), x[axis]);
    make.on(0, axis, made);
    make.on(2, source, made);
    make.gives(0, axis, made);
  }
  const std::map<std::int64_t, std::size_t> numbered = make.numbered();
  std::map<std::size_t, int> of_batch;
  for (const std::int64_t axis : map) {
    if (!holds(inserted, axis) || !drops) continue;
    const auto found = numbered.find(axis);
    const bool together = found != numbered.end() && !of_batch.contains(found->second);
    const int rows = make.factor("rows" + std::to_string(axis), x[at(axis)], !together);
    make.keeps(at(axis), rows);
    if (together) of_batch[found->second] = rows;
  }
  const std::string& combiner = make.attributes().text("combiner");
  const bool extreme = combiner == "maximum" || combiner == "minimum";
  const bool combines = combiner == "add" || (extreme && has_neutral(combiner, make.dtype(0)));
  const auto vector_dim = make.attributes().integer("index_vector_dim");
  std::size_t batch = 0;
  for (std::size_t axis = 0; axis < updates.size(); ++axis) {
    if (holds(window, static_cast<std::int64_t>(axis))) continue;
    if (static_cast<std::int64_t>(batch) == vector_dim) ++batch;
    const std::size_t source = batch++;
    const auto found = of_batch.find(source);
    if (found == of_batch.end() && !combines) continue;
    const int made = found != of_batch.end()
                         ? found->second
                         : make.sum("batch" + std::to_string(source), indices[source], combiner, drops && !extreme);
    make.on(1, source, made);
    make.on(2, axis, made);
  }
}

void embedding(Maker& make) {
  const Shape &table = make.shape(0), &ids = make.shape(1);
  for (std::size_t axis = 0; axis < ids.size(); ++axis) {
    const int made = make.factor("ids" + std::to_string(axis), ids[axis]);
    make.on(1, axis, made);
    make.gives(0, axis, made);
  }
  const int width = make.factor("width", table[1]);
  make.on(0, 1, width);
  make.gives(0, ids.size(), width);
  if (make.attributes().integer("padding_index", -1) < 0) make.on(0, 0, make.sum("rows", table[0], "add", true));
}

void ragged(Maker& make) {
  const bool transposed = make.attributes().flag("b_transposed");
  const int n = make.factor("n", make.result(0)[1]);
  make.on(1, transposed ? 1 : 2, n);
  make.gives(0, 1, n);
  const int k = make.sum("k", make.shape(0)[1], "add", true);
  make.on(0, 1, k);
  make.on(1, transposed ? 2 : 1, k);
}

void rotary(Maker& make) {
  const Shape& x = make.shape(0);
  for (std::size_t axis = 0; axis + 1 < x.size(); ++axis) {
    const int made = make.factor("d" + std::to_string(axis), x[axis]);
    make.keeps(axis, made);
    for (std::size_t i = 1; i < 3; ++i) {
      const std::size_t missing = x.size() - make.rank(i);
      if (axis >= missing && make.shape(i)[axis - missing] == x[axis]) make.on(i, axis - missing, made);
    }
  }
}

/// x [N, C, ..]: factors for images and for groups of channels (C is groups times channels per group).
void normalize_groups(Maker& make) {
  const Shape& x = make.shape(0);
  const int n = make.factor("n", x[0]);
  const std::int64_t groups =
      make.attributes().text("mode") == "instance" ? x[1] : make.attributes().integer("groups", 1);
  const int g = make.factor("g", groups, groups == x[1]);
  make.on(0, 0, n);
  make.on(0, 1, g);
  make.gives(0, 0, n);
  make.gives(0, 1, g);
  for (std::size_t i = 1; i < make.operands(); ++i)
    if (make.rank(i) == 1) make.on(i, 0, g);
}

/// Axes with windows, strides or padding.
Integers windowed(Maker& make) {
  Integers axes;
  const Integers window = make.attributes().integers("window");
  const Integers strides = make.attributes().integers("strides", Integers(window.size(), 1));
  const Integers pads = make.attributes().integers("pads", Integers(2 * window.size(), 0));
  for (std::size_t i = 0; i < window.size(); ++i)
    if (window[i] != 1 || strides[i] != 1 || pads[2 * i] != 0 || pads[2 * i + 1] != 0)
      axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

/// Non-overlapping windows: factors for the windows and for the elements of each.
void apart_windows(Maker& make) {
  const Integers window = make.attributes().integers("window");
  const Integers strides = make.attributes().integers("strides", Integers(window.size(), 1));
  const Integers pads = make.attributes().integers("pads", Integers(2 * window.size(), 0));
  for (std::size_t i = 0; i < window.size(); ++i) {
    const bool apart = window[i] > 1 && strides[i] == window[i] && pads[2 * i] == 0 && pads[2 * i + 1] == 0 &&
                       make.shape(0)[i] == make.shape(1)[i] * window[i];
    if (!apart) continue;
    const int windows = make.factor("windows" + std::to_string(i), make.shape(1)[i], false);
    const int inside = make.factor("inside" + std::to_string(i), window[i], false);
    make.whole(inside, "each window has one extreme element");
    for (const int factor : {windows, inside}) make.keeps(i, factor);
    make.on(1, i, windows);
  }
}

/// Axes along which `part` is shorter than `x`.
Integers shortened(const Shape& x, const Shape& part) {
  Integers axes;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != part[i]) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

void iota(Maker& make) { make.same_but({}); }

void solve(Maker& make) {
  const auto rank = static_cast<std::int64_t>(make.rank(0));
  make.same_but({rank - 1, rank - 2});
}

void pad_edges(Maker& make) {
  Integers apart;
  const Integers &low = make.attributes().integers("low"), &high = make.attributes().integers("high");
  for (std::size_t i = 0; i < low.size(); ++i)
    if (low[i] != 0 || high[i] != 0) apart.push_back(static_cast<std::int64_t>(i));
  make.same_but(apart);
}

}  // namespace

bool special(const GraphFunction& function, const Op& op, Rule& rule) {
  const auto mode = [&](const char* name) { return op.attributes.text("mode", name); };
  const auto made = [&](auto build) {
    Maker make(function, op, rule);
    build(make);
    return true;
  };
  const auto along = [&](const char* name) {
    return made([&](Maker& make) { make.same_but({op.attributes.integer(name)}); });
  };
  switch (op.kind) {
    case Kind::reshape:
      return made(reshape);
    case Kind::gather:
      return made(gather);
    case Kind::scatter:
      return made(scatter);
    case Kind::embedding:
      return made(embedding);
    case Kind::ragged_contract:
      return made(ragged);
    case Kind::rotary:
      return made(rotary);
    case Kind::iota:
      return made(iota);
    case Kind::linear_solve:
      return made(solve);
    case Kind::concat:
      along("dim");
      joins(function, op, rule);
      return true;
    case Kind::cumulative:
      along("dim");
      scans(function, op, rule);
      return true;
    case Kind::sort:
      rule.ordered = static_cast<int>(op.attributes.integer("dim"));
      return along("dim");
    case Kind::top_k:
    case Kind::fft:
      return along("dim");
    // Between devices of a region with per-device tensors: all have equal parts along the region's other axes.
    case Kind::all_reduce:
    case Kind::permute_devices:
    case Kind::broadcast_devices:
      return made([](Maker& make) { make.same_but({}); });
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return along("dim");
    case Kind::all_to_all:
      return made([&](Maker& make) {
        make.same_but({op.attributes.integer("split_dim"), op.attributes.integer("concat_dim")});
      });
    case Kind::window_scatter:
      return made([](Maker& make) {
        make.same_but(windowed(make));
        apart_windows(make);
      });
    case Kind::reverse:
      return made([](Maker& make) {
        const Integers& dims = make.attributes().integers("dims");
        make.same_but(dims);
        for (const std::int64_t axis : dims)  // devices exchange parts, and each is reversed
          make.keeps(at(axis), make.factor("mirror" + std::to_string(axis), make.result(0)[at(axis)], false));
      });
    case Kind::dynamic_slice:
      return made([](Maker& make) {
        const Integers apart = shortened(make.shape(0), make.result(0));
        make.same_but(apart);
        for (const std::int64_t axis : apart) make.on(0, at(axis), make.pieces(at(axis), make.shape(0)[at(axis)]));
      });
    case Kind::dynamic_update:
      return made([](Maker& make) {
        const Integers apart = shortened(make.shape(0), make.shape(1));
        make.same_but(apart);
        for (const std::int64_t axis : apart)  // each device writes the elements in its part
          make.keeps(at(axis), make.factor("rows" + std::to_string(axis), make.shape(0)[at(axis)]));
      });
    case Kind::normalize:
      return (mode("") == "group" || mode("") == "instance") && made(normalize_groups);
    case Kind::pad:
      return mode("constant") != "constant" && made(pad_edges);
    case Kind::constant:
      return made(
          [](Maker& make) { make.why("it is sharded like its readers; a small one is replicated on every device"); });
    default:
      return false;
  }
}

}  // namespace tilesim::partitioning::rules_of_kinds
