// Index arithmetic: computes values that repeat along an axis once, turns known affine indices into views, windows and
// pads, and makes data of dynamic gathers contiguous.
#include "tilesim/graph/patterns/indices.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"
#include "tilesim/graph/patterns/rewriting.hpp"

namespace tilesim::recognition {

namespace {

/// Limit of the copied bytes, as a multiple of the gathered bytes.
constexpr std::int64_t most_copied = 4;

/// Limit of the elements to evaluate before an index is known.
constexpr std::int64_t largest_known = std::int64_t{1} << 22;

/// Rewrites one function operation by operation.
class Indices : public Rewriting {
 public:
  Indices(Graph& graph, GraphFunction& function, const Evaluator& evaluate, std::vector<Change>& changes)
      : Rewriting(graph, function, changes), evaluate_(evaluate) {}

  void run() {
    const GraphFunction before = function_;
    const std::size_t known = changes_.size();
    function_.ops.clear();
    int narrowed = 0;
    for (const Op& op : before.ops) {
      now_ = &op;
      if (op.kind == Kind::gather ? gather(op) : op.kind == Kind::scatter ? scatter(op) : cropped(op)) continue;
      if ((op.kind == Kind::elementwise || op.kind == Kind::convert) && compute_once(op)) {
        ++narrowed;
        continue;
      }
      keep(op);
      narrow(op);
    }
    if (narrowed > 0)
      changes_.push_back({"indices", function_.name, "", std::to_string(narrowed) + " operations on what repeats",
                          "computed once", ""});
    if (changes_.size() == known) {
      function_ = before;
      return;
    }
    edit::sweep_dead(function_);
    edit::order_values(function_);
  }

 private:
  std::optional<Array> elements(ValueId value) {
    if (const auto found = known_.find(value); found != known_.end()) return found->second;
    std::optional<Array> result;
    const Op* made = maker(value);
    std::vector<Array> operands;
    bool known = made != nullptr && made->results.size() == 1 && info(made->kind).effect == Effect::pure &&
                 made->functions.empty() && element_count(shape(value)) <= largest_known && made->kind != Kind::opaque;
    if (known && made->kind == Kind::constant) {
      const Weight& weight = graph_.weights.at(made->attributes.text("reference"));
      known = weight.source != Weight::Source::random && !weight.trainable;
    }
    for (std::size_t i = 0; known && i < made->operands.size(); ++i) {
      operands.emplace_back();
      if (made->operands[i] == no_value) continue;
      const auto operand = elements(made->operands[i]);
      known = operand.has_value();
      if (known) operands.back() = *operand;
    }
    if (known) result = evaluate_(graph_, function_, *made, operands)[0];
    return known_[value] = result;
  }

  /// One component of index vectors, with the batch axes; extent 1 along axes over which it repeats.
  struct Component {
    ValueId value = no_value;
    std::size_t axis = 0;  ///< of the operand
    std::optional<Affine> affine;
  };

  std::vector<Component> components(ValueId indices, std::int64_t vector_dim, const Integers& map) {
    const auto rank = static_cast<std::int64_t>(shape(indices).size());
    std::vector<Component> result(map.size());
    const Op* joined = maker(indices);
    const bool parts =
        joined != nullptr && joined->kind == Kind::concat && vector_dim < rank &&
        joined->attributes.integer("dim") == vector_dim && joined->operands.size() == map.size() &&
        std::ranges::all_of(joined->operands, [&](ValueId id) { return shape(id)[at(vector_dim)] == 1; });
    const std::vector<ValueId> columns = parts ? joined->operands : std::vector<ValueId>{};
    for (std::size_t i = 0; i < map.size(); ++i) {
      ValueId value = small(parts ? columns[i] : indices);
      if (vector_dim < rank) {
        Shape own = shape(value);
        if (own[at(vector_dim)] > 1) {
          Shape start(own.size(), 0), limit = own;
          start[at(vector_dim)] = static_cast<std::int64_t>(i);
          limit[at(vector_dim)] = start[at(vector_dim)] + 1;
          value = slice(value, start, limit, Shape(own.size(), 1));
        }
        own.erase(own.begin() + vector_dim);
        value = reshape(value, own);
      }
      result[i].value = value;
      result[i].axis = at(map[i]);
      if (const auto known = elements(value)) result[i].affine = affine_of(*known);
    }
    return result;
  }

