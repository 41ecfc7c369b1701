// Random graphs with shardings, and parts of tensors put together without the partitioner's own code.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/partition.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/kernels/run/devices.hpp"

namespace tilesim::test {

using Integers = std::vector<std::int64_t>;

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed), builder_(graph_, "main") {
    mesh();
    const int inputs = pick(1, 3);
    for (int i = 0; i < inputs; ++i) values_.push_back(builder_.input("x" + std::to_string(i), {DType::f64, shape()}));
    const int operations = pick(2, 7);
    for (int i = 0; i < operations; ++i) operation();
    const int outputs = pick(1, 2);
    for (int i = 0; i < outputs; ++i) {
      const ValueId value = i == 0 ? values_.back() : any();
      if (std::ranges::count(graph_.entry().outputs, value) == 0) builder_.output(value);
    }
    builder_.finish();
    for (Value& value : graph_.entry().values) annotate(value);
  }

  const Graph& graph() const { return graph_; }
  std::vector<Array> inputs() {
    std::vector<Array> arrays;
    for (const ValueId id : graph_.entry().inputs) {
      Array array(DType::f64, graph_.entry().value(id).type.shape);
      for (std::int64_t i = 0; i < array.size(); ++i) array.as<double>()[i] = pick(-3, 3);
      arrays.push_back(array);
    }
    return arrays;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  std::string fresh(const std::string& stem) { return stem + std::to_string(inputs_++); }
  ValueId any() { return values_[at(pick(0, static_cast<int>(values_.size()) - 1))]; }
  const Shape& extents(ValueId value) const { return builder_.type(value).shape; }
  int rank(ValueId value) const { return static_cast<int>(extents(value).size()); }
  ValueId ranked(int least) {
    for (int tries = 0; tries < 8; ++tries)
      if (const ValueId value = any(); rank(value) >= least) return value;
    return no_value;
  }

  void mesh() {
    Mesh mesh;
    const int axes = pick(1, 3);
    constexpr int sizes[] = {2, 2, 3, 4, 4, 8};
    std::int64_t devices = 1;
    for (int i = 0; i < axes; ++i) {
      const int size = sizes[pick(0, 5)];
      if (devices * size > 16) continue;
      devices *= size;
      mesh.axes.push_back({std::string(1, static_cast<char>('x' + i)), size});
    }
    if (mesh.axes.empty()) mesh.axes.push_back({"x", 2});
    if (chance(0.3)) {
      for (std::int64_t i = 0; i < mesh.devices(); ++i) mesh.order.push_back(i);
      std::ranges::shuffle(mesh.order, random_);
    }
    graph_.mesh = std::make_shared<const Mesh>(mesh);
  }

  Shape shape() {
    constexpr int sizes[] = {1, 2, 3, 4, 4, 5, 6, 8, 8, 12};
    Shape shape;
    const int axes = pick(1, 4);
    for (int i = 0; i < axes; ++i) shape.push_back(sizes[pick(0, i < 3 ? 9 : 5)]);
    return shape;
  }

  void annotate(Value& value) {
    if (!chance(0.4) || value.type.shape.empty()) return;
    Sharding sharding;
    sharding.given = true;
    sharding.axes.resize(value.type.shape.size());
    Integers parts(value.type.shape.size(), 1);
    std::vector<AxisPart> all;
    for (const MeshAxis& axis : graph_.mesh->axes)
      if (axis.size % 4 == 0 && chance(0.5)) {
        all.push_back({axis.name, 1, 2});
        all.push_back({axis.name, 2, axis.size / 2});
      } else {
        all.push_back({axis.name, 1, 0});
      }
    std::ranges::shuffle(all, random_);
    for (const AxisPart& part : all) {
      const auto axis = at(pick(0, static_cast<int>(parts.size()) - 1));
      const std::int64_t size = extent(*graph_.mesh, part);
      if (chance(0.3) || parts[axis] * size > value.type.shape[axis]) continue;
      parts[axis] *= size;
      sharding.axes[axis].parts.push_back(part);
    }
    for (DividedAxis& axis : sharding.axes) {
      axis.parts = joined(*graph_.mesh, axis.parts);
      axis.open = chance(0.3);
      if (chance(0.1)) axis.priority = pick(0, 2);
    }
    value.sharding = std::make_shared<const Sharding>(sharding);
  }

  void push(ValueId value) {
    if (builder_.type(value).dtype != DType::f64) value = builder_.convert(value, DType::f64);
    // Small integers stay exact however sums are ordered.
    values_.push_back(builder_.elementwise(Function::clamp,
                                           {builder_.scalar(-4, DType::f64), value, builder_.scalar(4, DType::f64)}));
  }
  ValueId op(Kind kind, std::vector<ValueId> operands, const std::vector<std::pair<std::string, Attribute>>& set,
             int results = 1) {
    Attributes attributes;
    for (const auto& [name, value] : set) attributes.set(name, value);
    return builder_.op(kind, std::move(operands), std::move(attributes), {}, results)[0];
  }
  std::int64_t axis_of(ValueId value) { return pick(0, rank(value) - 1); }

  void operation() {
    switch (pick(0, 23)) {
      case 0:
        return push(builder_.elementwise(Function::negate, {any()}));
      case 1:
        return binary();
      case 2:
      case 3:
      case 4:
        return product();
      case 5:
      case 6:
        return reduce();
      case 7:
        return transpose();
      case 8:
      case 9:
        return reshape();
      case 10:
        return broadcast();
      case 11:
        return slice();
      case 12:
        return pad();
      case 13:
        return concat();
      case 14:
        return along();
      case 15:
        return table();
      case 16:
        return scatter();
      case 17:
        return dynamic();
      case 18:
        return counting();
      case 19:
        return convolution();
      case 20:
        return window();
      case 21:
        return loop();
      case 22:
        return gather();
      default:
        return order();
    }
  }

  void binary() {
    const ValueId a = any();
    ValueId b = no_value;
    for (int tries = 0; tries < 10 && b == no_value; ++tries)
      if (const ValueId other = any(); extents(other) == extents(a) || rank(other) == 0) b = other;
    if (b == no_value) b = a;
    constexpr Function functions[] = {Function::add, Function::multiply, Function::maximum, Function::subtract};
    push(builder_.elementwise(functions[pick(0, 3)], {a, b}));
  }

  void product() {
    const ValueId a = ranked(1);
    if (a == no_value) return;
    const std::int64_t k = axis_of(a);
    Shape other{extents(a)[at(k)], pick(1, 8)};
    ValueId b = no_value;
    for (const ValueId value : values_)
      if (value != a && rank(value) <= 3)
        for (int axis = 0; axis < rank(value); ++axis)
          if (extents(value)[at(axis)] == other[0] && b == no_value && chance(0.5)) {
            b = value;
            other_axis_ = axis;
          }
    if (b == no_value) {
      b = builder_.input(fresh("w"), {DType::f64, other});
      other_axis_ = 0;
    }
    if (rank(a) + rank(b) > 6) return;
    std::vector<ValueId> operands{a, b};
    if (chance(0.3)) {
      const ValueId bare =
          op(Kind::contract, {a, b}, {{"a_contract", Integers{k}}, {"b_contract", Integers{other_axis_}}});
      if (rank(bare) > 0) operands.push_back(builder_.input(fresh("bias"), {DType::f64, {extents(bare).back()}}));
    }
    push(op(Kind::contract, operands, {{"a_contract", Integers{k}}, {"b_contract", Integers{other_axis_}}}));
  }

  void reduce() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    constexpr const char* combiners[] = {"add", "maximum", "minimum", "argmax", "add"};
    Integers dims{axis_of(x)};
    if (const std::int64_t second = axis_of(x); second != dims[0]) dims.push_back(second);
    push(op(Kind::reduce, {x},
            {{"dims", dims}, {"combiner", std::string(combiners[pick(0, 4)])}, {"keep_dims", chance(0.3)}}));
  }
  void transpose() {
    const ValueId x = any();
    Integers permutation;
    for (int i = 0; i < rank(x); ++i) permutation.push_back(i);
    std::ranges::shuffle(permutation, random_);
    push(builder_.transpose(x, permutation));
  }
  void reshape() {
    const ValueId x = any();
    Shape to = extents(x);
    for (int change = 0; change < 2; ++change) {
      const auto axis = at(pick(0, std::max(0, static_cast<int>(to.size()) - 1)));
      if (to.size() > 1 && chance(0.5)) {
        if (axis + 1 >= to.size()) continue;
        to[axis] *= to[axis + 1];
        to.erase(to.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      } else if (!to.empty() && to.size() < 5) {
        const std::int64_t part = to[axis] % 2 == 0 ? 2 : to[axis] % 3 == 0 ? 3 : 1;
        to[axis] /= part;
        to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis) + (chance(0.5) ? 1 : 0), part);
      }
    }
    push(builder_.reshape(x, to));
  }
  void broadcast() {
    const ValueId x = any();
    if (rank(x) > 3) return;
    Shape to = extents(x);
    Integers dims;
    const int place = pick(0, rank(x));
    to.insert(to.begin() + place, pick(1, 6));
    for (int i = 0; i <= rank(x); ++i)
      if (i != place) dims.push_back(i);
    for (int i = 0; i < rank(x); ++i)
      if (extents(x)[at(i)] == 1 && chance(0.5)) to[at(dims[at(i)])] = pick(1, 4);
    push(op(Kind::broadcast, {x}, {{"shape", to}, {"dims", dims}}));
  }
  void slice() {
    const ValueId x = any();
    Integers start, limit, stride;
    for (const std::int64_t extent : extents(x)) {
      const bool all = chance(0.6);
      start.push_back(all ? 0 : pick(0, static_cast<int>(extent) - 1));
      limit.push_back(all ? extent : pick(static_cast<int>(start.back()) + 1, static_cast<int>(extent)));
      stride.push_back(all ? 1 : pick(1, 2));
    }
    push(op(Kind::slice, {x}, {{"start", start}, {"limit", limit}, {"stride", stride}}));
  }
  void pad() {
    const ValueId x = any();
    Integers low, high;
    for (int i = 0; i < rank(x); ++i) {
      low.push_back(chance(0.7) ? 0 : pick(0, 2));
      high.push_back(chance(0.7) ? 0 : pick(0, 2));
    }
    push(op(Kind::pad, {x, builder_.scalar(2, DType::f64)}, {{"low", low}, {"high", high}}));
  }
  void concat() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    push(op(Kind::concat, {x, x}, {{"dim", axis_of(x)}}));
  }
  void along() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    if (chance(0.5)) return push(op(Kind::reverse, {x}, {{"dims", Integers{axis_of(x)}}}));
    push(op(Kind::cumulative, {x}, {{"dim", axis_of(x)}, {"combiner", std::string("add")}}));
  }
  /// Whole numbers from 0 to below `rows`, of any value.
  ValueId indices(ValueId x, std::int64_t rows) {
    const ValueId large = builder_.elementwise(Function::abs, {x});
    const ValueId legal =
        builder_.elementwise(Function::minimum, {large, builder_.scalar(static_cast<double>(rows - 1), DType::f64)});
    return builder_.convert(legal, DType::i32);
  }
  void table() {
    const ValueId x = any();
    if (rank(x) > 3) return;
    const std::int64_t rows = pick(1, 9);
    const ValueId table = builder_.input("t" + std::to_string(values_.size()), {DType::f64, {rows, pick(1, 6)}});
    push(op(Kind::embedding, {table, indices(x, rows)}, {}));
  }
  void gather() {
    const ValueId x = ranked(2), from = ranked(1);
    if (x == no_value || from == no_value || rank(from) > 2) return;
    Integers sizes = extents(x), offsets;
    sizes[0] = 1;
    for (int i = 1; i < rank(x); ++i) offsets.push_back(rank(from) + i - 1);
    push(op(Kind::gather, {x, indices(from, extents(x)[0])},
            {{"offset_dims", offsets},
             {"collapsed_slice_dims", Integers{0}},
             {"start_index_map", Integers{0}},
             {"index_vector_dim", static_cast<std::int64_t>(rank(from))},
             {"slice_sizes", sizes}}));
  }
  void scatter() {
    const ValueId x = ranked(2);
    if (x == no_value) return;
    Shape updates = extents(x);
    updates[0] = pick(1, 6);
    const ValueId place = builder_.input("at" + std::to_string(values_.size()), {DType::f64, {updates[0]}});
    const ValueId value = builder_.input("u" + std::to_string(values_.size()), {DType::f64, updates});
    Integers window;
    for (int i = 1; i < rank(x); ++i) window.push_back(i);
    push(op(Kind::scatter, {x, indices(place, extents(x)[0]), value},
            {{"update_window_dims", window},
             {"inserted_window_dims", Integers{0}},
             {"scatter_dims_to_operand_dims", Integers{0}},
             {"index_vector_dim", std::int64_t{1}},
             {"combiner", std::string("add")}}));
  }
  void dynamic() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    const std::int64_t axis = axis_of(x);
    std::vector<ValueId> starts;
    for (int i = 0; i < rank(x); ++i) starts.push_back(builder_.scalar(i == axis ? pick(0, 2) : 0, DType::i64));
    Integers sizes = extents(x);
    sizes[at(axis)] = std::max<std::int64_t>(1, sizes[at(axis)] - 2);
    std::vector<ValueId> operands{x};
    operands.insert(operands.end(), starts.begin(), starts.end());
    const ValueId part = op(Kind::dynamic_slice, operands, {{"sizes", sizes}});
    if (chance(0.5)) return push(part);
    operands.insert(operands.begin() + 1, part);
    push(op(Kind::dynamic_update, operands, {}));
  }
  void counting() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    const ValueId places = op(Kind::iota, {}, {{"shape", extents(x)}, {"dtype", DType::f64}, {"dim", axis_of(x)}});
    push(builder_.elementwise(Function::add, {x, places}));
  }
  void convolution() {
    const std::int64_t groups = pick(1, 2), channels = groups * pick(1, 4), outputs = groups * pick(1, 4);
    const std::int64_t reach = pick(1, 3);
    const std::string tail = std::to_string(values_.size());
    const ValueId x = builder_.input("image" + tail, {DType::f64, {pick(1, 4), channels, pick(3, 8)}});
    const ValueId w = builder_.input("taps" + tail, {DType::f64, {outputs, channels / groups, reach}});
    push(op(Kind::convolution, {x, w},
            {{"x_labels", std::string("NCW")},
             {"w_labels", std::string("OIW")},
             {"y_labels", std::string("NCW")},
             {"pads", Integers{reach / 2, reach / 2}},
             {"groups", groups}}));
  }
  void window() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    Integers sizes(at(rank(x)), 1);
    sizes[at(axis_of(x))] = pick(1, 2);
    for (int i = 0; i < rank(x); ++i) sizes[at(i)] = std::min(sizes[at(i)], extents(x)[at(i)]);
    push(op(Kind::window_reduce, {x}, {{"window", sizes}, {"combiner", std::string("maximum")}}));
  }
  void order() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    if (chance(0.5)) return push(op(Kind::sort, {x}, {{"dim", axis_of(x)}}));
    push(op(Kind::top_k, {x}, {{"dim", axis_of(x)}, {"k", std::int64_t{1}}}, 2));
  }
  /// Three trips of a loop that sums neighbours.
  void loop() {
    const ValueId x = ranked(1);
    if (x == no_value) return;
    const std::string tail = std::to_string(values_.size());
    const TensorType type = builder_.type(x), counter{DType::i64, {}};
    Builder condition(graph_, "more" + tail);
    const ValueId at_trip = condition.input("trip", counter);
    condition.input("state", type);
    condition.output(condition.elementwise(Function::less, {at_trip, condition.scalar(3, DType::i64)}));
    Builder body(graph_, "trip" + tail);
    const ValueId trip = body.input("trip", counter), state = body.input("state", type);
    body.output(body.elementwise(Function::add, {trip, body.scalar(1, DType::i64)}));
    Attributes sum, all;
    sum.set("dims", Integers{axis_of(x)});
    sum.set("combiner", std::string("add"));
    sum.set("keep_dims", true);
    const ValueId total = body.op(Kind::reduce, {state}, sum)[0];
    const ValueId next = body.elementwise(Function::subtract, {total, state});
    body.output(body.elementwise(Function::clamp, {body.scalar(-4, DType::f64), next, body.scalar(4, DType::f64)}));
    const std::vector<ValueId> results = builder_.op(Kind::while_loop, {builder_.scalar(0, DType::i64), x}, {}, {}, 2,
                                                     {condition.function_index(), body.function_index()});
    values_.push_back(results[1]);
  }

  std::mt19937_64 random_;
  Graph graph_;
  Builder builder_;
  std::vector<ValueId> values_;
  std::int64_t other_axis_ = 0;
  int inputs_ = 0;
};

