// The vector computes of an attention kernel, node by node, as compile/attention emits them.
#pragma once

#include <vector>

#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

/// A compute over rows and columns, with columns along the lanes. A compute with one dim has rows along the lanes.
class AttentionCompute {
 public:
  /// Dims along which an operand varies: bits of VectorRead::dims.
  static constexpr std::uint32_t by_row = 1, by_column = 2, by_both = 3;

  int input(std::uint32_t dims, DType dtype = DType::f32) {
    reads_.push_back({dtype, dims});
    return add({.op = VectorNode::Op::input, .index = static_cast<int>(reads_.size()) - 1, .dtype = dtype});
  }
  int number() { return add({.op = VectorNode::Op::constant, .dtype = DType::f32}); }
  int apply(Function function, int a, int b = -1, int c = -1) {
    return add({.op = VectorNode::Op::function, .function = function, .arguments = {a, b, c}, .dtype = DType::f32});
  }
  /// A node with the position of a key or query. `wraps`: the rows belong to several heads.
  int position(bool wraps) {
    int at = add({.op = VectorNode::Op::iota, .dtype = DType::i32});
    if (wraps) at = apply(Function::remainder, at, add({.op = VectorNode::Op::constant, .dtype = DType::i32}));
    return apply(Function::add, at, add({.op = VectorNode::Op::scalar, .dtype = DType::i32}));
  }
  void output(int node, DType dtype = DType::f32) { writes_.push_back({node, dtype, 0, Combiner::add, false}); }
  /// Adds an output that reduces a node over the columns of each row.
  void reduced(int node, Combiner combiner, bool accumulate) {
    writes_.push_back({node, DType::f32, by_column, combiner, accumulate});
  }
  VectorPattern pattern() const { return pattern_of(nodes_, reads_, writes_); }

 private:
  int add(VectorNode node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }
  std::vector<VectorNode> nodes_;
  std::vector<VectorRead> reads_;
  std::vector<VectorWrite> writes_;
};

}  // namespace tilesim::mapping
