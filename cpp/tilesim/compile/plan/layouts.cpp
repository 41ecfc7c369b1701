#include "tilesim/compile/plan/layouts.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::lower {

namespace {

using Order = std::vector<int>;  ///< axes, minor to major

constexpr double twice = 2;  ///< padding beyond this factor is noted

Order last_axis_minor(std::size_t rank) {
  Order order;
  for (std::size_t axis = rank; axis-- > 0;) order.push_back(static_cast<int>(axis));
  return order;
}

double padded_elements(const Shape& shape, const Order& order, const Shape& tile) {
  double elements = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t extent = std::max<std::int64_t>(1, shape[at(order[i])]);
    elements *= static_cast<double>(i < 2 ? round_up(extent, tile[1 - i]) : extent);
  }
  return elements;
}

}  // namespace

bool enters_in_torch_order(const Shape& shape, const Shape& tile) {
  if (shape.size() < 2) return true;
  const std::int64_t minor = std::max<std::int64_t>(1, shape.back()),
                     second = std::max<std::int64_t>(1, shape[shape.size() - 2]);
  return static_cast<double>(round_up(minor, tile[1]) * round_up(second, tile[0])) <
         1.25 * static_cast<double>(minor * second);
}

namespace {

Order largest_minor(const Shape& shape) {
  Order order = last_axis_minor(shape.size());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shape[at(a)] > shape[at(b)]; });
  return order;
}

/// Per-row statistics keep their reduced axis with extent 1: as the minor axis it would be padded to a whole register
/// of lanes.
Order unit_axes_major(const Shape& shape) {
  Order order = last_axis_minor(shape.size());
  std::stable_partition(order.begin(), order.end(), [&](int axis) { return shape[at(axis)] != 1; });
  return order;
}

/// Axes of `labels` as convolutions read them: two minor ones, then space, the last axis first.
Order by_labels(const std::string& labels, char minor, char second, bool columns_second) {
  Order space;
  for (std::size_t axis = labels.size(); axis-- > 0;)
    if (labels[axis] != minor && labels[axis] != second) space.push_back(static_cast<int>(axis));
  Order order{static_cast<int>(labels.find(minor)), static_cast<int>(labels.find(second))};
  order.insert(order.end(), space.begin(), space.end());
  if (columns_second && order.size() > 2) std::swap(order[1], order[2]);
  return order;
}

/// Orders that convolutions ask for, by axes of the values: [..][W][N][C], with few images [..][N][W][C] (columns over
/// the sublanes), and gathers and scatters of their starts; spread to values whose axes an operation puts side by side
/// with theirs.
class Wishes {
 public:
  Wishes(const GraphFunction& function, const Shape& tile)
      : function_(function), tile_(tile), orders_(function.values.size()) {
    readers_.resize(function.values.size());
    producer_.assign(function.values.size(), nullptr);
    for (const Op& op : function.ops) {
      for (ValueId operand : op.operands)
        if (operand != no_value) readers_[at(operand)].push_back(&op);
      for (ValueId result : op.results)
        if (result != no_value) producer_[at(result)] = &op;
      if (op.kind == Kind::gather || op.kind == Kind::scatter) components_major(op);
      if (op.kind != Kind::convolution) continue;
      const auto images = [&](ValueId value, const char* attribute) {
        const std::string& labels = op.attributes.text(attribute);
        wish(value, by_labels(labels, 'C', 'N', function.value(value).type.shape[labels.find('N')] < tile[0]));
      };
      images(op.operands[0], "x_labels");
      images(op.results[0], "y_labels");
      weights_[op.operands[1]] = by_labels(op.attributes.text("w_labels"), 'O', 'I', false);
    }
    while (!queue_.empty()) {
      const ValueId value = queue_.front();
      queue_.pop_front();
      if (producer_[at(value)]) spread(*producer_[at(value)], value);
      for (const Op* reader : readers_[at(value)]) spread(*reader, value);
    }
  }

  const Order& of(ValueId value) const { return orders_[at(value)]; }
  const Order* of_weight(ValueId value) const {
    const auto found = weights_.find(value);
    return found == weights_.end() ? nullptr : &found->second;
  }

 private:
  void wish(ValueId value, Order order) {
    if (value == no_value || !orders_[at(value)].empty() || function_.value(value).type.shape.size() != order.size())
      return;
    orders_[at(value)] = std::move(order);
    queue_.push_back(value);
  }

  /// Starts of boxes have an axis of a few components, which over the lanes would be padded to a row of them.
  void components_major(const Op& op) {
    const ValueId starts = op.operands[1];
    const std::int64_t axis = op.attributes.integer("index_vector_dim");
    const Shape& shape = function_.value(starts).type.shape;
    if (shape.size() < 2 || axis >= static_cast<std::int64_t>(shape.size())) return;
    Order order = last_axis_minor(shape.size()), dense = largest_minor(shape);
    for (Order* either : {&order, &dense})
      std::stable_partition(either->begin(), either->end(), [&](int a) { return a != axis; });
    const bool pads = padded_elements(shape, order, tile_) > twice * padded_elements(shape, dense, tile_);
    wish(starts, std::move(pads ? dense : order));
  }

