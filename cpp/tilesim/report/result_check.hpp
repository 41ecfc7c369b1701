// Validates a result file before it is used.
#pragma once

#include "tilesim/base/json/json.hpp"

namespace tilesim {

/// Types, ranges and keys by a JSON schema: type, const, enum, minimum, exclusiveMinimum, maximum, properties,
/// required, additionalProperties, items, prefixItems, minItems, maxItems; any other word of the schema that is no
/// description is an InternalError. Throws UserError at the value that does not fit.
void check_schema(const Json& value, const Json& schema);

/// As `check_schema`, and what no schema says: states of units and shares of kernels add up to the cycles, intervals
/// name units and labels and lie within the run, links and endpoints name routers, units name cores of the
/// configuration.
void check_result(const Json& result, const Json& schema);

}  // namespace tilesim
