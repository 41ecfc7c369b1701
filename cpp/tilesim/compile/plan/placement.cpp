#include "tilesim/compile/plan/placement.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Access to a view's operand by the axes of its result.
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
  } else if (op.kind == Kind::pad) {
    const auto& low = op.attributes.integers("low");
    for (std::size_t i = 0; i < from.size(); ++i) {
      axes[i] = single(static_cast<std::int64_t>(i), 1);
      axes[i].constant = -low[i];
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

/// Placement of a view: composes the operand's placement with the view's access.
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

  /// The tensor whose bytes the value reuses in place; empty: none.
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

  /// The stored type: the array's operand type if only products, which round to it, read the value.
  DType stored_dtype(ValueId value) const {
    const DType dtype = context_.value(value).type.dtype;
    const auto narrow = context_.machine.core.array.numerics.multiply;
    if (has_raw_moves(value)) return dtype;
    if (!narrow_ || dtype != DType::f32 || !narrow || uses_.is_output[index(value)]) return dtype;
    return only_products_read(value) ? *narrow : dtype;
  }

  /// Whether the value's producer is a function or only moves bytes, so that nothing converts the type.
  bool has_raw_moves(ValueId value) const {
    const int producer = uses_.producer[index(value)];
    if (producer < 0) return false;
    const Kind kind = function_.ops[index(producer)].kind;
    if (kind == Kind::copy && function_.ops[index(producer)].attributes.find("layout")) return true;
    return kind == Kind::gather || kind == Kind::embedding || kind == Kind::dynamic_slice ||
           kind == Kind::dynamic_update || kind == Kind::bitcast || runs_functions(kind) || kind == Kind::sort ||
           kind == Kind::scatter || kind == Kind::top_k || kind == Kind::opaque;
  }

  bool only_products_read(ValueId value) const {
    std::vector<ValueId> pending{value};  // the value and its views
    while (!pending.empty()) {
      const ValueId next = pending.back();
      pending.pop_back();
      if (uses_.consumers[index(next)].empty() || uses_.is_output[index(next)]) return false;
      for (int reader : uses_.consumers[index(next)]) {
        const Op& op = function_.ops[index(reader)];
        if (views_.view[index(reader)])
          pending.push_back(op.results[0]);
        else if ((op.kind != Kind::contract && op.kind != Kind::convolution) || is_exact(op) ||
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

  /// Places a value in its part of the concat's result.
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

  /// Adds the slice's dynamic starts to its placement, along the axes of its operand's tensor.
  void move(const Op& slice, const Placement& from, Placement& to) const {
    const Shape &whole = function_.value(slice.operands[0]).type.shape,
                &part = function_.value(slice.results[0]).type.shape;
    to.moved.resize(to.axes.size(), Expr(0));
    for (std::size_t axis = 0; axis < from.axes.size(); ++axis)
      for (const AxisAccess::Term& term : from.axes[axis].terms) {
        const std::size_t dim = index(term.dim);
        to.moved[axis] =
            to.moved[axis] +
            *counted_start(context_, slice, slice.operands[1 + dim], whole[dim] - part[dim]) * Expr(term.coefficient);
      }
  }

  void place_view(const Op& op) {
    const ValueId x = op.operands[0], y = op.results[0];
    if (context_.scalars.count(y)) return;
    if (!context_.placed(x)) return;  // the value exists inside kernels only
    const bool renamed = (op.kind == Kind::reshape || op.kind == Kind::bitcast) && views_.identity[index(y)];
    if (!renamed) {
      at(y) = compose(at(x), view_access(function_, op));
      if (op.kind == Kind::dynamic_slice) move(op, at(x), at(y));
      if (op.kind == Kind::pad) at(y).fill = padding_value(context_, op);
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
