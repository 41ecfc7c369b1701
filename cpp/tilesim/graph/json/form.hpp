// The JSON form of weights and attributes. Internal to this module.
//
// {"schema": "tilesim.graph", "version": 1, "name", "main": "main",
//  "functions": [{"name", "inputs": [{"name", "dtype", "shape"}],
//                 "ops": [{"name", "kind", "operands": ["value" | null], "results": [{"name", "dtype", "shape"}],
//                          "attributes": {..}, "functions": ["callee"], "source"}],
//                 "outputs": ["value"], "aliases": [{"output": 0, "input": 1}]}],
//  "weights": {"name": {"dtype", "shape", "source": "random" | "data" | "file", ..}}}
//
// Optional: name, main (default: the last function), inputs, operands, results or their types (inferred), attributes,
// functions, source, aliases, weights. Results without a name are named after the operation: name, name.1, name.2.
#pragma once

#include <string>

#include "tilesim/base/json/json.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::json_form {

inline constexpr std::int64_t inline_elements = 1024;  ///< larger weights in memory are written as base64

Json from_type(const TensorType& type);
TensorType read_type(ObjectReader& reader);
Json from_weight(const Weight& weight);
/// `directory`: base of relative paths of weight files. Files must be in it or below, unless `anywhere` is true.
Weight read_weight(const Json& json, const std::string& directory, bool anywhere);
Json from_attribute(const Attribute& value);
/// Reads an attribute of the type that `info` declares.
Attribute read_attribute(const Json& json, const AttributeInfo& info);

}  // namespace tilesim::json_form