  /// Whether axis i of operands and results of that rank are the same axis.
  static bool side_by_side(const Op& op) {
    switch (op.kind) {
      case Kind::copy:
        return !op.attributes.flag("layout");  // it is there to change the order
      case Kind::elementwise:
      case Kind::convert:
      case Kind::reduce:
      case Kind::cumulative:
      case Kind::window_reduce:
      case Kind::window_scatter:
      case Kind::pad:
      case Kind::slice:
      case Kind::reverse:
      case Kind::concat:
      case Kind::dynamic_slice:
      case Kind::dynamic_update:
        return true;
      default:
        return false;
    }
  }

  void spread(const Op& op, ValueId from) {
    const Order order = orders_[at(from)];
    if (op.kind == Kind::transpose) {  // result axis i is axis permutation[i] of the operand
      const std::vector<std::int64_t>& permutation = op.attributes.integers("permutation");
      Order forward(order.size()), back(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        back[i] = static_cast<int>(permutation[at(order[i])]);
        forward[i] =
            static_cast<int>(std::find(permutation.begin(), permutation.end(), order[i]) - permutation.begin());
      }
      from == op.operands[0] ? wish(op.results[0], std::move(forward)) : wish(op.operands[0], std::move(back));
    } else if (side_by_side(op)) {
      for (ValueId operand : op.operands) wish(operand, order);
      for (ValueId result : op.results) wish(result, order);
    }
  }

  const GraphFunction& function_;
  const Shape& tile_;
  std::vector<Order> orders_;  ///< by value; empty: none
  std::map<ValueId, Order> weights_;
  std::vector<std::vector<const Op*>> readers_;
  std::vector<const Op*> producer_;
  std::deque<ValueId> queue_;
};

/// The order of a value's tensor, if the value shows all of it, axis by axis.
Order of_tensor(const Placement& placement, const Order& order) {
  if (placement.axes.size() != order.size()) return {};
  Order result(order.size(), -1);
  for (std::size_t axis = 0; axis < placement.axes.size(); ++axis) {
    const AxisAccess& access = placement.axes[axis];
    if (access.terms.size() != 1 || access.terms[0].coefficient != 1 || access.constant != 0) return {};
    const auto place = std::find(order.begin(), order.end(), access.terms[0].dim);
    if (place == order.end() || result[at(place - order.begin())] >= 0) return {};
    result[at(place - order.begin())] = static_cast<int>(axis);
  }
  return result;
}

/// Who moves a tensor: times it is read or written whole, and how many of them compute on its lanes.
struct Accesses { double all = 0, on_lanes = 0; };

class Assignment {
 public:
  Assignment(Context& context, const std::vector<Kernel>& kernels)
      : context_(context), tile_(context.machine.layout.tile), wishes_(context.function, tile_) {
    for (std::size_t value = 0; value < context.placements.size(); ++value) {
      const Placement& placement = context.placements[value];
      const auto id = static_cast<ValueId>(value);
      if (placement.tensor.empty()) continue;
      placed_.insert(placement.tensor);
      if (const Order* order = wishes_.of_weight(id))
        weights_.try_emplace(placement.tensor, of_tensor(placement, *order));
      if (Order order = of_tensor(placement, wishes_.of(id)); !order.empty())
        wished_.try_emplace(placement.tensor, std::move(order));
    }
    for (const Op& op : context.function.ops)
      if (op.kind == Kind::attention && op.operands.size() > attention_pages)
        for (const ValueId id : {op.operands[attention_k], op.operands[attention_v]}) page_by_page(id);
    for (const Op& op : context.function.ops)
      if (op.kind == Kind::copy && op.attributes.flag("layout"))
        ordered_.insert(context.placements[at(op.results[0])].tensor);
    for (const Kernel& kernel : kernels)
      for (const auto* values : {&kernel.inputs, &kernel.outputs})
        for (ValueId value : *values) {
          Accesses& accesses = accesses_[context.placements[at(value)].tensor];
          accesses.all += 1;
          accesses.on_lanes += kernel.family == Family::vector || convolves(kernel) ? 1 : 0;
        }
  }

  void run() {
    // A tensor that is also seen under another shape has one order of bytes for both: it is taken as dense.
    std::set<std::string> reshaped;
    for (const program::Tensor& tensor : context_.program.tensors)
      if (!tensor.alias_of.empty()) reshaped.insert({tensor.name, tensor.alias_of});
    for (program::Tensor& tensor : context_.program.tensors) {
      if (!tensor.tile.empty() || tensor.shape.size() < 2 || reshaped.count(tensor.name)) continue;
      if (!placed_.count(tensor.name)) continue;
      Shape shape;
      for (const Expr& extent : tensor.shape) shape.push_back(extent.value());
      tensor.tile = tile_;
      if (context_.options.layout == "auto") tensor.minor_to_major = order(tensor, shape);
      if (tensor.minor_to_major == last_axis_minor(shape.size())) tensor.minor_to_major.clear();
      note(tensor, shape);
    }
    write_notes();
  }

