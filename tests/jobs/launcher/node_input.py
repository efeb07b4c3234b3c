"""What ranks on several nodes read. Arguments: gpurun, wire_rank."""
import os
import signal
import subprocess

from launched import SOON_S, main, on_rank
from namespaces import INSIDE, reenter
from nodes import NodesTest, setUpModule, tearDownModule  # noqa: F401  unittest calls the last two

DATA = b"".join(b"%d\n" % i for i in range(400000))  # more than all that is between gpurun and a rank takes


class Input(NodesTest):
    def check_rank_0_reads_all(self, others, *options, hosts):
        status, out, error = self.run_gpurun("--stdin=all", *options, *on_rank(0, "wc -c", others), input_bytes=DATA,
                                             hosts=hosts)
        self.assertEqual((status, out.split(), error), (0, [b"%d" % len(DATA)], ""))

    def test_a_host_whose_ranks_have_ended_does_not_hold_up_the_others(self):
        for hosts in ("h1:1,h2:1", "h1:1,h2:2"):
            self.check_rank_0_reads_all("exit 0", hosts=hosts)

    def test_a_host_whose_ranks_have_closed_their_input_does_not_hold_up_the_others(self):
        for hosts in ("h1:1,h2:1", "h1:1,h2:2"):
            self.check_rank_0_reads_all("exec <&-; sleep 2", hosts=hosts)

    def test_a_host_that_is_lost_does_not_hold_up_the_others(self):
        process = self.start("--stdin=all", "--keep-going", *on_rank(0, "wc -c", "echo up >&2; exec sleep 100"),
                             hosts="h1:1,h2:1", stdin=subprocess.PIPE)
        self.assertEqual(process.stderr.readline(), b"up\n")
        os.kill(self.far_daemon(), signal.SIGKILL)
        out, error = process.communicate(DATA, timeout=SOON_S)
        self.assertEqual((process.returncode, out.split()), (1, [b"%d" % len(DATA)]))
        self.check_own_line(error.decode(), "lost h2")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
