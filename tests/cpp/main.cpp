// The one unit that compiles Boost.Test itself; test files include <boost/test/unit_test.hpp>.
#define BOOST_TEST_MODULE tilesim
#include <boost/test/included/unit_test.hpp>
