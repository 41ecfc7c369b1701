// Writes moves between layouts as operations.
#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

constexpr const char* kind_names[] = {"pad",        "cut",     "slice",      "all_gather",
                                      "all_to_all", "permute", "all_reduce", "reduce_scatter"};

}  // namespace

void Body::add_version(ValueId value, Layout layout, ValueId id) {
  Value& local = module_.out.functions[at(builder_.function_index())].values[at(id)];
  if (!local.sharding) local.sharding = std::make_shared<Sharding>(to_sharding(module_.grid, layout));
  versions_[at(value)].push_back({std::move(layout), id});
}

std::optional<Division> Body::anywhere(ValueId value, const Layout& layout) const {
  const auto found = numbers_.find(value);
  if (found == numbers_.end()) return std::nullopt;
  const Rule& rule = module_.spread.rules[function_][found->second];
  Division division(rule.factors.size());
  read_division(module_.grid, rule, rule.results[0], layout, division);
  if (layout_of(module_.grid, rule, rule.results[0], division) != layout) return std::nullopt;
  return division;
}

double Body::price(ValueId value, const Layout& layout) const {
  if (anywhere(value, layout)) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const Version& version : versions_[at(value)]) {
    if (version.layout == layout) return 0;
    best = std::min(best, wire_bytes(moves(module_.grid, type(value), version.layout, layout)));
  }
  return best;
}

ValueId Body::request(ValueId value, const Layout& layout, const Reason& reason) {
  if (numbers_.contains(value) &&
      std::ranges::none_of(versions_[at(value)], [&](const Version& made) { return made.layout == layout; })) {
    if (const auto division = anywhere(value, layout)) {
      const std::size_t index = numbers_.at(value);
      compute(source().ops[index], module_.spread.rules[function_][index], *division);
    }
  }
  std::vector<Move> best;
  double bytes = std::numeric_limits<double>::infinity();
  ValueId from = no_value;
  for (const Version& version : versions_[at(value)]) {
    if (version.layout == layout) return version.id;
    std::vector<Move> found = moves(module_.grid, type(value), version.layout, layout);
    const double price = wire_bytes(found);
    if (price > bytes || (price == bytes && found.size() >= best.size())) continue;
    best = std::move(found);
    bytes = price;
    from = version.id;
  }
  require(from != no_value, "a value is used before it is computed");
  for (const Move& move : best) {
    from = apply(move, from, value, reason);
    if (move.settled) add_version(value, move.after, from);
  }
  return from;
}

ValueId Body::apply(const Move& move, ValueId x, ValueId value, const Reason& reason) {
  const auto rank = static_cast<std::int64_t>(builder_.type(x).shape.size());
  Attributes attributes;
  if (move.sort == Move::Sort::pad) {
    Integers high(at(rank), 0);
    high[at(move.axis)] = move.extent - builder_.type(x).shape[at(move.axis)];
    attributes.set("low", Integers(at(rank), 0));
    attributes.set("high", high);
    return builder_.op(Kind::pad, {x}, std::move(attributes), stem(value) + ".pad")[0];
  }
  if (move.sort == Move::Sort::cut) {
    Integers limit = builder_.type(x).shape;
    limit[at(move.axis)] = move.extent;
    attributes.set("start", Integers(at(rank), 0));
    attributes.set("limit", limit);
    return builder_.op(Kind::slice, {x}, std::move(attributes), stem(value) + ".cut")[0];
  }
  if (move.sort == Move::Sort::slice) return sliced(x, at(move.axis), move.atoms);
  return collective(move, x, value, reason);
}

