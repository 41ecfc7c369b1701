#include "tilesim/compile/groups/price.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

GroupPrice::GroupPrice(const Context& context, const Uses& uses) : context_(context), uses_(uses) {
  const Share& machine = context.machine;
  bytes_per_cycle_ = std::max(1e-9, static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
                                        static_cast<double>(machine.core.clock.hertz));
}

/// A view that repeats elements moves those that it repeats.
double GroupPrice::bytes(ValueId value) const {
  const TensorType& type = context_.value(value).type;
  auto elements = static_cast<double>(element_count(type.shape));
  while (true) {
    const int producer = uses_.producer[static_cast<std::size_t>(value)];
    if (producer < 0 || !info(op(producer).kind).movement || op(producer).operands.empty()) break;
    value = op(producer).operands[0];
    if (value == no_value) break;
    elements = std::min(elements, static_cast<double>(element_count(context_.value(value).type.shape)));
  }
  return elements * static_cast<double>(bits(type.dtype)) / 8;
}

double GroupPrice::flops(int i) const { return tilesim::flops(context_.graph, context_.function, op(i)).total(); }

double GroupPrice::vector_cycles(int i) const {
  const Flops work = tilesim::flops(context_.graph, context_.function, op(i));
  const VectorSpec& unit = context_.machine.core.vector;
  const double registers = work.simple * unit.simple + work.multiply * unit.multiply + work.divide * unit.divide +
                           work.transcendental * unit.transcendental;
  return registers / static_cast<double>(std::max<std::int64_t>(1, unit.lanes * unit.sublanes * unit.issue));
}

double GroupPrice::array_cycles(int i) const {
  const ArraySpec& array = context_.machine.core.array;
  const double work = tilesim::flops(context_.graph, context_.function, op(i)).matrix / 2;
  const auto rate = array.rates.find(context_.value(op(i).operands[0]).type.dtype);
  const double each = static_cast<double>(array.rows * array.columns * array.count) *
                      (rate == array.rates.end() || rate->second <= 0 ? 1.0 : rate->second);
  return each > 0 ? work / each : 0;
}

double GroupPrice::bytes_of(const std::set<int>& members) const {
  std::set<ValueId> read;
  double total = 0;
  for (int i : members) {
    for (ValueId value : op(i).operands) {
      if (value == no_value || context_.scalars.count(value) || context_.counters.count(value)) continue;
      const int producer = uses_.producer[static_cast<std::size_t>(value)];
      const bool known = producer >= 0 && (members.count(producer) || op(producer).kind == Kind::iota);
      if (!known && read.insert(value).second) total += bytes(value);
    }
    for (ValueId value : op(i).results) {
      if (value == no_value) continue;
      const std::vector<int>& readers = uses_.consumers[static_cast<std::size_t>(value)];
      if (uses_.is_output[static_cast<std::size_t>(value)] || readers.empty() ||
          std::any_of(readers.begin(), readers.end(), [&](int reader) { return !members.count(reader); }))
        total += bytes(value);
    }
  }
  return total;
}

GroupPrice::Price GroupPrice::of(const std::vector<int>& ops) const {
  const std::set<int> members(ops.begin(), ops.end());
  Price price{bytes_of(members), 0};
  double vector = 0, array = 0;
  for (int i : members) {
    const bool product = op(i).kind == Kind::contract || op(i).kind == Kind::convolution;
    (product ? array : vector) += product ? array_cycles(i) : vector_cycles(i);
  }
  const auto cores = static_cast<double>(std::max<std::int64_t>(1, context_.machine.core.count));
  price.cycles = std::max({memory_cycles(price.bytes), vector / cores, array / cores}) +
                 static_cast<double>(context_.machine.core.kernel_launch_cycles);
  return price;
}

GroupPrice::Price GroupPrice::saved(const std::vector<int>& ops) const {
  Price saved;
  for (int i : ops) saved += of({i});
  saved -= of(ops);
  return saved;
}

}  // namespace tilesim::lower