 private:
  bool convolves(const Kernel& kernel) const {
    return kernel.anchor >= 0 && context_.function.ops[at(kernel.anchor)].kind == Kind::convolution;
  }

  /// Pages are read one by one, of one head each: neither axis lies over lanes or sublanes with its neighbours.
  void page_by_page(ValueId id) {
    const Placement& placement = context_.placements[at(id)];
    const Shape& shape = context_.function.value(id).type.shape;
    const Order rows_second{3, 2, 1, 0}, rows_minor{2, 3, 1, 0};
    const bool as_usual = padded_elements(shape, rows_second, tile_) <= padded_elements(shape, rows_minor, tile_);
    if (Order order = of_tensor(placement, as_usual ? rows_second : rows_minor); !order.empty())
      pages_.try_emplace(placement.tensor, std::move(order));
  }

  Order order(const program::Tensor& tensor, const Shape& shape) const {
    if (const auto pages = pages_.find(tensor.name); pages != pages_.end()) return pages->second;
    const bool outside = tensor.role == program::Role::input || tensor.role == program::Role::weight;
    Order usual = last_axis_minor(shape.size());
    if (outside || tensor.role == program::Role::output)
      usual = enters_in_torch_order(shape, tile_) ? usual : largest_minor(shape);
    else if (shape.back() == 1)
      usual = unit_axes_major(shape);
    if (const auto weight = weights_.find(tensor.name); weight != weights_.end() && !weight->second.empty())
      return weight->second;
    const auto wished = wished_.find(tensor.name);
    return wished == wished_.end() ? usual : cheapest(tensor, shape, wished->second, usual);
  }

  /// By bytes at the memory's rate: as wished, with the other of images and columns over the sublanes, as usual, or, of
  /// what no caller gave an order, as dense as whole tiles allow. On other lanes than wished, everybody who computes on
  /// them passes the tensor as it lies through the cross-lane unit. The first of equals wins.
  Order cheapest(const program::Tensor& tensor, const Shape& shape, const Order& wished, const Order& usual) const {
    if (ordered_.count(tensor.name)) return wished;
    const auto found = accesses_.find(tensor.name);
    const Accesses accesses = found == accesses_.end() ? Accesses{1, 1} : found->second;
    const Share& machine = context_.machine;
    const double moved = static_cast<double>(machine.core.clock.hertz) /
                         (static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency);
    const double changed = 1 / static_cast<double>(machine.core.cross_lane.bytes_per_cycle);
    const auto cost = [&](const Order& order) {
      return padded_elements(shape, order, tile_) *
             (accesses.all * moved + (order[0] == wished[0] ? 0 : accesses.on_lanes * changed));
    };
    std::vector<Order> candidates{wished, wished, usual};
    if (wished.size() > 2) std::swap(candidates[1][1], candidates[1][2]);
    if (tensor.role == program::Role::temporary) candidates.push_back(largest_minor(shape));
    return *std::min_element(candidates.begin(), candidates.end(),
                             [&](const Order& a, const Order& b) { return cost(a) < cost(b); });
  }

  /// Of what another order would pad less: a vector fills one sublane of eight however it lies.
  void note(const program::Tensor& tensor, const Shape& shape) {
    const std::int64_t elements = element_count(shape);
    if (elements == 0) return;
    const Order& order = tensor.minor_to_major;
    const double padded = padded_elements(shape, order.empty() ? last_axis_minor(shape.size()) : order, tile_);
    const double least = padded_elements(shape, largest_minor(shape), tile_), megabytes = bits(tensor.dtype) / 8e6;
    if (padded > twice * static_cast<double>(elements) && padded > twice * least)
      padded_.push_back({padded * megabytes, least * megabytes, tensor.name});
  }

  void write_notes() {
    if (padded_.empty()) return;
    double bytes = 0, least = 0;
    for (const Padded& tensor : padded_) bytes += tensor.bytes, least += tensor.least;
    const auto most = std::max_element(padded_.begin(), padded_.end(),
                                       [](const Padded& a, const Padded& b) { return a.bytes < b.bytes; });
    char text[128];
    std::snprintf(text, sizeof text, ": %zu padded tensors take %.3g MB, %.3g in their densest order; the largest is ",
                  padded_.size(), bytes, least);
    context_.program.notes.push_back("layout of " + context_.function.name + text + most->name);
  }

  struct Padded {
    double bytes, least;  ///< MB as it lies and in the order with the least padding
    std::string name;
  };

  Context& context_;
  const Shape& tile_;
  Wishes wishes_;
  std::set<std::string> placed_;                           ///< of this function
  std::set<std::string> ordered_;                          ///< written by a copy that is there to change the order
  std::map<std::string, Order> wished_, weights_, pages_;  ///< by tensor
  std::map<std::string, Accesses> accesses_;
  std::vector<Padded> padded_;
};

}  // namespace

void assign_layouts(Context& context, const std::vector<Kernel>& kernels) {
  if (!context.machine.layout.tile.empty()) Assignment(context, kernels).run();
}

}  // namespace tilesim::lower
