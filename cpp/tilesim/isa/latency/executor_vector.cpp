// Vector computes by their kernels: operands into registers' order, results back.
#include <algorithm>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/latency/executor.hpp"

namespace tilesim::isa {

namespace {

using Form = RegisterForm;

/// Calls `visit(index)` for all points of the iteration space.
template <class Visit>
void each_point(const std::vector<std::int64_t>& extents, Visit visit) {
  std::vector<std::int64_t> index(extents.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = extents.size();
    while (true) {
      if (axis-- == 0) return;
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

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

/// Where a point's operand stands, in elements.
std::int64_t slot_of(const Form& form, Form::Reach reach, const Form::Place& at) {
  const std::int64_t within = at.row * form.lanes + at.lane;
  switch (reach) {
    case Form::Reach::each:
      return ((at.group * form.steps + at.step) * form.side + at.beside) * form.elements() + within;
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

/// An operand as the kernel reads it; what repeats stands in every place of its registers.
std::vector<std::byte> laid_out(const VectorCompute& compute, const Form& form, const TileView& view,
                                Form::Reach reach) {
  const auto bytes = static_cast<std::size_t>(host_bytes(view.dtype));
  std::vector<std::byte> to(static_cast<std::size_t>(slots_of(form, reach)) * bytes);
  each_point(compute.extents, [&](const std::vector<std::int64_t>& index) {
    const std::byte* from = view.data + offset_in(view, index) * static_cast<std::int64_t>(bytes);
    std::memcpy(to.data() + static_cast<std::size_t>(slot_of(form, reach, form.place(index))) * bytes, from, bytes);
  });
  if (reach == Form::Reach::one)
    for (std::size_t at = bytes; at < to.size(); at += bytes) std::memcpy(to.data() + at, to.data(), bytes);
  return to;
}

}  // namespace

void KernelExecutor::vector(const VectorCompute& compute) {
  for (const std::int64_t extent : compute.extents)
    if (extent <= 0) return execute(compute);
  // the form decides the sizes, so it is found with addresses that do not matter
  VectorAddresses at;
  at.inputs.resize(compute.inputs.size()), at.outputs.resize(compute.outputs.size());
  at.counts.resize(compute.nodes.size());
  const auto shapes = vector_kernels(*set_, core_, compute, machine_.core.vector.lanes, at);
  const std::size_t chosen =
      static_cast<std::size_t>(by_kernel_) % shapes.size();  // all are the same; each has its turn
  const VectorKernel& shape = shapes[chosen];
  if (!shape.inexact.empty()) throw Unsupported({shape.inexact, {}, {}, {}, {}});
  const Form& form = shape.form;
  Memory memory;
  Address next = scratchpad_base;
  const auto place = [&](const void* data, std::size_t bytes) {
    const Address here = next;
    next += static_cast<Address>(round_up(std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1), 4096));
    memory.add(here, next, readable | writable, "scratchpad");
    memory.place(here, data, bytes);
    return here;
  };
  for (std::size_t i = 0; i < compute.inputs.size(); ++i) {
    const std::vector<std::byte> bytes = laid_out(compute, form, compute.inputs[i], form.reach[i]);
    at.inputs[i] = place(bytes.data(), bytes.size());
  }
  at.counts.clear();
  for (const VectorNode& node : compute.nodes) {
    if (node.op != VectorNode::Op::iota) continue;
    std::vector<std::int32_t> counts(static_cast<std::size_t>(slots_of(form, Form::Reach::each)));
    each_point(compute.extents, [&](const std::vector<std::int64_t>& index) {
      counts[static_cast<std::size_t>(slot_of(form, Form::Reach::each, form.place(index)))] =
          static_cast<std::int32_t>(index[static_cast<std::size_t>(node.index)]);
    });
    at.counts.push_back(place(counts.data(), 4 * counts.size()));
  }
  std::vector<std::uint8_t> valid(static_cast<std::size_t>(ceil_div(slots_of(form, Form::Reach::each), 8)));
  each_point(compute.extents, [&](const std::vector<std::int64_t>& index) {
    const std::int64_t slot = slot_of(form, Form::Reach::each, form.place(index));
    valid[static_cast<std::size_t>(slot / 8)] |= static_cast<std::uint8_t>(1U << (slot % 8));
  });
  at.valid = place(valid.data(), valid.size());
  const auto reach_of = [](const VectorOutput& output) {
    return output.reduce.empty() ? Form::Reach::each : Form::Reach::by_group;
  };
  for (std::size_t o = 0; o < compute.outputs.size(); ++o) {
    const VectorOutput& output = compute.outputs[o];
    std::vector<std::byte> bytes(static_cast<std::size_t>(slots_of(form, reach_of(output))) *
                                 static_cast<std::size_t>(host_bytes(output.view.dtype)));
    if (output.accumulate) bytes = laid_out(compute, form, output.view, reach_of(output));
    at.outputs[o] = place(bytes.data(), bytes.size());
  }
  run_code(vector_kernels(*set_, core_, compute, machine_.core.vector.lanes, at)[chosen].kernel, memory);
  for (std::size_t o = 0; o < compute.outputs.size(); ++o) {
    const VectorOutput& output = compute.outputs[o];
    const std::int64_t bytes = host_bytes(output.view.dtype);
    each_point(compute.extents, [&](const std::vector<std::int64_t>& index) {
      for (const int dim : output.reduce)
        if (index[static_cast<std::size_t>(dim)] != 0) return;
      const std::int64_t slot = slot_of(form, reach_of(output), form.place(index));
      memory.read(at.outputs[o] + static_cast<Address>(slot * bytes),
                  output.view.data + offset_in(output.view, index) * bytes, static_cast<std::uint64_t>(bytes));
    });
  }
}

}  // namespace tilesim::isa
