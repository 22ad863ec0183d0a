#include <exception>
#include <iostream>

#include "gradrecomp/plan/graph.h"

int main() {
  try {
    gradrecomp::plan::validate(gradrecomp::plan::Graph{});
    std::cout << "the empty graph is valid\n";
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
  }
}
