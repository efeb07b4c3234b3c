"""Commands of tests of what is built and installed."""
import subprocess


def output(*command, **options):
    """What it prints; it has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