  /// How a gather reads its operand, or where a scatter puts its updates; the result or the updates are the other side.
  struct Access {
    std::vector<Component> components;
    std::vector<Digit> digits;      ///< of the other side's axes, in their order
    std::vector<AxisMap> maps;      ///< by axes of the operand; of those that data index: the box alone
    std::vector<bool> data;         ///< by axes of the operand
    std::set<std::size_t> spanned;  ///< batch axes (of the other side) along which indices by data differ
  };

  /// `sizes`: of a box, by the operand's axes; `collapsed`: axes of the operand that boxes lack on the other side.
  std::optional<Access> access_of(const Shape& operand, const Shape& other, const Integers& boxes,
                                  const Integers& sizes, const Integers& collapsed, std::vector<Component> components) {
    Access access;
    access.components = std::move(components);
    access.data.assign(operand.size(), false);
    std::vector<std::size_t> batch, box;
    for (std::size_t axis = 0; axis < other.size(); ++axis)
      (std::ranges::count(boxes, static_cast<std::int64_t>(axis)) ? box : batch).push_back(axis);
    Shape extents;
    for (const std::size_t axis : batch) extents.push_back(other[axis]);
    choose_data(access, operand, sizes, extents);
    std::vector<const Affine*> functions;
    for (const Component& component : access.components)
      if (!access.data[component.axis]) functions.push_back(&*component.affine);
    const auto cut = common_digits(extents, functions);
    if (!cut) return std::nullopt;
    // Numbers digits in the order of the other side's axes, outer axes first.
    std::vector<std::size_t> number_of_cut, number_of_box;
    for (std::size_t axis = 0, next = 0, part = 0, cuts = 0; axis < other.size(); ++axis) {
      if (part < box.size() && box[part] == axis) {
        number_of_box.push_back(access.digits.size());
        access.digits.push_back({axis, other[axis], 1});
        ++part;
        continue;
      }
      for (; cuts < cut->size() && (*cut)[cuts].axis == next; ++cuts) {
        number_of_cut.push_back(access.digits.size());
        access.digits.push_back({axis, (*cut)[cuts].extent, (*cut)[cuts].step});
      }
      ++next;
    }
    access.maps.resize(operand.size());
    for (std::size_t axis = 0, next = 0; axis < operand.size(); ++axis) {
      if (std::ranges::count(collapsed, static_cast<std::int64_t>(axis))) continue;
      if (sizes[axis] > 1) access.maps[axis].terms.push_back({number_of_box[next], sizes[axis], 1});
      ++next;
    }
    for (const Component& component : access.components) {
      if (access.data[component.axis]) {
        for (std::size_t i = 0; i < batch.size(); ++i)
          if (shape(component.value)[i] > 1) access.spanned.insert(batch[i]);
        continue;
      }
      AxisMap& map = access.maps[component.axis];
      map.constant = component.affine->constant;
      const auto factors = coefficients(*component.affine, *cut);
      for (std::size_t i = 0; i < factors.size(); ++i)
        if (factors[i] != 0) map.terms.push_back({number_of_cut[i], (*cut)[i].extent, factors[i]});
    }
    return access;
  }

  /// An axis is indexed by data unless its index is an affine function of its own positions.
  void choose_data(Access& access, const Shape& operand, const Integers& sizes, const Shape& extents) const {
    for (const Component& component : access.components)
      access.data[component.axis] =
          !component.affine || leaves(*component.affine, operand[component.axis], sizes[component.axis]);
    for (bool again = true; again;) {
      again = false;
      for (const Component& component : access.components) {
        if (access.data[component.axis]) continue;
        for (const Component& other : access.components)
          for (std::size_t axis = 0; axis < extents.size() && &other != &component; ++axis)
            if (meet(component, other, axis, access.data[other.axis])) access.data[component.axis] = again = true;
      }
    }
  }

  /// Whether two components differ along one batch axis, so that neither is an axis of a view.
  bool meet(const Component& a, const Component& b, std::size_t axis, bool data) const {
    const auto moves = [&](const Component& one, std::int64_t step) {
      return std::ranges::any_of(one.affine->terms, [&](const Affine::Term& term) {
        return term.digit.axis == axis && term.coefficient != 0 &&
               (step == 0 || (term.digit.step <= step && step < term.digit.step * term.digit.extent));
      });
    };
    if (data) return shape(b.value)[axis] > 1 && moves(a, 0);
    return std::ranges::any_of(b.affine->terms, [&](const Affine::Term& term) {
      return term.digit.axis == axis && term.coefficient != 0 &&
             (moves(a, term.digit.step) || moves(a, term.digit.step * term.digit.extent - 1));
    });
  }

