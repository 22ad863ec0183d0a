// Uses the part of the library that is compiled within a minute.
#include <iostream>
#include <string>

#include "gradrecomp/plan/policies.h"

int main() {
  const std::string name = gradrecomp::plan::to_string(gradrecomp::plan::parse_policy("every_2"));
  std::cout << name << '\n';
  return name == "every_2" ? 0 : 1;
}