ValueId Body::collective(const Move& move, ValueId x, ValueId value, const Reason& reason) {
  const Grid& grid = module_.grid;
  Attributes attributes;
  attributes.set("partitions", true);
  Kind kind = Kind::permute_devices;
  if (move.sort == Move::Sort::permute) {
    attributes.set("pairs", permute_pairs(grid, move.before, move.after));
  } else {
    attributes.set("groups", grid.groups(move.atoms));
    attributes.set("group_size", grid.parts(move.atoms));
  }
  const std::int64_t axis = move.axis;
  switch (move.sort) {
    case Move::Sort::all_gather:
      kind = Kind::all_gather;
      attributes.set("dim", axis);
      break;
    case Move::Sort::all_to_all:
      kind = Kind::all_to_all;
      attributes.set("split_dim", axis);
      attributes.set("concat_dim", static_cast<std::int64_t>(move.from_axis));
      break;
    case Move::Sort::all_reduce:
    case Move::Sort::reduce_scatter:
      kind = move.sort == Move::Sort::all_reduce ? Kind::all_reduce : Kind::reduce_scatter;
      attributes.set("combiner", move.before.combiner);
      if (kind == Kind::reduce_scatter) attributes.set("dim", axis);
      break;
    default:
      break;
  }
  const std::string name = stem(value) + "." + kind_names[static_cast<std::size_t>(move.sort)];
  const ValueId result = builder_.op(kind, {x}, std::move(attributes), name)[0];
  const GraphFunction& local = module_.out.functions[at(builder_.function_index())];
  module_.inserted.push_back({local.name, local.ops.back().name, std::string(info(kind).name), stem(value),
                              reason.consumer, reason.text,
                              move.sort == Move::Sort::permute ? grid.devices() : grid.parts(move.atoms), move.bytes});
  return result;
}

ValueId Body::number(double value, DType dtype) { return builder_.scalar(value, dtype); }

ValueId Body::binary(Function function, ValueId a, ValueId b) { return builder_.elementwise(function, {a, b}); }

ValueId Body::shard_index(const Atoms& atoms, std::int64_t scale) {
  const auto [found, fresh] = indices_.try_emplace({atoms, scale}, no_value);
  if (!fresh) return found->second;
  if (device_ == no_value) {
    Attributes attributes;
    attributes.set("axis", std::string("partition"));
    device_ = builder_.op(Kind::device_index, {}, std::move(attributes))[0];
  }
  Weight table;
  table.type = {DType::i64, {module_.grid.devices()}};
  table.source = Weight::Source::data;
  table.trainable = false;
  table.data = Array(DType::i64, table.type.shape);
  const Integers of = module_.grid.index_of_devices(atoms);
  for (std::size_t i = 0; i < of.size(); ++i) table.data.as<std::int64_t>()[i] = of[i] * scale;
  std::string name = "part";
  for (const AxisPart& part : module_.grid.axis_parts(atoms))
    name +=
        "." + part.axis + (part.size > 0 ? "(" + std::to_string(part.before) + ")" + std::to_string(part.size) : "");
  if (scale != 1) name += "*" + std::to_string(scale);
  const ValueId all = builder_.weight(name, std::move(table));
  Attributes attributes;
  attributes.set("sizes", Integers{1});
  const ValueId own = builder_.op(Kind::dynamic_slice, {all, device_}, std::move(attributes), name + ".own")[0];
  return found->second = builder_.reshape(own, {});
}

ValueId Body::sliced(ValueId x, std::size_t axis, const Atoms& atoms) {
  Integers sizes = builder_.type(x).shape;
  sizes[axis] /= module_.grid.parts(atoms);
  std::vector<ValueId> operands{x};
  const ValueId zero = sizes.size() > 1 ? number(0, DType::i64) : no_value;
  for (std::size_t i = 0; i < sizes.size(); ++i) operands.push_back(i == axis ? shard_index(atoms, sizes[axis]) : zero);
  Attributes attributes;
  attributes.set("sizes", sizes);
  return builder_.op(Kind::dynamic_slice, std::move(operands), std::move(attributes))[0];
}

ValueId Body::masked(ValueId x, std::size_t axis, const Atoms& atoms, std::int64_t extent, double neutral) {
  const TensorType local = builder_.type(x);
  Shape shape(local.shape.size(), 1);
  shape[axis] = local.shape[axis];
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dtype", DType::i64);
  attributes.set("dim", static_cast<std::int64_t>(axis));
  const ValueId place = builder_.op(Kind::iota, {}, std::move(attributes))[0];
  const ValueId global = binary(Function::add, place, shard_index(atoms, local.shape[axis]));
  const ValueId inside = binary(Function::less, global, number(static_cast<double>(extent), DType::i64));
  return builder_.elementwise(Function::select, {inside, x, number(neutral, local.dtype)});
}

ValueId Body::once(ValueId x, const Atoms& atoms, double neutral) {
  const ValueId first = binary(Function::equal, shard_index(atoms, 1), number(0, DType::i64));
  return builder_.elementwise(Function::select, {first, x, number(neutral, builder_.type(x).dtype)});
}

}  // namespace tilesim::partitioning
