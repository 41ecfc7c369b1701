#include "tilesim/compile/plan/placement.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::optional<std::vector<AxisAccess>> split_access(const Shape& from, const Shape& to) {
  std::vector<AxisAccess> axes;
  std::size_t next = 0;
  for (std::int64_t extent : from) {
    AxisAccess axis;
    std::int64_t covered = 1;
    std::vector<std::size_t> parts;
    while (covered < extent) {
      if (next >= to.size()) return std::nullopt;
      covered *= to[next];
      if (covered > extent || extent % covered != 0) return std::nullopt;
      parts.push_back(next++);
    }
    std::int64_t stride = 1;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (to[*part] > 1) axis.terms.insert(axis.terms.begin(), {static_cast<int>(*part), stride});
      stride *= to[*part];
    }
    axes.push_back(std::move(axis));
  }
  for (; next < to.size(); ++next)
    if (to[next] != 1) return std::nullopt;
  return axes;
}

namespace {

/// By value: whether a reader needs a tensor that ends with it. A window over its edges reads a fill value there, not
/// its neighbour; one behind views asks it of what they view.
std::vector<bool> needing_own_tensors(const GraphFunction& function) {
  std::vector<bool> needs(function.values.size(), false);
  for (std::size_t i = function.ops.size(); i-- > 0;) {  // readers stand behind producers
    const Op& op = function.ops[i];
    // A function takes whole tensors; tiles of windows reach over the edges of both operands.
    if (runs_functions(op.kind) || op.kind == Kind::window_scatter)
      for (ValueId operand : op.operands)
        if (operand != no_value) needs[index(operand)] = true;
    if (op.operands.empty() || op.operands[0] == no_value) continue;
    const bool window = op.kind == Kind::convolution || op.kind == Kind::window_reduce;
    const auto pads = window ? op.attributes.integers("pads", {}) : std::vector<std::int64_t>{};
    const bool may_view = op.kind == Kind::reshape || op.kind == Kind::transpose || op.kind == Kind::slice ||
                          op.kind == Kind::broadcast || op.kind == Kind::copy;
    if (std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad > 0; }) ||
        (may_view && needs[index(op.results[0])]))
      needs[index(op.operands[0])] = true;
  }
  return needs;
}

bool read_by_call(const GraphFunction& function, const Uses& uses, ValueId value) {
  return std::any_of(uses.consumers[index(value)].begin(), uses.consumers[index(value)].end(),
                     [&](int reader) { return runs_functions(function.ops[index(reader)].kind); });
}

/// An output may be a view of what a kernel computes, but of neither an input nor another output: those have bytes of
/// their own, and are copied.
struct Owners {
  std::set<ValueId> claimed;
  bool own_bytes(const GraphFunction& function, const Uses& uses, const Views& views, ValueId value) {
    while (true) {
      const int producer = uses.producer[index(value)];
      if (producer < 0 || uses.is_output[index(value)]) return false;
      const Op& op = function.ops[index(producer)];
      if (op.kind == Kind::constant || runs_functions(op.kind)) return false;
      if (!views.view[index(producer)]) return claimed.insert(value).second;
      value = op.operands[0];
    }
  }
};

}  // namespace

ValueId Views::source(const GraphFunction& function, const Uses& uses, ValueId value) const {
  while (true) {
    const int producer = uses.producer[static_cast<std::size_t>(value)];
    if (producer < 0 || !view[static_cast<std::size_t>(producer)]) return value;
    value = function.ops[static_cast<std::size_t>(producer)].operands[0];
  }
}

namespace {

/// Whether every part of a concat is whole layout tiles of its result, along its two minor axes: of others each maker
/// would move whole tiles, where one kernel behind them knows all parts.
bool whole_layout_tiles(const GraphFunction& function, const Op& concat, const Share& machine) {
  const std::size_t rank = function.value(concat.results[0]).type.shape.size();
  const std::size_t dim = index(concat.attributes.integer("dim"));
  const Shape& tile = machine.layout.tile;
  if (tile.size() != 2 || rank < 2 || dim + 2 < rank) return true;
  return std::ranges::all_of(concat.operands, [&](ValueId part) {
    return function.value(part).type.shape[dim] % tile[dim + 1 == rank ? 1 : 0] == 0;
  });
}

/// Whether the maker of a concat's operand may store it in the concat's result: it has a kernel that computes, and
/// every reader takes a part of a tensor.
bool may_join(const GraphFunction& function, const Uses& uses, const Views& views, const std::vector<bool>& needs_own,
              const Op& concat, ValueId x) {
  const int producer = uses.producer[index(x)];
  if (producer < 0 || uses.is_output[index(x)] || needs_own[index(x)] || views.joined[index(x)] >= 0) return false;
  const Op& maker = function.ops[index(producer)];
  if (!is_vector_kind(maker.kind) && maker.kind != Kind::contract && maker.kind != Kind::convolution) return false;
  if (std::count(concat.operands.begin(), concat.operands.end(), x) != 1) return false;
  return std::ranges::all_of(uses.consumers[index(x)], [&](int reader) {
    const Op& op = function.ops[index(reader)];
    return &op == &concat || op.kind == Kind::slice || !(info(op.kind).movement || runs_functions(op.kind));
  });
}

}  // namespace

