#include "tilesim/compile/layouts/layouts.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/wishes.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::lower {

bool enters_in_torch_order(const Shape& shape, const Shape& tile) {
  if (shape.size() < 2) return true;
  const std::int64_t minor = std::max<std::int64_t>(1, shape.back()),
                     second = std::max<std::int64_t>(1, shape[shape.size() - 2]);
  return static_cast<double>(round_up(minor, tile[1]) * round_up(second, tile[0])) <
         1.25 * static_cast<double>(minor * second);
}

namespace {

constexpr double twice = 2;  ///< minimum factor of padding for a note

/// The order of a tensor's axes in terms of the value's axes; empty unless the value covers the tensor axis by axis.
Order of_tensor(const Placement& placement, const Order& order) {
  if (placement.axes.size() != order.size() || !placement.moved.empty()) return {};
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

/// Accesses of a tensor: number of full loads and stores, and the number of these by kernels that compute on its lanes.
struct Accesses { double all = 0, on_lanes = 0; };

class Assignment {
 public:
  Assignment(Context& context, const std::vector<Kernel>& kernels, bool native)
      : context_(context), tile_(context.machine.layout.tile), wishes_(context.function, tile_, native) {
    if (native) follow_entry();
    for (std::size_t value = 0; value < context.placements.size(); ++value) {
      const Placement& placement = context.placements[value];
      const auto id = static_cast<ValueId>(value);
      if (placement.tensor.empty()) continue;
      placed_.insert(placement.tensor);
      if (const Order* order = wishes_.of_weight(id))
        weights_.try_emplace(placement.tensor, of_tensor(placement, *order));
      take_wish(id);
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
    // A tensor with an alias of another shape gets a dense layout: both share one byte order.
    for (const program::Tensor& tensor : context_.program.tensors)
      if (!tensor.alias_of.empty()) reshaped_.insert({tensor.name, tensor.alias_of});
    rows_one_by_one();
    if (!native && context.options.layout == "auto") densest_by_price();
  }

  void run() {
    for (program::Tensor& tensor : context_.program.tensors) {
      if (!tensor.tile.empty() || tensor.shape.size() < 2 || reshaped_.count(tensor.name)) continue;
      if (!placed_.count(tensor.name)) continue;
      const Shape shape = shape_of(tensor);
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

  /// Paged attention reads keys and values per page and head: these axes are major, not on the lanes and sublanes.
  void page_by_page(ValueId id) {
    const Placement& placement = context_.placements[at(id)];
    const Shape& shape = context_.function.value(id).type.shape;
    const Order rows_second{3, 2, 1, 0}, rows_minor{2, 3, 1, 0};
    const bool as_usual = padded_elements(shape, rows_second, tile_) <= padded_elements(shape, rows_minor, tile_);
    if (Order order = of_tensor(placement, as_usual ? rows_second : rows_minor); !order.empty())
      pages_.try_emplace(placement.tensor, std::move(order));
  }

  /// Temporary tables that only embeddings read get a dense layout: a row that data selects then shares no lanes or
  /// sublanes with other rows.
  void rows_one_by_one() {
    std::set<std::string> others;
    for (const Op& op : context_.function.ops)
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (op.operands[i] != no_value && (op.kind != Kind::embedding || i > 0))
          others.insert(context_.placements[at(op.operands[i])].tensor);
    for (const Op& op : context_.function.ops) {
      if (op.kind != Kind::embedding) continue;
      const Placement& table = context_.placements[at(op.operands[0])];
      const program::Tensor* tensor = find_tensor(context_, table.tensor);
      if (tensor && table.identity && !outside(*tensor) && !others.count(table.tensor)) reshaped_.insert(table.tensor);
    }
  }

  /// What is aligned with an input that enters with its largest axes minor prefers that order too.
  void follow_entry() {
    for (std::size_t value = 0; value < context_.placements.size(); ++value) {
      const auto id = static_cast<ValueId>(value);
      const program::Tensor* tensor = laid_out_here(id);
      if (!tensor || !outside(*tensor) || !wishes_.order_of(id).empty()) continue;
      const Shape shape = shape_of(*tensor);
      if (!enters_in_torch_order(shape, tile_)) wishes_.add(id, largest_minor(shape));
    }
  }

  void take_wish(ValueId id) {
    const Placement& placement = context_.placements[at(id)];
    if (Order order = of_tensor(placement, wishes_.order_of(id)); !order.empty())
      wished_.try_emplace(placement.tensor, std::move(order));
  }

  static Shape shape_of(const program::Tensor& tensor) {
    Shape shape;
    for (const Expr& extent : tensor.shape) shape.push_back(extent.value());
    return shape;
  }

  static bool outside(const program::Tensor& tensor) { return tensor.role != program::Role::temporary; }

  /// The order of a tensor without a preferred one.
  Order usual(const program::Tensor& tensor, const Shape& shape) const {
    if (!outside(tensor)) return unit_axes_major(shape);
    return enters_in_torch_order(shape, tile_) ? last_axis_minor(shape.size()) : largest_minor(shape);
  }

  Accesses accesses(const program::Tensor& tensor) const {
    const auto found = accesses_.find(tensor.name);
    return found == accesses_.end() ? Accesses{1, 1} : found->second;
  }

  /// Cycles of all accesses to the tensor in an order, if kernels compute with axis `lanes` on the lanes.
  double cost(const program::Tensor& tensor, const Shape& shape, const Order& order, int lanes) const {
    const Share& machine = context_.machine;
    const double moved = static_cast<double>(machine.core.clock.hertz) /
                         (static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency);
    const double changed = 1 / static_cast<double>(machine.core.cross_lane.bytes_per_cycle);
    const Accesses times = accesses(tensor);
    return padded_elements(shape, order, tile_) *
           (times.all * moved + (order[0] == lanes ? 0 : times.on_lanes * changed));
  }

  /// Gives the temporaries with the most padding their densest order, together with all values that operations align
  /// with them, if that lowers the total cost.
  void densest_by_price() {
    std::vector<std::pair<double, ValueId>> worst;
    for (std::size_t value = 0; value < context_.placements.size(); ++value) {
      const auto id = static_cast<ValueId>(value);
      const program::Tensor* tensor = laid_out_here(id);
      if (!tensor || outside(*tensor) || !wishes_.order_of(id).empty()) continue;
      const Shape shape = shape_of(*tensor);
      const double waste =
          padded_elements(shape, unit_axes_major(shape), tile_) - padded_elements(shape, largest_minor(shape), tile_);
      if (waste > 0) worst.emplace_back(-waste, id);
    }
    std::ranges::stable_sort(worst, {}, [](const auto& one) { return one.first; });
    for (const auto& [waste, id] : worst) {
      if (!wishes_.order_of(id).empty()) continue;
      const std::vector<ValueId> reached = wishes_.add(id, largest_minor(context_.function.value(id).type.shape));
      double dense = 0, last = 0;
      for (ValueId value : reached) add_costs(value, dense, last);
      if (dense < last)
        for (ValueId value : reached)
          if (const program::Tensor* tensor = laid_out_here(value); tensor && !outside(*tensor)) take_wish(value);
    }
  }

  /// The tensor of a value that covers it, if this pass decides its order; otherwise null.
  const program::Tensor* laid_out_here(ValueId value) const {
    const Placement& placement = context_.placements[at(value)];
    if (placement.tensor.empty() || !placement.identity) return nullptr;
    const program::Tensor* tensor = find_tensor(context_, placement.tensor);
    const bool open = tensor && tensor->tile.empty() && tensor->shape.size() > 1 && !reshaped_.count(tensor->name);
    return open ? tensor : nullptr;
  }

  /// Adds the costs of a value in its preferred order and in the default one; tensors with a fixed layout keep it.
  void add_costs(ValueId value, double& wished, double& last) const {
    const Placement& placement = context_.placements[at(value)];
    const program::Tensor* tensor = placement.identity ? find_tensor(context_, placement.tensor) : nullptr;
    const Order& order = wishes_.order_of(value);
    if (!tensor || tensor->shape.size() != order.size() || order.size() < 2) return;
    const Shape shape = shape_of(*tensor);
    const Order own = usual(*tensor, shape);
    const bool fixed = outside(*tensor) || !laid_out_here(value);
    wished += cost(*tensor, shape, fixed ? own : order, order[0]);
    last += cost(*tensor, shape, own, unit_axes_major(shape)[0]);
  }

  Order order(const program::Tensor& tensor, const Shape& shape) const {
    if (const auto pages = pages_.find(tensor.name); pages != pages_.end()) return pages->second;
    const Order usual = this->usual(tensor, shape);
    if (const auto weight = weights_.find(tensor.name); weight != weights_.end() && !weight->second.empty())
      return weight->second;
    const auto wished = wished_.find(tensor.name);
    return wished == wished_.end() ? usual : cheapest(tensor, shape, wished->second, usual);
  }

  /// The cheapest order in bytes and lane changes. Candidates: preferred; preferred with images and columns exchanged
  /// on the sublanes; default; for temporaries the densest. If other axes than preferred are on the lanes, kernels that
  /// compute on them use the cross-lane unit. Ties go to the first.
  Order cheapest(const program::Tensor& tensor, const Shape& shape, const Order& wished, const Order& usual) const {
    if (ordered_.count(tensor.name)) return wished;
    std::vector<Order> candidates{wished, wished, usual};
    if (wished.size() > 2) std::swap(candidates[1][1], candidates[1][2]);
    if (tensor.role == program::Role::temporary) candidates.push_back(largest_minor(shape));
    return *std::min_element(candidates.begin(), candidates.end(), [&](const Order& a, const Order& b) {
      return cost(tensor, shape, a, wished[0]) < cost(tensor, shape, b, wished[0]);
    });
  }

  /// Notes a tensor that another order would pad less.
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
    double bytes, least;  ///< MB in the chosen order, and in the order with the least padding
    std::string name;
  };

  Context& context_;
  const Shape& tile_;
  Wishes wishes_;
  std::set<std::string> placed_;                           ///< tensors with placements in this function
  std::set<std::string> reshaped_;                         ///< tensors with a dense layout
  std::set<std::string> ordered_;                          ///< results of copies whose purpose is the order
  std::map<std::string, Order> wished_, weights_, pages_;  ///< by tensor
  std::map<std::string, Accesses> accesses_;
  std::vector<Padded> padded_;
};

}  // namespace

void assign_layouts(Context& context, const std::vector<Kernel>& kernels, bool native) {
  if (!context.machine.layout.tile.empty()) Assignment(context, kernels, native).run();
}

}  // namespace tilesim::lower
