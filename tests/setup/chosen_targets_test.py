"""scripts/test builds what the chosen tests need. Usage: chosen_targets_test.py <repository root>"""

import sys
import unittest
from pathlib import Path

from sandbox import Sandbox

TARGETS = "plan_test: plan_test\\nhygiene: \\nexports: shared plan_test\\n"


class ChosenTargets(Sandbox):
    def built_for(self, chosen, *arguments):
        """The targets that are built for the tests that ctest chooses, None if none is."""
        self.run_script("test", arguments, CHOSEN_TESTS=chosen, TEST_TARGETS=TARGETS)
        builds = [call for call in self.calls("cmake") if call.startswith("--build")]
        return sorted(builds[-1].partition("--target ")[2].split()) if builds else None

    def test_are_those_of_the_tests(self):
        self.assertEqual(self.built_for("plan_test hygiene exports", "-L", "plan"), ["plan_test", "shared"])
        self.assertIn("-N -L plan", self.calls("ctest")[0])

    def test_are_none_where_no_test_needs_any(self):
        self.assertIsNone(self.built_for("hygiene", "-R", "hygiene"))

    def test_are_all_where_a_test_does_not_say(self):
        self.assertIn("all", self.built_for("plan_test install", "-R", "test"))

    def test_are_all_without_a_choice(self):
        self.assertEqual(self.built_for("plan_test"), ["all"])


if __name__ == "__main__":
    ChosenTargets.root = Path(sys.argv.pop())
    unittest.main()