Views find_views(const GraphFunction& function, const Uses& uses, bool is_main, const Share* join) {
  Views views{std::vector<bool>(function.ops.size(), false), std::vector<bool>(function.ops.size(), false),
              std::vector<bool>(function.values.size(), true), std::vector<int>(function.values.size(), -1)};
  Owners owners;
  const std::vector<bool> needs_own = needing_own_tensors(function);
  // Only calls know in which tensors these lie: no name may be an alias of them.
  const auto formal = [&](ValueId value) {
    return !is_main && (uses.producer[index(value)] < 0 || uses.is_output[index(value)]);
  };
  for (std::size_t i = 0; i < function.ops.size(); ++i) {
    const Op& op = function.ops[i];
    if (!info(op.kind).movement || op.operands.empty()) continue;
    const ValueId x = op.operands[0], y = op.results[0];
    const bool output = uses.is_output[index(y)];
    const int producer = uses.producer[index(x)];
    const bool computed = producer >= 0 && !views.view[index(producer)] &&
                          function.ops[index(producer)].kind != Kind::constant &&
                          !runs_functions(function.ops[index(producer)].kind);
    const Shape& from = function.value(x).type.shape;
    const Shape& to = function.value(y).type.shape;
    const bool renames =
        views.identity[index(x)] && !formal(x) && (!output || (is_main && owners.own_bytes(function, uses, views, x)));
    switch (op.kind) {
      case Kind::reshape:
        if (renames)
          views.view[i] = true;
        else if (!output && !needs_own[index(y)] && split_access(from, to))
          views.view[i] = true, views.identity[index(y)] = false;
        break;
      case Kind::bitcast:
        views.view[i] = renames && from == to;
        break;
      case Kind::transpose:
        if (computed && uses.consumers[index(x)].size() == 1 && !uses.is_output[index(x)]) {
          views.view[i] = views.transposed_store[i] = true;
          views.identity[index(x)] = false;
        } else if (!output && !read_by_call(function, uses, y)) {
          views.view[i] = true;
          views.identity[index(y)] = false;
        }
        break;
      case Kind::slice:
      case Kind::broadcast:
      case Kind::copy:
        if (output || (op.kind == Kind::copy && op.attributes.flag("layout"))) break;
        if (op.kind == Kind::copy ? read_by_call(function, uses, y) : needs_own[index(y)]) break;
        views.view[i] = true;
        views.identity[index(y)] = op.kind == Kind::copy && views.identity[index(x)];
        break;
      case Kind::concat:
        for (ValueId part : op.operands)
          if (join && whole_layout_tiles(function, op, *join) && may_join(function, uses, views, needs_own, op, part)) {
            views.joined[index(part)] = static_cast<int>(i);
            views.identity[index(part)] = false;
          }
        break;
      default:
        break;
    }
  }
  return views;
}

namespace {

/// Access of the operand of a view by the axes of its result.
std::vector<AxisAccess> view_access(const GraphFunction& function, const Op& op) {
  const Shape& from = function.value(op.operands[0]).type.shape;
  const Shape& to = function.value(op.results[0]).type.shape;
  std::vector<AxisAccess> axes(from.size());
  const auto single = [](std::int64_t dim, std::int64_t coefficient) {
    AxisAccess axis;
    axis.terms.push_back({static_cast<int>(dim), coefficient});
    return axis;
  };
  if (op.kind == Kind::reshape) return *split_access(from, to);
  if (op.kind == Kind::transpose) {
    const auto& permutation = op.attributes.integers("permutation");
    for (std::size_t i = 0; i < permutation.size(); ++i)
      axes[index(permutation[i])] = single(static_cast<std::int64_t>(i), 1);
  } else if (op.kind == Kind::slice) {
    const auto& start = op.attributes.integers("start");
    const std::vector<std::int64_t> stride =
        op.attributes.integers("stride", std::vector<std::int64_t>(from.size(), 1));
    for (std::size_t i = 0; i < from.size(); ++i) {
      axes[i] = single(static_cast<std::int64_t>(i), stride[i]);
      axes[i].constant = start[i];
    }
  } else if (op.kind == Kind::broadcast) {
    const auto& dims = op.attributes.integers("dims");
    for (std::size_t i = 0; i < from.size(); ++i)
      if (from[i] > 1) axes[i] = single(dims[i], 1);
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) axes[i] = single(static_cast<std::int64_t>(i), 1);
  }
  return axes;
}