  static bool leaves(const Affine& index, std::int64_t extent, std::int64_t size) {
    std::int64_t low = index.constant, high = index.constant;
    for (const Affine::Term& term : index.terms)
      (term.coefficient < 0 ? low : high) += term.coefficient * (term.digit.extent - 1);
    return low < 0 || high + size > extent;
  }

  /// `x`, whose axes are the digits of `order`, with one axis per digit, broadcast along missing digits, as `to`.
  ValueId in_order(ValueId x, const Order& order, const std::vector<Digit>& digits, const Shape& to) {
    Integers permutation, dims;
    Shape wide;
    for (std::size_t digit = 0; digit < digits.size(); ++digit) {
      const auto found = std::ranges::find(order, digit);
      if (found != order.end()) {
        permutation.push_back(found - order.begin());
        dims.push_back(static_cast<std::int64_t>(wide.size()));
      }
      wide.push_back(digits[digit].extent);
    }
    return reshape(broadcast(transpose(x, permutation), wide, dims), to);
  }

  bool gather(const Op& op) {
    const ValueId x = op.operands[0];
    const Shape from = shape(x), to = shape(op.results[0]);
    if (element_count(to) == 0 || element_count(from) == 0) return false;
    const Integers& map = op.attributes.integers("start_index_map");
    const Integers& collapsed = op.attributes.integers("collapsed_slice_dims");
    const auto access =
        access_of(from, to, op.attributes.integers("offset_dims"), op.attributes.integers("slice_sizes"), collapsed,
                  components(op.operands[1], op.attributes.integer("index_vector_dim"), map));
    if (!access) return false;
    Order order;
    if (access->spanned.empty() && !std::ranges::count(access->data, true)) {
      const ValueId result = viewed(*this, x, access->maps, order);
      if (result == no_value) return false;
      become(in_order(result, order, access->digits, to), "a view");
      return true;
    }
    return gather_rows(op, *access);
  }

  /// Moves the axes that data index to the front, if the remaining axes are then contiguous.
  bool gather_rows(const Op& op, const Access& access) {
    const ValueId x = op.operands[0];
    const Shape from = shape(x), to = shape(op.results[0]);
    std::vector<AxisMap> maps = access.maps;
    std::int64_t indexed = 0, batch = 0;
    std::size_t next = access.digits.size();  // numbers of the axes that data index
    std::map<std::size_t, std::size_t> numbers;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (!access.data[axis]) continue;
      if (!maps[axis].terms.empty()) return false;  // boxes of several: as they are
      numbers[axis] = next;
      maps[axis].terms = {{next++, from[axis], 1}};
      ++indexed;
    }
    for (std::size_t axis = 0; axis < to.size(); ++axis)
      if (!std::ranges::count(op.attributes.integers("offset_dims"), static_cast<std::int64_t>(axis))) ++batch;
    const bool fewer = static_cast<std::size_t>(indexed) < access.components.size() ||
                       static_cast<std::int64_t>(access.spanned.size()) < batch;
    if (op.attributes.text("mode", "clip") == "fill") return false;
    if (fewer ? element_count(from) > 4 * most_copied * element_count(to) : !scattered(access, from, to)) return false;
    Order order;
    ValueId table = viewed(*this, x, maps, order);
    if (table == no_value) return false;
    // The indexed axes first, then the digits of the result in their order.
    Order wanted;
    for (const Component& component : access.components)
      if (access.data[component.axis]) wanted.push_back(numbers[component.axis]);
    Order rest;
    for (const std::size_t digit : order)
      if (digit < access.digits.size()) rest.push_back(digit);
    std::ranges::sort(rest);
    wanted.insert(wanted.end(), rest.begin(), rest.end());
    Integers permutation;
    for (const std::size_t digit : wanted) permutation.push_back(std::ranges::find(order, digit) - order.begin());
    table = transpose(table, permutation);
    return read_rows(op, access, table, rest, at(indexed));
  }

