#include "tilesim/base/aside.hpp"

#include <system_error>
#include <thread>

namespace tilesim {

void run_aside(std::function<void()> work) {
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {
    work();
  }
}

}  // namespace tilesim
