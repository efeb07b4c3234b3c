"""Who may include whom: api -> comm -> transfer -> device -> platform -> base; the launcher uses base and platform."""
import re

from tree import C_SOURCES, Violation, check

LAYERS = ["base", "platform", "device", "transfer", "comm", "api"]
PRODUCT = ("runtime/", "launcher/")

CUDA_HEADER = re.compile(r"(cuda|cu_|nvml|cub/|thrust/|cooperative_groups|driver_types|vector_types|curand|nvrtc)")
LINUX_HEADER = re.compile(
    r"(sys/|linux/|asm/|arpa/|net/|netinet/|hwloc|"
    r"(aio|dirent|dlfcn|err|fcntl|ftw|getopt|glob|grp|ifaddrs|libgen|link|mqueue|netdb|numa|numaif|poll|pthread|pty|"
    r"pwd|sched|semaphore|signal|spawn|strings|syslog|termios|time|ucontext|unistd|utmp|wait|errno)\.h$)")
# Headers of C++ that are doors to the system.
CXX_SYSTEM_HEADER = re.compile(r"(csignal|ctime)$")


def includes(tree, *folders):
    """(path, line, name, quoted) of each #include."""
    for path in tree.under(*folders, ends=C_SOURCES):
        for number, line in tree.lines(path):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if found:
                yield path, number, found[2], found[1] == '"'


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


@check
def an_include_points_to_its_own_layer_or_to_one_below(tree):
    for path, line, name, quoted in includes(tree, "runtime/"):
        layer = layer_of(path)
        target = name.split("/")[0]
        if layer == "python":  # over the public header alone
            if quoted and "/" in name:
                yield Violation(path, line, f"the Python package must not know of {name}, only of the public header")
        elif layer not in LAYERS:
            yield Violation(path, line, f"runtime/ has no layer '{layer}'; it has {', '.join(LAYERS)}")
        elif quoted and target not in LAYERS:
            yield Violation(path, line, f'write "{layer}/{name}": an include names the layer of its file')
        elif quoted and LAYERS.index(target) > LAYERS.index(layer):
            yield Violation(path, line, f"{layer} must not know of {target}, which stands above it")
        elif name.startswith("gpurun/") and layer != "api":
            yield Violation(path, line, f"{layer} must not know of the public header; runtime/api translates")


@check
def the_launcher_uses_base_and_platform_only(tree):
    for path, line, name, quoted in includes(tree, "launcher/"):
        if quoted and "/" in name and name.split("/")[0] not in ("launcher", "base", "platform"):
            yield Violation(path, line, f'"{name}" is none of launcher/, base/ and platform/')


@check
def a_quoted_include_names_a_file_of_the_runtime_or_the_launcher(tree):
    for path, line, name, quoted in includes(tree, *PRODUCT):
        beside = f"{path.rsplit('/', 1)[0]}/{name}"
        if quoted and not {f"runtime/{name}", name, beside} & set(tree.paths):
            yield Violation(path, line, f'there is no {name} in runtime/ or beside this file')


@check
def only_the_cuda_device_includes_cuda(tree):
    for path, line, name, quoted in includes(tree, *PRODUCT):
        if not quoted and CUDA_HEADER.match(name) and not path.startswith("runtime/device/cuda/"):
            yield Violation(path, line, f"<{name}> belongs in runtime/device/cuda")


@check
def only_platform_includes_linux(tree):
    for path, line, name, quoted in includes(tree, *PRODUCT):
        system = LINUX_HEADER.match(name) or CXX_SYSTEM_HEADER.match(name)
        if not quoted and system and not path.startswith("runtime/platform/"):
            yield Violation(path, line, f"<{name}> belongs in runtime/platform")


@check
def devices_do_not_know_each_other(tree):
    for path, line, name, quoted in includes(tree, "runtime/device/"):
        folder, target = path.split("/")[2:-1], name.split("/")[1:-1]
        contract = target in ([], ["capability"])  # which knows no device; only open.cpp does
        if quoted and name.startswith("device/") and not contract and folder != target and not path.endswith("/open.cpp"):
            yield Violation(path, line, f"{'/'.join(['device', *folder])} must not know of device/{target[0]}")
