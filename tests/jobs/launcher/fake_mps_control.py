"""Behaves as nvidia-cuda-mps-control does: a daemon with -f, else what brings commands to it. No GPU.

The daemon listens on the socket `control` in CUDA_MPS_PIPE_DIRECTORY, answers get_server_list, and ends with quit. It
has a child, its server, in a session of its own, so that it is not found by its group. FAKE_MPS makes it fail:

  dies    exits at once, with a reason
  mute    listens, and never answers
  slow    its socket is there some time before it listens
  stuck   ignores quit and SIGTERM
  crashes dies once it has been asked for the second time

FAKE_MPS_RECORD names a file that each start, and each command that the daemon takes, adds a line to.
"""
import os
import signal
import socket
import subprocess
import sys
import time

MODE = os.environ.get("FAKE_MPS", "")
CONTROL = os.path.join(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control")
COMMANDS = ("get_server_list", "quit")


def record(*words):
    if path := os.environ.get("FAKE_MPS_RECORD"):
        with open(path, "a", encoding="utf-8") as file:
            print(*words, file=file)


def daemon():
    if MODE == "dies":
        print("Starting the control daemon", file=sys.stderr)
        sys.exit("An instance of this daemon is already running")
    if MODE == "stuck":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record("daemon", os.environ.get("CUDA_VISIBLE_DEVICES", "all"), oct(os.stat(os.path.dirname(CONTROL)).st_mode),
           os.path.isdir(os.environ["CUDA_MPS_LOG_DIRECTORY"]))
    server = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(CONTROL)
        if MODE == "slow":
            time.sleep(0.5)
        listening.listen()
        for count in range(1, 1000):
            talk, _ = listening.accept()
            with talk:
                command = talk.recv(4096).decode().strip()
                record("command", command)
                if MODE == "mute":
                    signal.pause()
                if MODE == "crashes" and count > 1:
                    server.kill()
                    os.kill(os.getpid(), signal.SIGSEGV)
                talk.sendall(f"{server.pid}\n".encode() if command == "get_server_list" else b"\n")
            if command == "quit" and MODE != "stuck":
                server.terminate()
                server.wait()
                return


def client():
    for command in map(str.strip, sys.stdin):
        if command not in COMMANDS:
            sys.exit(f"unknown command {command}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            try:
                talk.connect(CONTROL)
                talk.sendall(command.encode())
                print(talk.recv(4096).decode(), end="")
            except OSError:
                sys.exit("Cannot find MPS control daemon process")


if sys.argv[1:] == ["-f"]:
    daemon()
else:
    client()
