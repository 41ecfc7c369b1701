#include "tilesim/isa/state/op.hpp"

namespace tilesim::isa {

const char* cause_text(Cause cause) {
  switch (cause) {
    case Cause::fetch_misaligned:
      return "jump to a misaligned address";
    case Cause::fetch_fault:
      return "jump to a bad address";
    case Cause::illegal:
      return "illegal instruction";
    case Cause::breakpoint:
      return "breakpoint";
    case Cause::load_misaligned:
      return "misaligned load";
    case Cause::load_fault:
      return "load from a bad address";
    case Cause::store_misaligned:
      return "misaligned store";
    case Cause::store_fault:
      return "store to a bad address";
    case Cause::call_from_user:
      return "environment call";
    case Cause::call_from_machine:
      return "environment call in machine mode";
    case Cause::unknown_call:
      return "unknown system call";
    case Cause::aborted:
      return "ended by its own signal";
    case Cause::no_memory:
      return "memory is used up";
  }
  return "trap";
}

void illegal(const Op& op, const char* why) { throw Trap{Cause::illegal, op.bits, why}; }

}  // namespace tilesim::isa