/// Which of the parts of an axis a device has, by the digits of its place in the mesh.
inline std::int64_t part_of(const Mesh& mesh, const std::vector<AxisPart>& parts, std::int64_t device) {
  const std::int64_t place = mesh.places()[at(device)];
  std::int64_t index = 0;
  for (const AxisPart& part : parts) {
    std::int64_t inner = 1;
    const std::size_t axis = mesh.axis(part.axis);
    for (std::size_t i = axis + 1; i < mesh.axes.size(); ++i) inner *= mesh.axes[i].size;
    const std::int64_t coordinate = place / inner % mesh.axes[axis].size, size = extent(mesh, part);
    index = index * size + coordinate / (mesh.axes[axis].size / part.before / size) % size;
  }
  return index;
}

/// Calls visit(element of the whole or -1 for padding, element of the part) for a device's part of a tensor.
template <class Visit>
void for_part(const Mesh& mesh, const Sharding& sharding, const Shape& all, std::int64_t device, const Visit& visit) {
  Shape local, start;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t parts = 1;
    for (const AxisPart& part : sharding.axes[i].parts) parts *= extent(mesh, part);
    local.push_back((all[i] + parts - 1) / parts);
    start.push_back(local[i] * part_of(mesh, sharding.axes[i].parts, device));
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : local) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, index = 0, stride = 1;
    bool inside = true;
    for (std::size_t axis = all.size(); axis-- > 0;) {
      const std::int64_t place = start[axis] + rest % local[axis];
      rest /= local[axis];
      inside = inside && place < all[axis];
      index += place * stride;
      stride *= all[axis];
    }
    visit(inside ? index : -1, i, local);
  }
}

