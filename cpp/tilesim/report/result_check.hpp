// Validates a result file before it is used.
#pragma once

#include "tilesim/base/json/json.hpp"

namespace tilesim {

/// Checks types, ranges and keys against a JSON schema: type, const, enum, minimum, exclusiveMinimum, maximum,
/// properties, required, additionalProperties, items, prefixItems, minItems, maxItems; any other keyword except
/// descriptions is an InternalError. Throws UserError at the value that does not fit.
void check_schema(const Json& value, const Json& schema);

/// Like `check_schema`, with rules beyond a schema: states of units and shares of kernels add up to the cycles,
/// intervals refer to units and labels and are within the run, links and endpoints refer to routers, units to cores of
/// the configuration.
void check_result(const Json& result, const Json& schema);

}  // namespace tilesim
