// Resolves the statements of a stream in text order and pushes them into its queues.
#pragma once

#include "tilesim/engine/jobs/job.hpp"

namespace tilesim::engine {

class Dispatch {
 public:
  Dispatch(const Chip& chip, OffChip& memory, Agenda& agenda, Totals& totals)
      : chip_(chip), memory_(memory), agenda_(agenda), totals_(totals) {}

  /// Dispatches until a queue is full or the stream has to wait. Returns true once all statements have completed.
  bool run(Stream& stream);

 private:
  bool hand_out(Stream& stream, const program::Instruction& instruction);
  bool begin_scope(Stream& stream, const program::Instruction& instruction);
  void end_scope(Stream& stream, const program::Instruction& instruction);
  void receive(Stream& stream, const program::Instruction& instruction);
  // Defined in resolve.cpp: they evaluate expressions of loop indices.
  void resolve(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement);
  void resolve_transfer(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement);
  void resolve_mma(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) const;

  const Chip& chip_;
  OffChip& memory_;
  Agenda& agenda_;
  Totals& totals_;
};

}  // namespace tilesim::engine
