"""The arrow checker must find what it is there to find."""

import tempfile
import unittest
from pathlib import Path

from check_arrows import faults


def faults_of(path, text):
    with tempfile.TemporaryDirectory() as root:
        file = Path(root, path)
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return list(faults(Path(root)))


class CheckArrows(unittest.TestCase):
    def assert_fault(self, path, text, message):
        found = faults_of(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(message, found[0])

    def test_accepts_includes_along_the_arrows(self):
        text = '#include <vector>\n#include "gradrecomp/plan/graph.h"\n#include "gradrecomp/region.h"\n'
        self.assertEqual(faults_of("include/gradrecomp/checkpoint.h", text), [])

    def test_accepts_the_header_of_exports_everywhere(self):
        self.assertEqual(faults_of("src/plan/search/make_plan.cpp", '#include "gradrecomp/export.h"\n'), [])
        self.assertEqual(faults_of("include/gradrecomp/export.h", "#define GRADRECOMP_API\n"), [])

    def test_accepts_torch_outside_the_planner(self):
        self.assertEqual(faults_of("src/tape/tape.cpp", "#include <ATen/core/Tensor.h>\n"), [])

    def test_rejects_a_reversed_arrow_in_a_header(self):
        self.assert_fault("include/gradrecomp/plan/plan.h", '#include "gradrecomp/guard.h"\n',
                          "plan/ must not know tape/")
        self.assert_fault("include/gradrecomp/options.h", '#include "gradrecomp/checkpoint.h"\n',
                          "region/ must not know nn/")

    def test_rejects_a_reversed_arrow_in_a_source(self):
        self.assert_fault("src/tape/tape.cpp", '#  include <gradrecomp/region.h>\n',
                          "tape/ must not know region/")

    def test_rejects_a_reversed_arrow_to_a_private_header(self):
        self.assert_fault("src/plan/search/make_plan.cpp", '#include "profile/meter.h"\n',
                          "plan/ must not know profile/")

    def test_rejects_a_room_within_a_room_without_arrows(self):
        self.assert_fault("src/tape/record/inner/part.cpp", "", "tape/record/inner is not a room")

    def test_rejects_a_way_around_the_include_folder(self):
        self.assert_fault("src/plan/search/make_plan.cpp", '#include "../tape/tape.h"\n', "without '..'")

    def test_accepts_includes_along_the_arrows_between_rooms(self):
        text = ('#include "chain.h"\n#include "plan/error.h"\n#include "plan/graph/blocks.h"\n'
                '#include "gradrecomp/plan/simulate.h"\n')
        self.assertEqual(faults_of("src/plan/chain/chain_search.cpp", text), [])

    def test_rejects_a_reversed_arrow_between_rooms(self):
        self.assert_fault("src/plan/graph/blocks.cpp", '#include "plan/chain/chain.h"\n',
                          "plan/graph/ must not know plan/chain/")
        self.assert_fault("src/plan/files/plan_file.cpp", '#include "gradrecomp/plan/policies.h"\n',
                          "plan/files/ must not know plan/policies/")
        self.assert_fault("include/gradrecomp/plan/simulate.h",
                          '#include "gradrecomp/plan/make_plan.h"\n',
                          "plan/simulator/ must not know plan/search/")

    def test_rejects_a_reversed_arrow_to_or_from_what_lies_beside_the_rooms(self):
        self.assertEqual(faults_of("src/tape/replay/sweep.cpp", '#include "tape/tape.h"\n'), [])
        self.assert_fault("src/tape/aten/bytes.h", '#include "tape/op.h"\n', "tape/aten/ must not know tape/tape/")
        self.assert_fault("src/tape/tape.cpp", '#include "tape/record/recorder.h"\n',
                          "tape/tape/ must not know tape/record/")

    def test_rejects_torch_in_the_planner(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/util/Exception.h"):
            self.assert_fault("src/plan/search/make_plan.cpp", f"#include <{header}>\n", "brings Torch")

    def test_rejects_an_unknown_folder(self):
        self.assert_fault("src/util/strings.cpp", "", "util is not a folder")
        self.assert_fault("src/plan/attic/old.cpp", "", "plan/attic is not a room")
        self.assert_fault("programs/gradrecomp/attic/old.cpp", "", "program/attic is not a room")
        self.assert_fault("src/plan/search/make_plan.cpp", '#include "gradrecomp/util/strings.h"\n', "names util")

    def test_looks_at_the_rooms_of_the_program(self):
        path = "programs/gradrecomp/measure/arm.cpp"
        self.assertEqual(faults_of(path, '#include "format.h"\n#include "workload/device.h"\n'), [])
        self.assert_fault(path, '#include "report/svg.h"\n', "program/measure/ must not know program/report/")
        self.assert_fault(path, '#include "gradrecomp/tape/tape.h"\n', "program/ must not know tape/")

    def test_rejects_an_overfull_folder(self):
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root, "src/plan/graph")
            folder.mkdir(parents=True)
            for i in range(21):
                (folder / f"{i}.cpp").touch()
            found = list(faults(Path(root)))
        self.assertEqual(len(found), 1, found)
        self.assertIn("21 files, but must be at most 20", found[0])


if __name__ == "__main__":
    unittest.main()
