// Executes a sparse product by expanding its operands to dense matrices. Therefore zeros that are not stored count as
// zeros, even when multiplied by infinities and NaN.
#include <array>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/program/run/operation.hpp"

namespace tilesim::program {

namespace {

constexpr std::array<std::string_view, 3> matrix_forms{"dense", "bitmap", "csr"};

[[noreturn]] void stored_wrong(const char* what, const std::string& place, std::int64_t value, std::string allowed) {
  throw UserError({what, place, std::to_string(value), std::move(allowed), {}});
}

/// One operand: its views and their buffers.
class Stored {
 public:
  Stored(const CompiledProgram& program, const SlotView* views, MatrixForm form, const BufferOf& buffer)
      : program_(program), views_(views), form_(form), buffer_(buffer) {}

  /// The operand as a dense matrix [rows, columns] of the values' dtype; a dense operand is not copied.
  TileView laid_out(std::int64_t rows, std::int64_t columns) {
    if (form_ == MatrixForm::dense) return tile_view(program_, views_[0], buffer_(views_[0]));
    const std::size_t last = views_of(form_) - 1;
    values_ = tile_view(program_, views_[last], buffer_(views_[last]));
    width_ = host_bytes(values_.dtype);
    rows_ = rows, columns_ = columns;
    dense_.assign(static_cast<std::size_t>(rows * columns * width_), std::byte{});
    if (form_ == MatrixForm::bitmap)
      by_mask();
    else
      by_rows();
    return {dense_.data(), values_.dtype, {{rows, columns}, {columns, 1}}};
  }

 private:
  const std::string& slot(std::size_t view) const {
    return program_.slots[static_cast<std::size_t>(views_[view].slot)].name;
  }

  std::int64_t number(std::size_t view, std::int64_t at) const {
    const TileView seen = tile_view(program_, views_[view], buffer_(views_[view]));
    const std::byte* from = seen.data + at * seen.dims[0].stride * host_bytes(seen.dtype);
    if (seen.dtype == DType::u8) return static_cast<std::int64_t>(*from);
    std::int32_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  void put(std::int64_t value, std::int64_t row, std::int64_t column) {
    std::memcpy(dense_.data() + (row * columns_ + column) * width_,
                values_.data + value * values_.dims[0].stride * width_, static_cast<std::size_t>(width_));
  }

  void needs_type(std::size_t view, DType wanted) const {
    const DType own = program_.slots[static_cast<std::size_t>(views_[view].slot)].dtype;
    if (own != wanted)
      throw UserError({"a part of a stored matrix has another type",
                       "slot " + slot(view),
                       std::string(name(own)),
                       std::string(name(wanted)),
                       {}});
  }

  void by_mask() {
    needs_type(0, DType::u8);
    const std::int64_t elements = rows_ * columns_, stored = values_.dims[0].extent;
    constexpr std::int64_t byte = 8;
    if (views_[0].dims[0].extent != (elements + byte - 1) / byte)
      stored_wrong("a mask has a bit for each element", "slot " + slot(0), views_[0].dims[0].extent,
                   std::to_string((elements + byte - 1) / byte) + " bytes");
    std::int64_t next = 0;
    for (std::int64_t at = 0; at < elements; ++at) {
      if (((number(0, at / byte) >> (byte - 1 - at % byte)) & 1) == 0) continue;
      if (next < stored) put(next, at / columns_, at % columns_);
      ++next;
    }
    if (next != stored)
      stored_wrong("the mask and the values differ in number", "slot " + slot(0), next, std::to_string(stored));
  }

  void by_rows() {
    needs_type(0, DType::i32);
    needs_type(1, DType::i32);
    const std::int64_t stored = values_.dims[0].extent;
    if (views_[0].dims[0].extent != rows_ + 1)
      stored_wrong("the pointers must be one more than the rows", "slot " + slot(0), views_[0].dims[0].extent,
                   std::to_string(rows_ + 1));
    if (views_[1].dims[0].extent != stored)
      stored_wrong("indices and values differ in number", "slot " + slot(1), views_[1].dims[0].extent,
                   std::to_string(stored));
    std::int64_t at = number(0, 0);
    if (at != 0) stored_wrong("the pointers of a stored matrix must begin at 0", "slot " + slot(0), at, "0");
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t end = number(0, row + 1);
      const std::string place = "slot " + slot(0) + ", pointer " + std::to_string(row + 1);
      if (end < at)
        stored_wrong("the pointers of a stored matrix decrease", place, end, "at least " + std::to_string(at));
      if (end > stored)
        stored_wrong("a pointer lies beyond the values", place, end, "at most " + std::to_string(stored));
      for (; at < end; ++at) {
        const std::int64_t column = number(1, at);
        if (column < 0 || column >= columns_)
          stored_wrong("an index lies outside its row", "slot " + slot(1) + ", index " + std::to_string(at), column,
                       "0 to " + std::to_string(columns_ - 1));
        put(at, row, column);
      }
    }
    if (at != stored)
      stored_wrong("the last pointer is not the number of values", "slot " + slot(0), at, std::to_string(stored));
  }

  const CompiledProgram& program_;
  const SlotView* views_;
  MatrixForm form_;
  const BufferOf& buffer_;
  TileView values_;
  std::vector<std::byte> dense_;
  std::int64_t width_ = 0, rows_ = 0, columns_ = 0;
};

}  // namespace

std::size_t views_of(MatrixForm form) { return form == MatrixForm::dense ? 1 : form == MatrixForm::bitmap ? 2 : 3; }

std::string_view form_name(MatrixForm form) { return matrix_forms[static_cast<std::size_t>(form)]; }

MatrixForm form_named(const Json& text) {
  const std::string& given = text.as_string();
  for (std::size_t i = 0; i < matrix_forms.size(); ++i)
    if (matrix_forms[i] == given) return static_cast<MatrixForm>(i);
  const std::vector<std::string> known(matrix_forms.begin(), matrix_forms.end());
  text.fail("unknown format of a matrix", join(known), nearest(given, known));
}

void perform_sparse(const CompiledProgram& program, const Operation& op, const BufferOf& buffer,
                    TileExecutor& executor) {
  const SparseProduct& product = *std::get<OpaqueOp>(op.instruction->statement->action).product;
  const SlotView& result = op.views.back();
  const std::int64_t m = result.dims[0].extent, n = result.dims[1].extent, k = op.extents[0];
  if (m <= 0 || n <= 0) return;
  Stored a(program, op.views.data(), product.a, buffer);
  Stored b(program, op.views.data() + views_of(product.a), product.b, buffer);
  executor.run(Mma{0, 1, 1, 1, a.laid_out(m, k), b.laid_out(k, n), tile_view(program, result, buffer(result)),
                   op.accumulates[0] != 0, product.numerics});
}

}  // namespace tilesim::program
