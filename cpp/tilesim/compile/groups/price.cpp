#include "tilesim/compile/groups/price.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

GroupPrice::GroupPrice(const Context& context, const Uses& uses) : context_(context), uses_(uses) {
  const Share& machine = context.machine;
  const double streams = static_cast<double>(std::max<std::int64_t>(1, machine.core.count));
  bytes_per_cycle_ = std::max(1e-9, streams * static_cast<double>(machine.memory.bytes_per_second) *
                                        machine.memory.efficiency / static_cast<double>(machine.core.clock.hertz));
  port_bytes_per_cycle_ = std::max(1e-9, std::min(static_cast<double>(machine.network.port_bytes_per_cycle) *
                                                      static_cast<double>(machine.network.clock.hertz) /
                                                      static_cast<double>(machine.core.clock.hertz),
                                                  static_cast<double>(machine.core.dma.bytes_per_cycle)));
}

/// Number of elements after padding the two minor axes to the machine's tiles, in the order of axes with least padding.
double GroupPrice::padded(const Shape& shape) const {
  auto least = static_cast<double>(element_count(shape));
  const Shape& tile = context_.machine.layout.tile;
  if (tile.size() != 2 || shape.size() < 2 || least <= 0) return least;
  const double dense = least;
  least = std::numeric_limits<double>::infinity();
  const auto factor = [](std::int64_t extent, std::int64_t step) {
    return static_cast<double>((extent + step - 1) / step * step) / static_cast<double>(extent);
  };
  for (std::size_t minor = 0; minor < shape.size(); ++minor)
    for (std::size_t second = 0; second < shape.size(); ++second)
      if (second != minor)
        least = std::min(
            least, dense * factor(shape[minor], tile[1]) * (shape[second] == 1 ? 1.0 : factor(shape[second], tile[0])));
  return least;
}

/// A broadcast view counts the bytes of its source.
double GroupPrice::bytes(ValueId value) const {
  const TensorType& type = context_.value(value).type;
  auto elements = padded(type.shape);
  while (true) {
    const int producer = uses_.producer[static_cast<std::size_t>(value)];
    if (producer < 0 || !info(op(producer).kind).movement || op(producer).operands.empty()) break;
    value = op(producer).operands[0];
    if (value == no_value) break;
    elements = std::min(elements, padded(context_.value(value).type.shape));
  }
  return elements * static_cast<double>(bits(type.dtype)) / 8;
}

double GroupPrice::flops(int i) const { return tilesim::flops(context_.graph, context_.function, op(i)).total(); }

/// Ratio of the lanes in the registers that a space fills to its elements, with the best axis on the lanes; partly
/// filled registers count as full.
double GroupPrice::lane_padding(const Shape& space) const {
  const VectorSpec& unit = context_.machine.core.vector;
  const auto elements = static_cast<double>(element_count(space)), lanes = static_cast<double>(unit.lanes),
             sublanes = static_cast<double>(unit.sublanes);
  if (elements <= 0 || lanes * sublanes <= 0) return 1;
  double least = space.empty() ? 1 : std::numeric_limits<double>::infinity();
  for (const std::int64_t extent : space) {
    const auto own = static_cast<double>(extent);
    least = std::min(least, std::ceil(elements / own * std::ceil(own / lanes) / sublanes));
  }
  return std::max(1.0, least * lanes * sublanes / elements);
}

/// Cycles of one lane for the operation on all its elements.
double GroupPrice::functions_of(int i) const {
  const Flops work = tilesim::flops(context_.graph, context_.function, op(i));
  const VectorSpec& unit = context_.machine.core.vector;
  return work.simple * unit.simple + work.multiply * unit.multiply + work.divide * unit.divide +
         work.transcendental * unit.transcendental;
}

/// The shape with the most elements among the result and the operands.
const Shape& GroupPrice::space_of(int i) const {
  const Shape* space = &context_.value(op(i).results[0]).type.shape;
  for (ValueId operand : op(i).operands)
    if (operand != no_value && element_count(context_.value(operand).type.shape) > element_count(*space))
      space = &context_.value(operand).type.shape;
  return *space;
}

double GroupPrice::vector_cycles(int i) const {
  const VectorSpec& unit = context_.machine.core.vector;
  return functions_of(i) * lane_padding(space_of(i)) /
         static_cast<double>(std::max<std::int64_t>(1, unit.lanes * unit.sublanes * unit.issue));
}

