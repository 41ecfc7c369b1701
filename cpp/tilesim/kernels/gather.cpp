// gather (StableHLO's) and embedding.
#include <algorithm>
#include <cstring>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

using Integers = std::vector<std::int64_t>;

bool contains(const Integers& list, std::int64_t value) { return std::ranges::find(list, value) != list.end(); }

/// A gather in plain loops: for every batch position a start, for every start one box.
struct GatherPlan {
  Integers start_map, sizes;  ///< axes of x that the index vector addresses; box per axis of x
  Shape x_strides;
  Shape box, box_from, box_to;  ///< the box without collapsed axes: extents, strides in x and in the result
  Shape batch, batch_to;        ///< batch extents and their strides in the result
  std::int64_t index_step = 1;  ///< between components of one index vector
  Shape batch_index;            ///< strides of the batch axes in `indices`
};

GatherPlan plan_of(const Call& call) {
  const Attributes& attributes = call.attributes();
  const Array &x = call.operand(0), &indices = call.operand(1);
  const Integers& offset_dims = attributes.integers("offset_dims");
  const Integers& collapsed = attributes.integers("collapsed_slice_dims");
  const std::int64_t vector_dim = attributes.integer("index_vector_dim");
  const Shape result = call.result().shape, to = row_major_strides(result),
              index_strides = row_major_strides(indices.shape());
  GatherPlan plan;
  plan.start_map = attributes.integers("start_index_map");
  plan.sizes = attributes.integers("slice_sizes");
  plan.x_strides = row_major_strides(x.shape());
  std::size_t next_offset = 0;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(plan.sizes.size()); ++axis) {
    if (contains(collapsed, axis)) continue;
    plan.box.push_back(plan.sizes[at(axis)]);
    plan.box_from.push_back(plan.x_strides[at(axis)]);
    plan.box_to.push_back(to[at(offset_dims[next_offset++])]);
  }
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(result.size()); ++axis) {
    if (contains(offset_dims, axis)) continue;
    plan.batch.push_back(result[at(axis)]);
    plan.batch_to.push_back(to[at(axis)]);
  }
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(index_strides.size()); ++axis) {
    if (axis == vector_dim) {
      plan.index_step = index_strides[at(axis)];
    } else {
      plan.batch_index.push_back(index_strides[at(axis)]);
    }
  }
  return plan;
}

enum class Mode : std::uint8_t { clip, fill, error };

/// Offset in x of the box whose index vector starts at `position`; -1 where mode fill reads outside.
std::int64_t box_offset(const Call& call, const GatherPlan& plan, Mode mode, const std::int64_t* indices,
                        std::int64_t position) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < plan.start_map.size(); ++i) {
    const std::size_t axis = at(plan.start_map[i]);
    const std::int64_t last = call.operand(0).shape()[axis] - plan.sizes[axis];
    std::int64_t start = indices[position + static_cast<std::int64_t>(i) * plan.index_step];
    if (start < 0 || start > last) {
      if (mode == Mode::fill) return -1;
      if (mode == Mode::error) {
        call.fail("A gather index is out of range: element " +
                      std::to_string(position + static_cast<std::int64_t>(i) * plan.index_step) + " of the indices.",
                  std::to_string(start), "0 to " + std::to_string(last) + " on axis " + std::to_string(axis));
      }
      start = std::clamp<std::int64_t>(start, 0, last);
    }
    offset += start * plan.x_strides[axis];
  }
  return offset;
}

}  // namespace

Results gather(const Call& call) {
  const Array& x = call.operand(0);
  const GatherPlan plan = plan_of(call);
  const std::string text = call.attributes().text("mode", "clip");
  const Mode mode = text == "fill" ? Mode::fill : text == "error" ? Mode::error : Mode::clip;
  const Array indices = call.operand(1).to(DType::i64);
  Array result(x.dtype(), call.result().shape);  // mode fill: positions outside read as zero
  if (result.size() == 0) return {result};
  const int bytes = host_bytes(x.dtype());
  const std::int64_t batches = element_count(plan.batch);
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    if (batch % 4096 == 0) call.poll();
    std::int64_t rest = batch, position = 0, to = 0;
    for (std::size_t axis = plan.batch.size(); axis-- > 0;) {
      const std::int64_t i = rest % plan.batch[axis];
      rest /= plan.batch[axis];
      position += i * plan.batch_index[axis];
      to += i * plan.batch_to[axis];
    }
    const std::int64_t from = box_offset(call, plan, mode, indices.as<std::int64_t>(), position);
    if (from < 0) continue;
    strided_copy(plan.box, x.bytes() + from * bytes, plan.box_from, result.bytes() + to * bytes, plan.box_to, bytes);
  }
  return {result};
}

Results embedding(const Call& call) {
  const Array& table = call.operand(0);
  const Array ids = call.operand(1).to(DType::i64);
  const std::int64_t padding = call.attributes().integer("padding_index", -1);
  const std::int64_t rows = table.shape()[0], row_bytes = table.shape()[1] * host_bytes(table.dtype());
  Array result(table.dtype(), call.result().shape);
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids.as<std::int64_t>()[i];
    if (id < 0 || id >= rows) {
      call.fail("An embedding index is out of range: element " + std::to_string(i) + " of the indices.",
                std::to_string(id), "0 to " + std::to_string(rows - 1));
    }
    if (id == padding || row_bytes == 0) continue;
    std::memcpy(result.bytes() + i * row_bytes, table.bytes() + id * row_bytes, at(row_bytes));
  }
  return {result};
}

}  // namespace tilesim::kernels
