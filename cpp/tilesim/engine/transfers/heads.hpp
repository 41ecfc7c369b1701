// Starts the statement at the head of a queue on its unit.
#pragma once

#include "tilesim/engine/transfers/sends.hpp"

namespace tilesim::engine {

class Heads {
 public:
  Heads(const Chip& chip, Agenda& agenda, Units& units, Accounts& accounts, Transfers& transfers, Sends& sends)
      : chip_(chip), agenda_(agenda), units_(units), accounts_(accounts), transfers_(transfers), sends_(sends) {}

  /// Starts statements from the head of the queue on, until a statement cannot start.
  void advance(Stream& stream, int queue);

 private:
  // Each returns true if the queue can remove the statement. Otherwise an event or transfer continues the queue later.
  bool start(Stream& stream, int queue, const ResolvedStatement& statement);
  bool wait(Stream& stream, int queue, const ResolvedStatement& statement);
  bool wait_counter(Stream& stream, int queue, const ResolvedStatement& statement);
  bool acquire(Stream& stream, int queue, const ResolvedStatement& statement);
  bool compute(Stream& stream, int queue, const ResolvedStatement& statement);
  void signal(Stream& stream, int queue, const ResolvedStatement& statement);

  const Chip& chip_;
  Agenda& agenda_;
  Units& units_;
  Accounts& accounts_;
  Transfers& transfers_;
  Sends& sends_;
};

}  // namespace tilesim::engine
