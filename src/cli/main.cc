#include <string>
#include <vector>

#include "src/cli/command.h"

int main(int argc, char** argv) {
  return pinring::cli::RunCommand(
      std::vector<std::string>(argv + 1, argv + argc));
}
