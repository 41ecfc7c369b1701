// Executes vector computes by their kernels: copies operands to register order and results back.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/kernel/vector_apart.hpp"
#include "tilesim/isa/latency/executor.hpp"
#include "tilesim/isa/latency/narrower.hpp"

namespace tilesim::isa {

namespace {

using Form = RegisterForm;

/// The dim on the lanes.
int lane_dim(const VectorCompute& compute) {
  return compute.lane >= 0 ? compute.lane : static_cast<int>(compute.extents.size()) - 1;
}

/// Calls `visit(index, position, count)` for all points of the iteration space, in runs of `count` points along the
/// lanes of one register.
template <class Visit>
void each_run(const VectorCompute& compute, const Form& form, Visit visit) {
  const std::vector<std::int64_t>& extents = compute.extents;
  std::vector<std::int64_t> index(extents.size(), 0);
  if (extents.empty()) return visit(index, form.place(index), std::int64_t{1});
  const auto lane = static_cast<std::size_t>(lane_dim(compute));
  while (true) {
    for (index[lane] = 0; index[lane] < extents[lane];) {
      const Form::ElementPosition at = form.place(index);
      const std::int64_t count = std::min(form.lanes - at.lane, extents[lane] - index[lane]);
      visit(index, at, count);
      index[lane] += count;
    }
    index[lane] = 0;
    std::size_t axis = extents.size();
    while (true) {
      if (axis-- == 0) return;
      if (axis == lane) continue;
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

/// Copies `count` elements of `bytes` bytes; steps are in elements.
void copy_run(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::int64_t count,
              std::int64_t bytes) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * bytes));
    return;
  }
  const auto each = [&](auto element) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(&element, from + i * from_step * bytes, sizeof(element));
      std::memcpy(to + i * to_step * bytes, &element, sizeof(element));
    }
  };
  if (bytes == 4) return each(std::uint32_t{});
  if (bytes == 2) return each(std::uint16_t{});
  if (bytes == 1) return each(std::uint8_t{});
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_step * bytes, from + i * from_step * bytes, static_cast<std::size_t>(bytes));
}

/// Stride of a view along the lanes.
std::int64_t lane_stride(const VectorCompute& compute, const TileView& view) {
  return view.dims.empty() ? 0 : view.dims[static_cast<std::size_t>(lane_dim(compute))].stride;
}

/// Distance in a register of adjacent elements along the lanes.
std::int64_t slot_step(Form::Reach reach) { return reach == Form::Reach::by_row ? 0 : 1; }

std::int64_t offset_in(const TileView& view, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * view.dims[i].stride;
  return offset;
}

std::int64_t slots_of(const Form& form, Form::Reach reach) {
  const std::int64_t groups = reach == Form::Reach::by_step || reach == Form::Reach::one ? 1 : form.groups * form.side;
  const bool steps = reach == Form::Reach::each || reach == Form::Reach::by_step;
  return groups * (steps ? form.steps : 1) * form.elements();
}

/// Position of a point's operand in its buffer, in elements.
std::int64_t slot_of(const Form& form, Form::Reach reach, const Form::ElementPosition& at) {
  const std::int64_t within = at.row * form.lanes + at.lane;
  switch (reach) {
    case Form::Reach::each:
      return form.order(at) * form.elements() + within;
    case Form::Reach::by_group:
      return (at.group * form.side + at.beside) * form.elements() + within;
    case Form::Reach::by_step:
      return at.step * form.elements() + within;
    case Form::Reach::by_row:
      return (at.group * form.side + at.beside) * form.elements() + at.row * form.lanes;
    case Form::Reach::one:
      break;
  }
  return 0;
}

/// Whether the compute divides or uses a user-defined instruction.
bool asks_for_elements(const InstructionSet& set, const VectorCompute& compute) {
  return std::ranges::any_of(compute.nodes, [&](const VectorNode& node) {
    return node.op == VectorNode::Op::function &&
           (info(node.function).flop_class == FlopClass::divide || set.taken_for(node.function) != nullptr);
  });
}

