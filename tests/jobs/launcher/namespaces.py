"""Network namespaces as hosts: the test that imports this runs itself once more in namespaces of its own."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

INSIDE = "GPURUN_TEST_NAMESPACES"
HOSTS = ("h1", "h2")


def reenter():
    """Runs this script once more in namespaces of its own, or says why that cannot be."""
    missing = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
    words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", "--uts", "--mount"]
    if missing or subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        print(f"skipped: no network namespaces here ({', '.join(missing) or 'no rights'})")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*words, sys.executable, *sys.argv])


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


class Hosts:
    """Two hosts on a bridge, which know each other's names; the folder has the agent, and for each host the process whose
    namespaces it is.

    With `data` they have a second network, 10.78.0.0/24, and before both one that leads nowhere, as containers have.
    """

    def __init__(self, data=False):
        self.folder = tempfile.mkdtemp(prefix="gpurun-hosts-")
        self.holders = []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")
        for number, name in enumerate(HOSTS, 1):
            holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", f"hostname {name}; echo; exec sleep 1000"],
                                      stdout=subprocess.PIPE)
            holder.stdout.readline()
            self.holders.append(holder)
            pid = str(holder.pid)
            if data:
                self.add_dead_end(name, number)
            run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", pid)
            run("ip", "link", "set", f"v{number}", "master", "br0", "up")
            enter = ("nsenter", "-t", pid, "--net", "ip")
            run(*enter, "link", "set", "lo", "up")
            run(*enter, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            run(*enter, "link", "set", "eth0", "up")
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
                file.write(pid)
        if data:
            self.add_data_network()
        with open(f"{self.folder}/hosts", "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"10.77.0.{number} {name}\n" for number, name in enumerate(HOSTS, 1))
        run("mount", "--bind", file.name, "/etc/hosts")
        self.agent = self.script("agent", 'exec nsenter -t "$(cat $here/$1)" --net --uts sh -c "$2"')

    def add_dead_end(self, name, number):
        run(*self.on(name), "ip", "link", "add", "docker0", "type", "bridge")
        run(*self.on(name), "ip", "addr", "add", f"172.31.{number}.1/24", "dev", "docker0")
        run(*self.on(name), "ip", "link", "set", "docker0", "up")

    def add_data_network(self):
        first, second = (str(holder.pid) for holder in self.holders)
        run("ip", "link", "add", "eth1", "netns", first, "type", "veth", "peer", "name", "eth1", "netns", second)
        for number, name in enumerate(HOSTS, 1):
            run(*self.on(name), "ip", "addr", "add", f"10.78.0.{number}/24", "dev", "eth1")
            run(*self.on(name), "ip", "link", "set", "eth1", "up")
        for name in HOSTS:  # a moment later
            for interface in ("eth0", "eth1"):
                while self.state_of(name, interface) != "UP":
                    time.sleep(0.01)

    def state_of(self, name, interface):
        listed = subprocess.run([*self.on(name), "ip", "-br", "link", "show", interface], capture_output=True, text=True,
                                check=True)
        return listed.stdout.split()[1]

    def swallow_data(self):
        """What goes to the other host by the data network gets lost, as behind a firewall that says nothing."""
        for number, name in enumerate(HOSTS, 1):
            run(*self.on(name), "ip", "neigh", "replace", f"10.78.0.{3 - number}", "lladdr", "02:00:00:00:00:99",
                "dev", "eth1", "nud", "permanent")

    def join_data(self):
        for number, name in enumerate(HOSTS, 1):
            subprocess.run([*self.on(name), "ip", "neigh", "del", f"10.78.0.{3 - number}", "dev", "eth1"],
                           capture_output=True, check=False)

    def script(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nhere={self.folder}\n[ -e "$here/$1" ] || {{ echo "no host $1" >&2; exit 255; }}\n'
                       f"{text}\n")
        os.chmod(path, 0o755)
        return path

    def remote_shell(self):
        """For launchers that call it as they call rsh: with a host, and a command of any number of words."""
        return self.script("shell", 'read -r pid <"$here/$1" || [ "$pid" ]; shift\n'
                                    'exec nsenter -t "$pid" --net --uts sh -c "$*"')

    def on(self, host):
        return ("nsenter", "-t", str(self.holders[HOSTS.index(host)].pid), "--net", "--uts")

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.communicate()
        run("ip", "link", "del", "br0")
        run("umount", "/etc/hosts")
        shutil.rmtree(self.folder)