/// Placement of a view: the operand's placement with its axes replaced by their access.
Placement compose(const Placement& operand, const std::vector<AxisAccess>& access) {
  Placement result = operand;
  result.identity = false;
  for (AxisAccess& axis : result.axes) {
    AxisAccess composed;
    composed.constant = axis.constant;
    for (const AxisAccess::Term& term : axis.terms) {
      const AxisAccess& inner = access[index(term.dim)];
      composed.constant += term.coefficient * inner.constant;
      for (const AxisAccess::Term& part : inner.terms)
        composed.terms.push_back({part.dim, term.coefficient * part.coefficient});
    }
    axis = std::move(composed);
  }
  return result;
}

class Placer {
 public:
  Placer(Context& context, bool narrow, const Uses& uses, const Views& views, const std::string& prefix,
         const std::map<ValueId, std::string>& boundary)
      : context_(context),
        function_(context.function),
        narrow_(narrow),
        uses_(uses),
        views_(views),
        prefix_(prefix),
        boundary_(boundary) {
    context_.placements.assign(function_.values.size(), {});
  }

  void run(const std::vector<Kernel>& kernels) {
    for (ValueId input : function_.inputs) place_identity(input, context_.value(input).type.dtype);
    for (const Op& op : function_.ops)
      if (op.kind == Kind::constant && !context_.scalars.count(op.results[0])) place_weight(op);
    for (const Kernel& kernel : kernels)
      for (ValueId output : kernel.outputs) place_output(output);
    for (std::size_t i = 0; i < function_.ops.size(); ++i)
      if (views_.view[i] && !views_.transposed_store[i]) place_view(function_.ops[i]);
  }

 private:
  Placement& at(ValueId value) { return context_.placements[index(value)]; }

  void place_identity(ValueId value, DType dtype) {
    const TensorType& type = context_.value(value).type;
    const auto named = boundary_.find(value);
    const bool given = named != boundary_.end();
    const std::string name = given ? named->second : prefix_ + context_.value(value).name;
    place_dense(value, name, dtype);
    if (!given) declare(name, dtype, type.shape, program::Role::temporary, updated(value));
  }

  /// The tensor in whose bytes a value lies; empty: it has its own.
  std::string updated(ValueId value) {
    const int producer = uses_.producer[index(value)];
    const ValueId old = producer < 0 ? no_value : old_value(function_.ops[index(producer)], value);
    return old == no_value ? std::string() : at(old).tensor;
  }