/// Copies an operand to register order; repeated elements are stored at every position. Positions without elements are
/// 0, or with `filled` the first element: kernels and definitions may reject other values.
std::vector<std::byte> laid_out(const VectorCompute& compute, const Form& form, const TileView& view, Form::Reach reach,
                                bool filled) {
  const std::int64_t bytes = host_bytes(view.dtype), stride = lane_stride(compute, view), step = slot_step(reach);
  std::vector<std::byte> to(static_cast<std::size_t>(slots_of(form, reach) * bytes));
  if (reach == Form::Reach::one || filled) copy_run(to.data(), 1, view.data, 0, slots_of(form, reach), bytes);
  if (reach == Form::Reach::one) return to;
  each_run(compute, form, [&](const auto& index, const Form::ElementPosition& at, std::int64_t count) {
    copy_run(to.data() + slot_of(form, reach, at) * bytes, step, view.data + offset_in(view, index) * bytes, stride,
             count, bytes);
  });
  return to;
}

Form::Reach reach_of(const VectorOutput& output) {
  return output.reduce.empty() ? Form::Reach::each : Form::Reach::by_group;
}

/// The index along the node's dim at each position.
std::vector<std::int32_t> counted(const VectorCompute& compute, const Form& form, const VectorNode& node) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(slots_of(form, Form::Reach::each)));
  each_run(compute, form, [&](const auto& index, const Form::ElementPosition& where, std::int64_t count) {
    std::int32_t* to = &counts[static_cast<std::size_t>(slot_of(form, Form::Reach::each, where))];
    const std::int64_t step = node.index == lane_dim(compute) ? 1 : 0,
                       first = index[static_cast<std::size_t>(node.index)];
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int32_t>(first + i * step);
  });
  return counts;
}

/// One bit per position: whether it has an element. Starts at the first step in which some position has none.
std::vector<std::uint8_t> bits_of_places(const VectorCompute& compute, const Form& form) {
  std::vector<std::uint8_t> valid(static_cast<std::size_t>(ceil_div(slots_of(form, Form::Reach::each), 8)));
  // without running sums all groups are equal
  const Form::Reach by = form.scanned() ? Form::Reach::each : Form::Reach::by_step;
  each_run(compute, form, [&](const auto&, Form::ElementPosition where, std::int64_t count) {
    if (where.step < form.ragged_from) return;
    where.step -= form.ragged_from;
    const std::int64_t first = slot_of(form, by, where);
    for (std::int64_t slot = first; slot < first + count; ++slot)
      valid[static_cast<std::size_t>(slot / 8)] |= static_cast<std::uint8_t>(1U << (slot % 8));
  });
  return valid;
}

/// One bit per lane of a register: whether it has an element, if rows of lanes end early.
std::vector<std::uint8_t> bits_of_lanes(const Form& form) {
  std::vector<std::uint8_t> there(static_cast<std::size_t>(ceil_div(form.elements(), 8)));
  for (std::int64_t i = 0; i < form.elements(); ++i)
    if (i % form.lanes < form.width) there[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
  return there;
}

/// Copies results back to their views.
void give_back(const VectorCompute& compute, const Form& form, const VectorOutput& output,
               const std::vector<std::byte>& results) {
  const std::int64_t bytes = host_bytes(output.view.dtype), stride = lane_stride(compute, output.view);
  const bool of_one_lane = std::ranges::count(output.reduce, lane_dim(compute)) != 0;
  each_run(compute, form, [&](const auto& index, const Form::ElementPosition& where, std::int64_t count) {
    for (const int dim : output.reduce)
      if (index[static_cast<std::size_t>(dim)] != 0) return;
    copy_run(output.view.data + offset_in(output.view, index) * bytes, stride,
             results.data() + slot_of(form, reach_of(output), where) * bytes, 1, of_one_lane ? 1 : count, bytes);
  });
}

}  // namespace

Address KernelExecutor::place_bytes(const void* data, std::size_t bytes) {
  const Address here = next_;
  next_ += static_cast<Address>(round_up(std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1), 4096));
  runner_.scratchpad(static_cast<std::int64_t>(next_ - scratchpad_base)).place(here, data, bytes);
  return here;
}