  /// Whether the elements of one index are scattered in memory (a burst each), so that a copy that makes them
  /// contiguous pays.
  bool scattered(const Access& access, const Shape& from, const Shape& to) const {
    constexpr std::int64_t burst = 64;  // bytes
    std::int64_t together = host_bytes(function_.value(now_->operands[0]).type.dtype), apart = 1;
    for (std::size_t axis = from.size(); axis-- > 0 && !access.data[axis];) together *= from[axis];
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (!access.data[axis]) apart *= from[axis];
    apart *= host_bytes(function_.value(now_->operands[0]).type.dtype);
    return together < burst && apart >= 2 * together && element_count(from) <= most_copied * element_count(to);
  }

  ValueId apply(Function function, std::vector<ValueId> operands) {
    Attributes attributes;
    attributes.set("function", std::string(info(function).name));
    return emit(Kind::elementwise, std::move(operands), std::move(attributes));
  }

  ValueId wider(ValueId x) {
    if (function_.value(x).type.dtype == DType::i64) return x;
    Attributes attributes;
    attributes.set("dtype", DType::i64);
    return emit(Kind::convert, {x}, std::move(attributes));
  }

  /// A constant of rank 0.
  ValueId number(std::int64_t value, DType dtype) {
    const std::string name = std::string(tilesim::name(dtype)) + "(" + std::to_string(value) + ")";
    Weight weight;
    weight.type = {dtype, {}};
    weight.source = Weight::Source::data;
    Array wide(DType::i64, {});
    wide.as<std::int64_t>()[0] = value;
    weight.data = wide.to(dtype);
    weight.trainable = false;
    const auto same = graph_.weights.find(name);
    const bool shared = same != graph_.weights.end() && same->second.type == weight.type &&
                        same->second.source == weight.source && !same->second.trainable &&
                        same->second.data.int_at(0) == value;
    const std::string stored = shared ? name : edit::fresh_weight(graph_, name);
    graph_.weights.emplace(stored, std::move(weight));
    Attributes attributes;
    attributes.set("reference", stored);
    return emit(Kind::constant, {}, std::move(attributes));
  }

  /// Converts the indices to row numbers; an index outside its axis becomes a row that does not exist.
  bool read_rows(const Op& op, const Access& access, ValueId table, const Order& rest, std::size_t indexed) {
    const Shape to = shape(op.results[0]);
    const Integers& offsets = op.attributes.integers("offset_dims");
    Shape points, batch;  // the axes along which rows differ; with extent 1 along the others
    Order order;          // digits of the rows' axes, then those of a row
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      if (std::ranges::count(offsets, static_cast<std::int64_t>(axis))) continue;
      const bool spans = access.spanned.count(axis) > 0;
      batch.push_back(spans ? to[axis] : 1);
      if (!spans) continue;
      points.push_back(to[axis]);
      for (std::size_t digit = 0; digit < access.digits.size(); ++digit)
        if (access.digits[digit].axis == axis) order.push_back(digit);
    }
    while (!batch.empty() && batch.back() == 1) batch.pop_back();  // lanes lie along the last axis
    const std::string mode = op.attributes.text("mode", "clip");
    ValueId row = no_value, inside = no_value;
    std::int64_t count = 1;
    std::size_t axis = 0;
    for (const Component& component : access.components) {
      if (!access.data[component.axis]) continue;
      const std::int64_t extent = shape(table)[axis++];
      const Shape& own = shape(component.value);
      ValueId index =
          reshape(component.value, Shape(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(batch.size())));
      const bool known = component.affine && !leaves(*component.affine, extent, 1);
      if (!known && (mode == "clip" || indexed > 1)) {
        const DType dtype = function_.value(index).type.dtype;
        const ValueId clamped = apply(Function::clamp, {number(0, dtype), index, number(extent - 1, dtype)});
        if (mode != "clip") {
          const ValueId one = apply(Function::equal, {index, clamped});
          inside = inside == no_value ? one : apply(Function::logical_and, {inside, one});
        }
        index = clamped;
      }
      index = wider(index);
      if (row != no_value) row = apply(Function::multiply, {row, number(extent, DType::i64)});
      row = row == no_value ? index : apply(Function::add, {row, index});
      count *= extent;
    }
    if (inside != no_value) row = apply(Function::select, {inside, row, number(count, DType::i64)});
    row = widened(row, batch);
    const Shape own(shape(table).begin() + static_cast<std::ptrdiff_t>(indexed), shape(table).end());
    table = reshape(table, {count, element_count(own)});
    ValueId rows = emit(Kind::embedding, {table, reshape(row, {element_count(points)})}, {});
    points.insert(points.end(), own.begin(), own.end());
    rows = reshape(rows, points);
    order.insert(order.end(), rest.begin(), rest.end());
    become(in_order(rows, order, access.digits, to), "rows");
    return true;
  }