/// A device's part; padding is not a number, so that it shows wherever it is read.
inline Array part(const Mesh& mesh, const Sharding& sharding, const Array& all, std::int64_t device) {
  Shape local;
  for_part(mesh, sharding, all.shape(), device, [&](std::int64_t, std::int64_t, const Shape& shape) { local = shape; });
  Array result(DType::f64, local);
  for_part(mesh, sharding, all.shape(), device, [&](std::int64_t from, std::int64_t to, const Shape&) {
    result.as<double>()[to] = from < 0 ? std::numeric_limits<double>::quiet_NaN() : all.at(from);
  });
  return result.to(all.dtype());
}

/// Largest difference of the devices' outputs from the whole graph's.
inline double distance(const partitioning::Partitioned& local, const Mesh& mesh, const std::vector<Array>& inputs,
                       const std::vector<Array>& wanted) {
  std::vector<std::vector<Array>> parts(at(mesh.devices()));
  for (std::int64_t device = 0; device < mesh.devices(); ++device)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      parts[at(device)].push_back(part(mesh, local.inputs[i].sharding, inputs[i], device));
  const std::vector<std::vector<Array>> outputs = evaluate_devices(local.graph, parts);
  double most = 0;
  for (std::int64_t device = 0; device < mesh.devices(); ++device)
    for (std::size_t i = 0; i < wanted.size(); ++i)
      for_part(mesh, local.outputs[i].sharding, wanted[i].shape(), device,
               [&](std::int64_t whole, std::int64_t own, const Shape&) {
                 if (whole < 0) return;
                 const double difference = std::abs(outputs[at(device)][i].at(own) - wanted[i].at(whole));
                 most = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(most, difference);
               });
  return most;
}

}  // namespace tilesim::test