  void place_dense(ValueId value, const std::string& tensor, DType dtype) {
    const TensorType& type = context_.value(value).type;
    Placement placement;
    placement.tensor = tensor;
    placement.tensor_shape = type.shape;
    placement.dtype = dtype;
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      AxisAccess access;
      access.terms.push_back({static_cast<int>(axis), 1});
      placement.axes.push_back(access);
    }
    at(value) = std::move(placement);
  }

  void declare(const std::string& name, DType dtype, const Shape& shape, program::Role role, const std::string& alias) {
    if (find_tensor(context_, name)) return;
    program::Tensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    for (std::int64_t extent : shape) tensor.shape.push_back(Expr(extent));
    tensor.role = role;
    tensor.alias_of = alias;
    context_.program.tensors.push_back(std::move(tensor));
  }

  void place_weight(const Op& op) {
    const ValueId value = op.results[0];
    const TensorType& type = context_.value(value).type;
    if (boundary_.count(value)) return place_identity(value, type.dtype);
    const std::string& reference = op.attributes.text("reference");
    place_dense(value, reference, type.dtype);
    if (!find_tensor(context_, reference)) {
      declare(reference, type.dtype, type.shape, program::Role::weight, {});
      context_.program.tensors.back().weight = reference;
    }
  }

  /// The store type: narrower where every reader is a product that rounds to it anyway.
  DType stored_dtype(ValueId value) const {
    const DType dtype = context_.value(value).type.dtype;
    const auto narrow = context_.machine.core.array.numerics.multiply;
    if (has_raw_moves(value)) return dtype;
    if (!narrow_ || dtype != DType::f32 || !narrow || uses_.is_output[index(value)]) return dtype;
    return only_products_read(value) ? *narrow : dtype;
  }

  /// Whether the producer's transfers go straight from its operand's bytes, or a function stores it: there is no place
  /// to convert.
  bool has_raw_moves(ValueId value) const {
    const int producer = uses_.producer[index(value)];
    if (producer < 0) return false;
    const Kind kind = function_.ops[index(producer)].kind;
    return kind == Kind::gather || kind == Kind::embedding || kind == Kind::dynamic_slice ||
           kind == Kind::dynamic_update || kind == Kind::bitcast || runs_functions(kind) || kind == Kind::sort ||
           kind == Kind::scatter || kind == Kind::top_k;
  }

  bool only_products_read(ValueId value) const {
    std::vector<ValueId> pending{value};  // and its views
    while (!pending.empty()) {
      const ValueId next = pending.back();
      pending.pop_back();
      if (uses_.consumers[index(next)].empty() || uses_.is_output[index(next)]) return false;
      for (int reader : uses_.consumers[index(next)]) {
        const Op& op = function_.ops[index(reader)];
        if (views_.view[index(reader)])
          pending.push_back(op.results[0]);
        else if (op.kind != Kind::contract || is_exact(op) ||
                 std::find(op.operands.begin() + 2, op.operands.end(), next) != op.operands.end())
          return false;
      }
    }
    return true;
  }

  void place_output(ValueId value) {
    const DType dtype = stored_dtype(value);
    if (views_.joined[index(value)] >= 0) return place_part(value, function_.ops[index(views_.joined[index(value)])]);
    for (int reader : uses_.consumers[index(value)]) {
      if (!views_.transposed_store[index(reader)]) continue;
      const Op& transpose = function_.ops[index(reader)];
      place_identity(transpose.results[0], dtype);
      at(value) = at(transpose.results[0]);
      at(value).identity = false;
      const auto& permutation = transpose.attributes.integers("permutation");
      for (std::size_t i = 0; i < permutation.size(); ++i)
        at(value).axes[i].terms[0].dim = static_cast<int>(permutation[i]);
      return;
    }
    if (!context_.placed(value)) place_identity(value, dtype);
  }

  /// In the bytes of what it is a part of.
  void place_part(ValueId value, const Op& concat) {
    const ValueId whole = concat.results[0];
    if (!context_.placed(whole)) place_output(whole);
    const std::int64_t dim = concat.attributes.integer("dim");
    std::int64_t offset = 0;
    for (auto part = concat.operands.begin(); *part != value; ++part)
      offset += context_.value(*part).type.shape[index(dim)];
    at(value) = at(whole);
    at(value).identity = false;
    for (AxisAccess& axis : at(value).axes)
      for (const AxisAccess::Term& term : axis.terms)
        if (term.dim == dim) axis.constant += term.coefficient * offset;
  }

  void place_view(const Op& op) {
    const ValueId x = op.operands[0], y = op.results[0];
    if (context_.scalars.count(y)) return;
    if (!context_.placed(x)) return;  // lives inside kernels only
    const bool renamed = (op.kind == Kind::reshape || op.kind == Kind::bitcast) && views_.identity[index(y)];
    if (!renamed) {
      at(y) = compose(at(x), view_access(function_, op));
      if (op.kind == Kind::copy) at(y).identity = at(x).identity;
      return;
    }
    const DType dtype = op.kind == Kind::bitcast ? context_.value(y).type.dtype : at(x).dtype;
    const std::string source = at(x).tensor;
    place_identity(y, dtype);
    if (program::Tensor* tensor = find_tensor(context_, at(y).tensor)) tensor->alias_of = source;
  }

  Context& context_;
  const GraphFunction& function_;
  const bool narrow_;
  const Uses& uses_;
  const Views& views_;
  const std::string& prefix_;
  const std::map<ValueId, std::string>& boundary_;
};

}  // namespace

void place_values(Context& context, bool narrow, const std::vector<Kernel>& kernels, const Uses& uses,
                  const Views& views, const std::string& prefix, const std::map<ValueId, std::string>& boundary) {
  Placer(context, narrow, uses, views, prefix, boundary).run(kernels);
}

}  // namespace tilesim::lower