/// Cycles of one lane for a kernel that reduces rows. Each reduction, and all stored whole rows together, is one
/// compute over the whole tile. It starts from the loaded values and the reductions' results, and computes per-row
/// values for every element.
double GroupPrice::row_functions(const std::vector<int>& ops, const Shape& space) const {
  const std::set<int> members(ops.begin(), ops.end());
  const auto elements = static_cast<double>(element_count(space));
  double functions = 0;
  const auto compute = [&](std::vector<int> pending) {
    std::set<int> seen;
    while (!pending.empty()) {
      const int i = pending.back();
      pending.pop_back();
      if (!seen.insert(i).second) continue;
      functions += functions_of(i) * elements / std::max(1.0, static_cast<double>(element_count(space_of(i))));
      for (ValueId operand : op(i).operands) {
        const int producer = operand == no_value ? -1 : uses_.producer[static_cast<std::size_t>(operand)];
        if (producer >= 0 && members.count(producer) && op(producer).kind != Kind::reduce) pending.push_back(producer);
      }
    }
  };
  std::vector<int> stored;
  for (int i : ops) {
    const ValueId result = op(i).results[0];
    const std::vector<int>& readers = uses_.consumers[static_cast<std::size_t>(result)];
    const auto outside = [&](int reader) { return !members.count(reader); };
    if (op(i).kind == Kind::reduce)
      compute({i});
    else if (element_count(context_.value(result).type.shape) == element_count(space) &&
             (uses_.is_output[static_cast<std::size_t>(result)] || std::ranges::any_of(readers, outside)))
      stored.push_back(i);
  }
  compute(std::move(stored));
  return functions;
}

/// Splits whole rows over the cores; rows adjacent in memory stay together in groups of a burst.
GroupPrice::Rows GroupPrice::divided_rows(const std::vector<int>& ops) const {
  const Share& machine = context_.machine;
  const VectorSpec& unit = machine.core.vector;
  const Shape* space = &space_of(ops.front());
  const Op* reduce = nullptr;
  for (int i : ops) {
    if (element_count(space_of(i)) > element_count(*space)) space = &space_of(i);
    if (op(i).kind == Kind::reduce) reduce = &op(i);
  }
  const auto all = static_cast<double>(std::max<std::int64_t>(1, machine.core.count));
  Rows result{all, 0, false};
  if (reduce) {
    const TensorType& type = context_.value(reduce->operands[0]).type;
    const std::vector<std::int64_t>& dims = reduce->attributes.integers("dims");
    double rows = 1;
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      if (std::ranges::count(dims, static_cast<std::int64_t>(axis))) continue;
      auto own = static_cast<double>(type.shape[axis]);
      if (axis + 1 == type.shape.size())
        own = std::ceil(own * static_cast<double>(bits(type.dtype)) / 8 /
                        static_cast<double>(std::max<std::int64_t>(1, machine.memory.burst_bytes)));
      rows *= own;
    }
    result.cores = std::clamp(rows, 1.0, all);
    result.one_each = rows < 2 * result.cores;
  }
  result.computing = row_functions(ops, *space) * lane_padding(*space) /
                     static_cast<double>(std::max<std::int64_t>(1, unit.lanes * unit.sublanes * unit.issue)) /
                     result.cores;
  return result;
}

GroupPrice::Rows GroupPrice::rows(const std::vector<int>& ops) const {
  const bool reduces = std::ranges::any_of(ops, [&](int i) { return op(i).kind == Kind::reduce; });
  const bool multiplies = std::ranges::any_of(ops, [&](int i) { return is_product(op(i).kind); });
  if (!reduces || multiplies)
    return {static_cast<double>(std::max<std::int64_t>(1, context_.machine.core.count)), computing(ops), false};
  const auto [known, fresh] = rows_.try_emplace(ops);
  if (fresh) known->second = divided_rows(ops);
  return known->second;
}

double GroupPrice::array_cycles(int i) const {
  const ArraySpec& array = context_.machine.core.array;
  const double work = tilesim::flops(context_.graph, context_.function, op(i)).matrix / 2;
  const auto rate = array.rates.find(context_.value(op(i).operands[0]).type.dtype);
  const double each = static_cast<double>(array.rows * array.columns * array.count) *
                      (rate == array.rates.end() || rate->second <= 0 ? 1.0 : rate->second);
  return each > 0 ? work / each : 0;
}

