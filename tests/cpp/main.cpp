// The one unit that compiles Boost.Test itself, where no library has it; test files include <boost/test/unit_test.hpp>.
#define BOOST_TEST_MODULE tilesim
#ifdef BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#else
#include <boost/test/included/unit_test.hpp>
#endif
