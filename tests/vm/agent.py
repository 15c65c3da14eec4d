"""Runs the commands of the job in the guest, and sends each result at once.

The answer is a tar stream over a virtio-serial port. So the console is free for the kernel, and
the results of a guest that dies later are not lost.
"""

import glob
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import IO, Any

JOB = Path("/job/job.json")
OUT = Path("/job/out")

# Output of a command beyond this is cut. A test that prints more should write a file.
OUTPUT_BYTES_MAX = 4 << 20

# The exit status of shells for a command that is not there.
NOT_FOUND_STATUS = 127


def main() -> None:
    job = json.loads(JOB.read_text())
    OUT.mkdir(exist_ok=True)
    if job["shell"]:
        shell(job["columns"], job["rows"])
    else:
        with Path(glob.glob("/dev/vport*p1")[0]).open("wb") as port:  # noqa: PTH207
            send(port, "hello", os.uname().release.encode())
            for number, command in enumerate(job["commands"]):
                run(port, number, command)
            for path in sorted(OUT.rglob("*")):
                if path.is_file():
                    send(port, f"files/{path.relative_to(OUT)}", path.read_bytes())
            send(port, "done", b"")
    reset()


def run(port: IO[bytes], number: int, command: dict[str, Any]) -> None:
    environment = {**os.environ, "PYTHONPATH": "/job/project", "TIERD_VM_OUT": str(OUT)}
    stdout, stderr = OUT.parent / "stdout", OUT.parent / "stderr"
    with stdout.open("wb") as out, stderr.open("wb") as err:
        status = outcome(command, out, err, environment)
    send(port, f"{number}/stdout", stdout.read_bytes()[-OUTPUT_BYTES_MAX:])
    send(port, f"{number}/stderr", stderr.read_bytes()[-OUTPUT_BYTES_MAX:])
    send(port, f"{number}/status", json.dumps(status).encode())


def outcome(
    command: dict[str, Any], out: IO[bytes], err: IO[bytes], environment: dict[str, str]
) -> int | None:
    """Run a command. Return its exit status; None if it ran out of time, 127 if it is not there."""
    try:
        process = subprocess.Popen(command["argv"], stdout=out, stderr=err, env=environment)
    except OSError as error:
        err.write(f"{error}\n".encode())
        return NOT_FOUND_STATUS
    try:
        return process.wait(timeout=command["timeout_s"])
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def send(port: IO[bytes], name: str, content: bytes) -> None:
    """Send one member of the tar at once. tarfile's own streams would hold back up to 10 KiB."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    port.write(entry.tobuf() + content + bytes(-len(content) % tarfile.BLOCKSIZE))
    port.flush()


def shell(columns: int, rows: int) -> None:
    """Run a root shell on the serial console, as large as the user's terminal."""
    subprocess.run(["stty", "columns", str(columns), "rows", str(rows)], check=False)
    print("the project is here, in /job/project; `exit` ends the machine")
    subprocess.run(["setsid", "-c", "bash", "-l"], check=False, cwd="/job/project",
                   env={**os.environ, "PYTHONPATH": "/job/project", "TERM": "vt220"})  # fmt: skip


def reset() -> None:
    """End the machine at once. Nothing on its disks is kept."""
    os.sync()
    Path("/proc/sysrq-trigger").write_text("b")


if __name__ == "__main__":
    main()
