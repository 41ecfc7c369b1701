// Checks that the operands of a tile compute match each other, as the executor requires.
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/program/run/operation.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 40;

[[noreturn]] void mismatch(const char* what, std::int64_t got, std::int64_t wanted) {
  throw UserError({what, {}, std::to_string(got), std::to_string(wanted), {}});
}

void equal(const char* what, std::int64_t got, std::int64_t wanted) {
  if (got != wanted) mismatch(what, got, wanted);
}

/// Number of elements of dims [first, first + size); 0 if an extent is below one.
std::int64_t count(const SlotView& view, int first, int size) {
  std::int64_t elements = 1;
  bool empty = false;
  for (int i = first; i < first + size; ++i) {
    const std::int64_t extent = view.dims[static_cast<std::size_t>(i)].extent;
    empty |= extent <= 0;
    if (!empty && (__builtin_mul_overflow(elements, extent, &elements) || elements > most_elements))
      throw UserError({"An operand has too many elements.", {}, {}, "at most " + std::to_string(most_elements), {}});
  }
  return empty ? 0 : elements;
}

int rank(const SlotView& view) { return static_cast<int>(view.dims.size()); }

void same_extents(const char* what, const SlotView& a, const SlotView& b, int a_first = 0, int b_first = 0) {
  equal(what, rank(b) - b_first, rank(a) - a_first);
  for (int i = a_first; i < rank(a); ++i)
    equal(what, b.dims[static_cast<std::size_t>(i - a_first + b_first)].extent,
          a.dims[static_cast<std::size_t>(i)].extent);
  count(a, 0, rank(a));
}

void check_packed(const MmaOp& op, const SlotView& a) {
  std::int64_t neighbour = 1;
  for (int i = 0; i < op.packed; ++i) {
    const auto& dim = a.dims[static_cast<std::size_t>(rank(a) - 1 - i)];
    if (dim.extent > 1 && dim.stride != neighbour)
      mismatch("Packed dims of a product are not adjacent in its first operand: a stride is wrong.", dim.stride,
               neighbour);
    neighbour *= dim.extent;
  }
}

/// Checks that the innermost contracted dim of a 2:4 operand counts the positions within an element.
void check_pattern(const MmaOp& op, const SlotView& b) {
  const auto inner = static_cast<std::size_t>(op.batch_dims + op.k_dims - 1);
  equal("The innermost contracted dim of a 2:4 operand must count adjacent elements.",
        op.k_dims > 0 ? b.dims[inner].extent : 0, pattern_neighbours);
  equal("The innermost contracted dim of a 2:4 operand has a stride.", b.dims[inner].stride, 0);
}

void check_mma(const MmaOp& op, const std::vector<SlotView>& views, bool pattern) {
  const SlotView &a = views[0], &b = views[1], &c = views[2];
  const int lead = op.batch_dims;
  if (pattern) check_pattern(op, b);
  equal("The operands of a product have unequal batches.", count(b, 0, lead), count(a, 0, lead));
  equal("The result of a product has another batch.", count(c, 0, lead), count(a, 0, lead));
  equal("The result of a product has another number of rows.", count(c, lead, op.m_dims), count(a, lead, op.m_dims));
  equal("The operands of a product have unequal contractions.", count(b, lead, op.k_dims),
        count(a, lead + op.m_dims, op.k_dims));
  equal("The result of a product has another number of columns.", count(c, lead + op.m_dims, op.n_dims),
        count(b, lead + op.k_dims, op.n_dims));
  if (op.packed > 1) check_packed(op, a);
}

void check_vector(const Operation& op) {
  for (const SlotView& view : op.views) {
    count(view, 0, rank(view));
    for (int i = 0; i < rank(view); ++i)
      equal("An operand of a vector compute has another extent than the compute.",
            view.dims[static_cast<std::size_t>(i)].extent, op.extents[static_cast<std::size_t>(i)]);
  }
}

void check_indexed(const IndexedOp& op, const std::vector<SlotView>& views) {
  const SlotView &in = views[0], &index = views[1], &out = views[2];
  equal("An index must have one dim.", rank(index), 1);
  if (rank(in) == 0 || rank(out) == 0) mismatch("An indexed operand needs a dim.", 0, 1);
  equal("The numbers of indices and rows differ.", (op.scatter ? in : out).dims[0].extent, index.dims[0].extent);
  same_extents("The rows of an indexed compute have unequal extents.", in, out, 1, 1);
}

void check_sort(const std::vector<SlotView>& views) {
  const SlotView &in = views[0], &keys = views[1], &positions = views[2];
  same_extents("Keys and positions have unequal extents.", keys, positions);
  equal("Keys have another rank than what is sorted.", rank(keys), rank(in));
  if (rank(in) == 0) mismatch("A sort needs a dim.", 0, 1);
  equal("Keys have another number of rows.", count(keys, 0, rank(keys) - 1), count(in, 0, rank(in) - 1));
  const std::int64_t kept = keys.dims.back().extent, all = in.dims.back().extent;
  if (kept < 0 || all < 0 || kept > all) mismatch("A sort keeps more elements than it sorts.", kept, all);
}

/// A dense operand must have the rows and columns of the product. Other forms are checked when they are read.
void check_sparse(const SparseProduct& product, const Operation& op) {
  const SlotView& c = op.views.back();
  const std::int64_t k = op.extents[0];
  const auto dense = [](const SlotView& view, std::int64_t rows, std::int64_t columns) {
    equal("An operand of a sparse product has another number of rows.", view.dims[0].extent, rows);
    equal("An operand of a sparse product has another number of columns.", view.dims[1].extent, columns);
  };
  count(c, 0, rank(c));
  if (product.a == MatrixForm::dense) dense(op.views[0], c.dims[0].extent, k);
  if (product.b == MatrixForm::dense) dense(op.views[views_of(product.a)], k, c.dims[1].extent);
}

}  // namespace

void check_shapes(const CompiledProgram& program, const Operation& op) {
  const Action& action = op.instruction->statement->action;
  const auto in_pattern = [&](const SlotView& view) {
    return is_two_of_four(program.slots[static_cast<std::size_t>(view.slot)].dtype);
  };
  for (std::size_t i = 0; i < op.views.size(); ++i)
    if (const bool weights = op.opcode == Opcode::mma && i == 1;
        !weights && op.opcode != Opcode::send && in_pattern(op.views[i]))
      throw UserError({"Only the second operand of a product may be in the pattern 2:4.", {}, {}, {}, {}});
  switch (op.opcode) {
    case Opcode::mma:
      return check_mma(std::get<MmaOp>(action), op.views, in_pattern(op.views[1]));
    case Opcode::vector:
      return check_vector(op);
    case Opcode::permute:
    case Opcode::send:
      return same_extents("Source and destination of a move have different extents.", op.views[0], op.views[1]);
    case Opcode::indexed:
      return check_indexed(std::get<IndexedOp>(action), op.views);
    case Opcode::sort:
      return check_sort(op.views);
    case Opcode::opaque:
      if (const auto& product = std::get<OpaqueOp>(action).product) check_sparse(*product, op);
      return;
    default:
      return;
  }
}

}  // namespace tilesim::program