/// Groups operations that share fetches: those that compute one operand of a product use tiles of that operand, those
/// after the products use tiles of the result. A tensor is fetched once per group.
std::vector<std::set<int>> GroupPrice::sides_of(const std::set<int>& members) const {
  std::set<int> products;
  for (int i : members)
    if (is_product(op(i).kind)) products.insert(i);
  if (products.empty()) return {members};
  const auto made_in = [&](ValueId value) {
    const int producer = value == no_value ? -1 : uses_.producer[static_cast<std::size_t>(value)];
    return producer >= 0 && !products.count(producer) && members.count(producer) ? producer : -1;
  };
  const auto gather = [&](std::vector<int> pending) {
    std::set<int> side;
    while (!pending.empty()) {
      const int i = pending.back();
      pending.pop_back();
      if (i < 0 || !side.insert(i).second) continue;
      for (ValueId value : op(i).operands) pending.push_back(made_in(value));
    }
    return side;
  };
  std::vector<std::set<int>> sides;
  std::set<int> before = products;
  std::set<ValueId> seen;  // several products may read the same operand
  for (int product : products) {
    for (ValueId value : op(product).operands) {
      if (seen.count(value)) continue;
      sides.push_back(gather({made_in(value)}));
      before.insert(sides.back().begin(), sides.back().end());
    }
    seen.insert(op(product).operands.begin(), op(product).operands.end());
  }
  std::vector<int> behind;
  std::ranges::set_difference(members, before, std::back_inserter(behind));
  sides.push_back(gather(std::move(behind)));
  sides.push_back(std::move(products));
  return sides;
}

std::vector<GroupPrice::Load> GroupPrice::loads_of(const std::set<int>& members) const {
  std::vector<Load> loads;
  for (const std::set<int>& side : sides_of(members)) {
    std::set<ValueId> read;
    for (int i : side)
      for (ValueId value : op(i).operands) {
        if (value == no_value || context_.scalars.count(value) || context_.counters.count(value)) continue;
        const int producer = uses_.producer[static_cast<std::size_t>(value)];
        const bool known = producer >= 0 && (members.count(producer) || op(producer).kind == Kind::iota);
        if (!known && read.insert(value).second) loads.push_back({value, bytes(value)});
      }
  }
  return loads;
}

double GroupPrice::bytes_of(const std::set<int>& members) const {
  double total = 0;
  for (const Load& load : loads_of(members)) total += load.bytes;
  for (int i : members)
    for (ValueId value : op(i).results) {
      if (value == no_value) continue;
      const std::vector<int>& readers = uses_.consumers[static_cast<std::size_t>(value)];
      if (uses_.is_output[static_cast<std::size_t>(value)] || readers.empty() ||
          std::any_of(readers.begin(), readers.end(), [&](int reader) { return !members.count(reader); }))
        total += bytes(value);
    }
  return total;
}

/// Factor by which a product takes longer because weight tiles are padded to the array: contracted axes along its rows,
/// the other axes of the second operand along its columns.
double GroupPrice::whole_tiles(int i) const {
  if (op(i).kind != Kind::contract) return 1;
  const ArraySpec& array = context_.machine.core.array;
  const Shape& weights = context_.value(op(i).operands[1]).type.shape;
  const std::vector<std::int64_t> summed = op(i).attributes.integers("b_contract", {});
  const std::vector<std::int64_t> batch = op(i).attributes.integers("b_batch", {});
  std::int64_t rows = 1, columns = 1;
  for (std::size_t axis = 0; axis < weights.size(); ++axis) {
    if (std::ranges::count(batch, static_cast<std::int64_t>(axis))) continue;
    (std::ranges::count(summed, static_cast<std::int64_t>(axis)) ? rows : columns) *= weights[axis];
  }
  const auto padding = [](std::int64_t extent, std::int64_t tile) {
    if (extent <= 0 || tile <= 0) return 1.0;
    return static_cast<double>((extent + tile - 1) / tile * tile) / static_cast<double>(extent);
  };
  return padding(rows, array.rows) * padding(columns, array.columns);
}

double GroupPrice::computing(const std::vector<int>& ops) const {
  if (computing_.empty()) computing_.assign(context_.function.ops.size(), -1);
  double vector = 0, array = 0;
  for (int i : ops) {
    const bool product = is_product(op(i).kind);
    double& known = computing_[static_cast<std::size_t>(i)];
    if (known < 0) known = product ? array_cycles(i) * whole_tiles(i) : vector_cycles(i);
    (product ? array : vector) += known;
  }
  return std::max(vector, array) / static_cast<double>(std::max<std::int64_t>(1, context_.machine.core.count));
}

GroupPrice::Price GroupPrice::price_of(const std::vector<int>& ops) const {
  const std::set<int> members(ops.begin(), ops.end());
  Price price{bytes_of(members), 0};
  double vector = 0, array = 0;
  for (int i : members) {
    const bool product = is_product(op(i).kind);
    (product ? array : vector) += product ? array_cycles(i) : vector_cycles(i);
  }
  const auto cores = static_cast<double>(std::max<std::int64_t>(1, context_.machine.core.count));
  price.cycles = std::max({memory_cycles(price.bytes), vector / cores, array / cores}) +
                 static_cast<double>(context_.machine.core.kernel_launch_cycles);
  return price;
}

GroupPrice::Price GroupPrice::saved(const std::vector<int>& ops) const {
  Price saved;
  for (int i : ops) saved += price_of({i});
  saved -= price_of(ops);
  return saved;
}

}  // namespace tilesim::lower