VectorAddresses KernelExecutor::lay_out(const VectorCompute& compute, const RegisterForm& form) {
  VectorAddresses at;
  next_ = scratchpad_base;
  const bool filled = asks_for_elements(*set_, compute);
  const auto place = [&](const auto& all) { return place_bytes(all.data(), all.size() * sizeof(all[0])); };
  for (std::size_t i = 0; i < compute.inputs.size(); ++i)
    at.inputs.push_back(place(laid_out(compute, form, compute.inputs[i], form.reaches[i], filled)));
  for (const VectorNode& node : compute.nodes)
    if (node.op == VectorNode::Op::iota) at.counts.push_back(place(counted(compute, form, node)));
  at.valid = place(bits_of_places(compute, form));
  at.lanes_there = place(bits_of_lanes(form));
  for (const VectorOutput& output : compute.outputs) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(slots_of(form, reach_of(output))) *
                                 static_cast<std::size_t>(host_bytes(output.view.dtype)));
    if (output.accumulate) bytes = laid_out(compute, form, output.view, reach_of(output), filled);
    at.outputs.push_back(place(bytes));
  }
  return at;
}

/// Collects the results of all parts; false: an operand is invalid.
bool KernelExecutor::collect(const VectorCompute& compute, std::vector<VectorResults>& results) {
  VectorParts& parts = parts_of(compute);
  for (const std::vector<std::size_t>& outputs : parts.outputs)
    if (!collect(with_outputs(compute, outputs), results)) return false;
  if (!parts.outputs.empty()) return true;
  // all shapes are equivalent; they are used in turn
  PlacedVector& shape = parts.shapes[static_cast<std::size_t>(by_kernel_) % parts.shapes.size()];
  if (!shape.inexact.empty()) throw Unsupported({shape.inexact, {}, {}, {}, {}});
  const VectorAddresses at = lay_out(compute, shape.form);
  if (shape.code == 0) shape.code = placed(kernels_of(compute, at, shape.core)[shape.kernel].kernel);
  if (!runner_.run(shape.code)) return false;
  VectorResults found{compute, shape.form, {}};
  for (std::size_t o = 0; o < compute.outputs.size(); ++o) {
    const VectorOutput& output = compute.outputs[o];
    found.bytes.emplace_back(
        static_cast<std::size_t>(slots_of(shape.form, reach_of(output)) * host_bytes(output.view.dtype)));
    runner_.scratchpad(1).read(at.outputs[o], found.bytes.back().data(), found.bytes.back().size());
  }
  results.push_back(std::move(found));
  return true;
}

/// Reads all operands before it writes any result.
void KernelExecutor::vector(const VectorCompute& compute) {
  for (const std::int64_t extent : compute.extents)
    if (extent <= 0) return execute(compute);
  std::vector<VectorResults> results;
  if (!collect(compute, results)) return execute(compute);  // names the invalid operand
  for (const VectorResults& part : results)
    for (std::size_t o = 0; o < part.bytes.size(); ++o)
      give_back(part.compute, part.form, part.compute.outputs[o], part.bytes[o]);
}

/// All kernels of a compute; the code of each is written at its first use, with the values of scalars.
KernelExecutor::VectorParts& KernelExecutor::parts_of(const VectorCompute& compute) {
  std::vector<std::uint64_t> key{signature_of(compute)};
  for (const VectorNode& node : compute.nodes)
    if (node.op == VectorNode::Op::scalar) key.push_back(std::bit_cast<std::uint64_t>(node.number));
  VectorParts& parts = vectors_[key];
  if (!parts.shapes.empty() || !parts.outputs.empty()) return parts;
  // sizes depend on the form only, so any addresses will do
  VectorAddresses at;
  at.inputs.resize(compute.inputs.size()), at.outputs.resize(compute.outputs.size());
  at.counts.resize(compute.nodes.size());
  try {
    const std::size_t cores = narrower_cores(core_, compute, machine_.core.vector.lanes).size();
    for (std::size_t core = 0; core < cores; ++core) {
      std::size_t kernel = 0;
      for (VectorKernel& made : kernels_of(compute, at, core))
        parts.shapes.push_back({std::move(made.form), std::move(made.inexact), core, kernel++, 0});
    }
  } catch (const Unsupported&) {
    parts.shapes.clear();
    parts.outputs = groups_of_outputs(compute);
    if (parts.outputs.size() < 2) parts.outputs.clear();
    if (parts.outputs.empty()) throw;
  }
  return parts;
}

std::vector<VectorKernel> KernelExecutor::kernels_of(const VectorCompute& compute, const VectorAddresses& at,
                                                     std::size_t core) const {
  const std::int64_t lanes = machine_.core.vector.lanes;
  return kernels_of_core(*set_, narrower_cores(core_, compute, lanes), core, compute, lanes, at);
}

}  // namespace tilesim::isa
