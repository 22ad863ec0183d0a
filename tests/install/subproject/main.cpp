// Uses the part of the library that is compiled within a minute.
#include <iostream>
#include <string>

#include "gradrecomp/plan/policies.h"

int main() {
  const std::string name = gradrecomp::plan::Policy("every_2").name();
  std::cout << name << '\n';
  return name == "every_2" ? 0 : 1;
}
