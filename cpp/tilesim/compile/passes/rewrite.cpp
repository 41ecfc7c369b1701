// Replaces symbols in every expression of a block.
#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

class Substitution {
 public:
  explicit Substitution(const std::map<std::string, Expr>& values) : values_(values) {}

  void apply(program::Block& block) const {
    program::for_each(block, [&](program::Statement& statement) {
      std::visit([&](auto& action) { apply(action); }, statement.action);
    });
  }

 private:
  void apply(Expr& expr) const { expr = expr.substitute(values_); }
  template <class T>
  void apply(std::vector<T>& list) const {
    for (T& item : list) apply(item);
  }
  void apply(program::Dim& dim) const { apply(dim.extent), apply(dim.stride); }
  void apply(program::View& view) const { apply(view.offset), apply(view.dims); }
  void apply(program::TransferDim& dim) const {
    apply(dim.extent), apply(dim.step), apply(dim.stride), apply(dim.through_at);
  }
  void apply(program::Transfer& transfer) const { apply(transfer.at), apply(transfer.dims), apply(transfer.offset); }
  void apply(program::VectorNodeSpec& spec) const { apply(spec.scalar); }
  void apply(program::VectorOutputSpec& spec) const { apply(spec.view), apply(spec.accumulate); }

  void apply(program::For& loop) const { apply(loop.extent); }
  void apply(program::If& branch) const { apply(branch.condition); }
  void apply(program::Call& call) const {
    for (auto& [name, value] : call.parameters) apply(value);
  }
  void apply(program::Scope&) const {}
  void apply(program::Acquire&) const {}
  void apply(program::Receive&) const {}
  void apply(program::Commit&) const {}
  void apply(program::Release&) const {}
  void apply(program::Wait& wait) const { apply(wait.index), apply(wait.pieces); }
  void apply(program::Signal& signal) const { apply(signal.core), apply(signal.index), apply(signal.count); }
  void apply(program::Load& load) const { apply(load.transfer); }
  void apply(program::Store& store) const { apply(store.transfer), apply(store.signal_index); }
  void apply(program::MmaOp& op) const { apply(op.a), apply(op.b), apply(op.c), apply(op.accumulate); }
  void apply(program::VectorOp& op) const { apply(op.extents), apply(op.inputs), apply(op.nodes), apply(op.outputs); }
  void apply(program::PermuteOp& op) const { apply(op.in), apply(op.out); }
  void apply(program::IndexedOp& op) const { apply(op.in), apply(op.index), apply(op.out); }
  void apply(program::SortOp& op) const { apply(op.in), apply(op.keys), apply(op.positions); }
  void apply(program::OpaqueOp& op) const { apply(op.cycles), apply(op.reads), apply(op.writes); }
  void apply(program::Send& send) const { apply(send.from), apply(send.offset), apply(send.dims), apply(send.cores); }

  const std::map<std::string, Expr>& values_;
};

}  // namespace

void substitute(program::Block& block, const std::map<std::string, Expr>& values) { Substitution(values).apply(block); }

}  // namespace tilesim::lower
