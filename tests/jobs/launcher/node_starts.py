"""Jobs on several nodes whose start fails, or takes its time. Arguments: gpurun, wire_rank."""
import os

from launched import main
from namespaces import INSIDE, reenter
from nodes import NodesTest, setUpModule, tearDownModule  # noqa: F401  unittest calls the last two


class Starts(NodesTest):
    def test_files_for_output_that_cannot_be_made_are_said(self):
        status, out, error = self.run_gpurun("--output-dir", "/proc/none", "echo", "ran")
        self.assertGreater(status, 0)
        self.assertEqual(out, b"")
        self.check_own_line(error, "--output-dir=/proc/none: No such file or directory")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
