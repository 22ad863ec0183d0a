"""The checker of exported symbols must find what it is there to find."""

import tempfile
import unittest
from pathlib import Path

from check_exports import declared_names, faults, without_version

HEADER = """
namespace gradrecomp::plan {
class Session;
template <typename Body>
auto run(Body body) {
  return body();
}
/// Like hidden_in_a_comment(), but a class.
class GRADRECOMP_API Fit {
 public:
  explicit Fit(int batch);
  int search() const;
};
GRADRECOMP_API void save(const Fit& fit);
}  // namespace gradrecomp::plan
namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
class GRADRECOMP_API Region {};
}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
"""


class CheckExports(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "fit.h").write_text(HEADER)
            self.names = declared_names(Path(root))

    def faults(self, exported=(), hidden=()):
        return list(faults(exported, hidden, self.names))

    def test_accepts_what_a_header_declares(self):
        self.assertEqual(self.faults([("T", "gradrecomp::plan::Fit::Fit(int)"),
                                      ("V", "vtable for gradrecomp::plan::Fit"),
                                      ("T", "gradrecomp::plan::save(gradrecomp::plan::Fit const&)")]), [])

    def test_accepts_a_weak_template_of_the_standard_library(self):
        self.assertEqual(self.faults([("W", "std::vector<int, std::allocator<int> >::begin()")]), [])

    def test_rejects_a_function_that_no_header_declares(self):
        for name in ("gradrecomp::plan::search()", "gradrecomp::plan::hidden_in_a_comment()",
                     "gradrecomp::plan::Session::Session()",
                     "gradrecomp::save()", "nlohmann::json::dump()", "main"):
            self.assertEqual(len(self.faults([("T", name)])), 1, name)

    def test_rejects_a_foreign_template_that_is_not_weak(self):
        self.assertEqual(len(self.faults([("T", "std::vector<int>::begin()")])), 1)

    def test_rejects_a_template_of_a_private_dependency(self):
        self.assertEqual(len(self.faults([("W", "nlohmann::basic_json<>::dump() const")])), 1)

    def test_rejects_a_declared_function_that_is_hidden(self):
        self.assertEqual(len(self.faults(hidden=["gradrecomp::plan::save(gradrecomp::plan::Fit const&)",
                                                 "gradrecomp::plan::search()"])), 1)

    def test_reads_names_without_the_inline_namespace(self):
        named, unversioned = without_version([("T", "gradrecomp::v0_1::Region::run(gradrecomp::v0_1::Options)")])
        self.assertEqual(named, [("T", "gradrecomp::Region::run(gradrecomp::Options)")])
        self.assertEqual(self.faults(named), [])
        self.assertEqual(unversioned, [])

    def test_rejects_what_lies_outside_the_inline_namespace(self):
        for name in ("gradrecomp::Region::run()", "vtable for gradrecomp::plan::Fit"):
            self.assertEqual(len(without_version([("T", name)])[1]), 1, name)


if __name__ == "__main__":
    unittest.main()