  bool scatter(const Op& op) {
    const ValueId x = op.operands[0], updates = op.operands[2];
    const Shape to = shape(x), given = shape(updates);
    const std::string& combiner = op.attributes.text("combiner");
    if (element_count(to) == 0 || element_count(given) == 0) return false;
    if (combiner != "add" && combiner != "set") return false;
    const Integers& window = op.attributes.integers("update_window_dims");
    const Integers& inserted = op.attributes.integers("inserted_window_dims");
    Integers sizes(to.size(), 1);
    for (std::size_t axis = 0, next = 0; axis < to.size(); ++axis)
      if (!std::ranges::count(inserted, static_cast<std::int64_t>(axis))) sizes[axis] = given[at(window[next++])];
    const auto access = access_of(to, given, window, sizes, inserted,
                                  components(op.operands[1], op.attributes.integer("index_vector_dim"),
                                             op.attributes.integers("scatter_dims_to_operand_dims")));
    if (!access || std::ranges::count(access->data, true)) return false;
    Shape axes;
    std::set<std::size_t> used;
    for (const AxisMap& map : access->maps)
      for (const AxisMap::Term& term : map.terms) used.insert(term.digit);
    Order kept;
    for (std::size_t digit = 0; digit < access->digits.size(); ++digit) {
      if (access->digits[digit].extent > 1 && !used.count(digit)) return false;  // many at one place
      if (!used.count(digit)) continue;
      kept.push_back(digit);
      axes.push_back(access->digits[digit].extent);
    }
    const bool sets = combiner == "set";
    if (sets && element_count(given) != element_count(to)) return false;  // some places keep what they have
    const std::optional<Array> old = sets ? std::nullopt : elements(small(x));
    const ValueId parts = reshape(updates, axes);
    const ValueId sum = placed(*this, parts, access->maps, kept, to, sets);
    if (sum == no_value) return false;
    bool zero = sets;
    if (old) {
      zero = true;
      for (std::int64_t i = 0; i < old->size(); ++i) zero = zero && old->at(i) == 0;
    }
    Attributes add;
    add.set("function", std::string("add"));
    if (zero) sums_[op.results[0]] = {parts, access->maps, kept};
    become(zero ? sum : emit(Kind::elementwise, {x, sum}, std::move(add)), "paddings");
    return true;
  }

  /// Moves a slice or a padding of a sum of paddings into the paddings.
  bool cropped(const Op& op) {
    if (op.kind != Kind::pad || op.attributes.text("mode", "constant") != "constant") return false;
    const auto found = sums_.find(op.operands[0]);
    if (found == sums_.end()) return false;
    if (op.operands.size() > 1 && op.operands[1] != no_value) {
      const auto value = elements(op.operands[1]);
      if (!value || value->at(0) != 0) return false;
    }
    for (const std::int64_t hole : op.attributes.integers("interior", {}))
      if (hole != 0) return false;
    PlacedUpdates sum = found->second;
    const Integers& low = op.attributes.integers("low");
    for (std::size_t axis = 0; axis < low.size(); ++axis) sum.maps[axis].constant += low[axis];
    const Shape to = shape(op.results[0]);
    const ValueId result = placed(*this, sum.updates, sum.maps, sum.order, to, false);
    become(result, "paddings");
    return true;
  }

  /// Updates that are placed in zeros.
  struct PlacedUpdates {
    ValueId updates = no_value;
    std::vector<AxisMap> maps;
    Order order;
  };

  const Evaluator& evaluate_;
  std::map<ValueId, PlacedUpdates> sums_;
  std::map<ValueId, std::optional<Array>> known_;
};

}  // namespace

void affine_indices(Graph& graph, const Evaluator& evaluate, std::vector<Change>& changes) {
  for (GraphFunction& function : graph.functions) Indices(graph, function, evaluate, changes).run();
}

}  // namespace tilesim::recognition
