"""What ranks run: several programs, their folders and their environment."""
import os
import tempfile

from launched import EMULATED, LaunchedTest, main

SHOW = 'echo $GPURUN_RANK $GPURUN_SIZE "$@" $ROLE'


class Programs(LaunchedTest):
    def lines(self, *arguments, **options):
        status, out, error = self.run_gpurun(EMULATED, *arguments, **options)
        self.assertEqual((status, error), (0, ""))
        return sorted(out.decode().splitlines())

    def test_several_programs_are_one_job_with_ranks_in_their_order(self):
        self.assertEqual(
            self.lines("-n", "1", "--env", "ROLE=head", "sh", "-c", SHOW, "_", "a",
                       ":", "-n", "2", "sh", "-c", SHOW, "_", "b", ":", "-n", "1", "--env", "ROLE=tail", "sh", "-c", SHOW),
            ["0 4 a head", "1 4 b", "2 4 b", "3 4 tail"])

    def test_one_of_several_programs_that_is_not_there_starts_none(self):
        status, out, error = self.run_gpurun(EMULATED, "-n", "1", "echo", "ran", ":", "-n", "1", "/no/such/program")
        self.assertEqual((status, out), (127, b""))
        self.check_own_line(error, "/no/such/program")

    def test_a_program_of_this_folder_is_named_with_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "own-program")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n")
            status, _, error = self.run_gpurun(EMULATED, "own-program", cwd=folder)
            self.assertEqual(status, 127)
            self.check_own_line(error, "own-program: not found in PATH\n")
            status, _, error = self.run_gpurun(EMULATED, "./own-program", cwd=folder)
            self.assertEqual(status, 126)
            self.check_own_line(error, "./own-program: Permission denied (if it is a program, chmod +x")
            os.chmod(script, 0o700)
            status, _, error = self.run_gpurun(EMULATED, "own-program", cwd=folder)
            self.assertEqual(status, 127)
            self.check_own_line(error, "own-program: not found in PATH; write ./own-program for the one in this folder\n")

    def test_one_of_several_programs_that_exec_refuses_ends_all(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/no/such/interpreter\n")
            os.chmod(script, 0o700)
            status, _, error = self.run_gpurun(EMULATED, "-n", "1", "sleep", "100", ":", "-n", "1", script)
        self.assertEqual(status, 127)
        self.check_own_line(error, script)

    def test_a_program_runs_in_its_folder_and_is_found_from_here(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            os.mkdir(os.path.join(folder, "below"))
            script = os.path.join(folder, "show")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho $(pwd) $PWD $(basename $0)\n")
            os.chmod(script, 0o700)
            below = os.path.join(folder, "below")
            self.assertEqual(self.lines("--chdir", "below", "./show", cwd=folder), [f"{below} {below} show"])
            self.assertEqual(
                self.lines("-n", "1", "--chdir", below, script, ":", "-n", "1", script, cwd=folder,
                           extra_env={"PWD": folder}),
                sorted([f"{below} {below} show", f"{folder} {folder} show"]))

    def test_a_folder_that_is_none_is_an_error_before_anything_starts(self):
        for folder in ("/no/such/folder", "/etc/passwd"):
            status, out, error = self.run_gpurun(EMULATED, "--chdir", folder, "echo", "ran")
            self.assertEqual((status, out), (2, b""))
            self.check_own_line(error, "--chdir", folder)

    def test_settings_reach_the_ranks_of_their_program_only(self):
        self.assertEqual(
            self.lines("-n", "1", "--env", "A=x y", "--env=B", "sh", "-c", "echo [$A] [$B]", ":", "-n", "1", "sh", "-c",
                       "echo [$A] [$B]", extra_env={"B": "b"}), ["[] [b]", "[x y] [b]"])
        status, _, error = self.run_gpurun(EMULATED, "--env", "NOT_HERE", "true")
        self.assertEqual(status, 2)
        self.check_own_line(error, "NOT_HERE=VALUE")

    def test_programs_of_other_launchers_are_told_in_their_words_unless_that_is_not_wanted(self):
        show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:+port} " \
               "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE " \
               "$MPI_LOCALRANKID/$MPI_LOCALNRANKS $MV2_COMM_WORLD_LOCAL_RANK"
        self.assertEqual(self.lines("-n", "2", "sh", "-c", show),
                         [f"{rank}/2 {rank}/2 127.0.0.1 port {rank}/2 {rank}/2 {rank}/2 {rank}" for rank in (0, 1)])
        self.assertEqual(self.lines("-n", "1", "--no-compat-env", "sh", "-c", show), ["/ / / / /"])

    def test_ranks_meet_at_the_port_that_they_are_told(self):
        # As torch.distributed does: rank 0 listens, the others connect, however early they are.
        meet = ("import os, socket, time\n"
                "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
                "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
                "if rank == 0:\n"
                "    with socket.create_server(place) as server:\n"
                "        print(sorted(server.accept()[0].recv(9).decode() for _ in range(size - 1)))\n"
                "else:\n"
                "    while True:\n"
                "        try:\n"
                "            socket.create_connection(place).sendall(str(rank).encode())\n"
                "            break\n"
                "        except ConnectionRefusedError:\n"
                "            time.sleep(0.01)\n")
        self.assertEqual(self.lines("-n", "3", "python3", "-c", meet), ["['1', '2']"])


main()
