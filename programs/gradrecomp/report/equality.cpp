#include "report/equality.h"

namespace gradrecomp::program {

Equality equality(bool arm_equal, bool plain_equal) {
  if (arm_equal) return Equality::yes;
  return plain_equal ? Equality::no : Equality::plain_differs;
}

std::string_view to_string(Equality equality) {
  switch (equality) {
    case Equality::yes:
      return "yes";
    case Equality::no:
      return "NO";
    case Equality::plain_differs:
      return "plain itself differs";
  }
  return "";
}

}  // namespace gradrecomp::program
