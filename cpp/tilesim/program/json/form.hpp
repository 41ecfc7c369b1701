// Helpers for reading the JSON form of a program.
#pragma once

#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program::form {

/// Runs `read` and adds the location of `json` to a UserError without a place.
template <class Read>
auto at_place(const Json& json, Read read) {
  try {
    return read();
  } catch (const UserError& error) {
    if (!error.parts().place.empty()) throw;
    throw UserError(
        {error.parts().what, json.place(), error.parts().value, error.parts().allowed, error.parts().suggestion});
  }
}

Expr expr(const Json& json);
Expr expr_or(const Json* json, std::int64_t fallback);
DType dtype(const Json& json);
DType dtype_or(const Json* json, DType fallback);
std::vector<Expr> exprs(const Json& json);
std::vector<std::string> strings(const Json& json);

/// Reads the load, store, compute or send in the member `which` of the statement.
Action work(const std::string& which, ObjectReader& reader);

}  // namespace tilesim::program::form
