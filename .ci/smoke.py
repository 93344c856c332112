"""What the warpio program promises, checked from outside: results, JSON lines, exit codes, errors, interruption.

Nothing here shares code with the program; checksums are computed bit by bit from the polynomial.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MIB = 1 << 20
README = pathlib.Path("README.md").resolve()
PROGRAM = None

DONE, FAILED, WRONG_USAGE = 0, 1, 2

# Where nginx keeps what it has no memory for; by default in folders of the system's.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def crc32c_table():
    """CRC-32C (Castagnoli), reflected: the remainder of each byte."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def environment(scratch, **extra):
    """The caller's, without settings of warpio's, and with temporary files where they can be seen."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WARPIO_")}
    return kept | {"TMPDIR": str(scratch)} | extra


class Smoke(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="warpio-smoke-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()

    def warpio(self, *arguments, expect=DONE, **variables):
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            cwd=self.scratch,
            env=environment(self.scratch, **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        shown = f"warpio {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, expect, shown)
        # Neither stream is a terminal: no bar, no colour.
        self.assertNotRegex(done.stdout + done.stderr, r"[\x1b\r]", shown)
        return done

    def json(self, *arguments):
        """The one JSON object that a command prints, on one line."""
        done = self.warpio(*arguments, "--json")
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, done.stdout)
        value = json.loads(lines[0])
        self.assertIsInstance(value, dict)
        return value

    def error(self, *arguments, **variables):
        """The one line that a failed command leaves on stderr."""
        done = self.warpio(*arguments, expect=FAILED, **variables)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertNotIn("panicked", lines[0])
        return lines[0]

    def file(self, name, size):
        path = self.folder / name
        path.write_bytes(b"".join((i * 2654435761 % 2**32).to_bytes(4, "little") for i in range(size // 4 + 1))[:size])
        return path

    # Main job

    def test_bench_seq_verifies_what_it_read(self):
        result = self.json("bench", "seq", "--size", "64MiB")
        self.assertIs(result["verified"], True)
        self.assertEqual(result["bytes"], 64 * MIB)
        self.assertGreater(result["seconds"], 0)
        rate = result["bytes"] / result["seconds"] / 1e9
        self.assertAlmostEqual(result["gb_per_s"], rate, delta=rate * 0.1)
        self.assertTrue(result["device"])
        self.assertTrue(result["engine"])
        self.assertTrue(result["paths"])
        self.assertEqual(list(self.scratch.iterdir()), [], "its own file must be gone")

    def test_bench_seq_reads_a_file_given(self):
        path = self.file("given", 3 * MIB + 5)
        before = path.read_bytes()
        self.assertEqual(self.json("bench", "seq", path)["bytes"], len(before))
        self.assertEqual(path.read_bytes(), before)

    # info

    def test_info_is_one_object_with_devices(self):
        devices = self.json("info")["devices"]
        self.assertIsInstance(devices, list)
        self.assertIn("host", json.dumps(devices))

    def test_info_for_people(self):
        self.assertIn("host", self.warpio("info").stdout)

    # read

    def check_read(self, path):
        data = path.read_bytes()
        expected = crc32c(data)
        text = self.warpio("read", path, "--checksum", "--device", "host").stdout
        self.assertIn(expected, re.findall(r"\b[0-9a-f]{8}\b", text))
        result = self.json("read", path, "--checksum")
        self.assertIn(expected, result.values())
        self.assertEqual(result["bytes"], len(data))
        self.assertEqual(sum(result["paths"].values()), len(data))

    def test_checksum_of_the_readme(self):
        self.assertEqual(crc32c(b"123456789"), "e3069283", "the published check value")
        self.check_read(README)

    def test_checksum_over_several_segments_and_an_odd_end(self):
        self.check_read(self.file("odd", 9 * MIB + 4097))

    def test_checksum_of_an_empty_file(self):
        self.check_read(self.file("empty", 0))

    # cp

    def test_cp_copies_and_verifies(self):
        source, target = self.file("source", 5 * MIB + 3), self.scratch / "target"
        target.write_bytes(b"replaced")
        self.assertEqual(self.json("cp", source, target, "--verify")["bytes"], 5 * MIB + 3)
        self.assertEqual(target.read_bytes(), source.read_bytes())
        self.assertEqual([p.name for p in self.scratch.iterdir()], ["target"])

    def test_cp_of_nothing_leaves_nothing(self):
        self.error("cp", self.folder / "missing", self.scratch / "target")
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_cp_interrupted_stops_and_leaves_nothing(self):
        source = self.folder / "large"
        with source.open("wb") as file:
            file.truncate(64 << 30)
        process = subprocess.Popen(
            [PROGRAM, "cp", str(source), str(self.scratch / "target")],
            env=environment(self.scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A shell's background job ignores the signal, and hands that down.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            deadline = time.monotonic() + 60
            while process.poll() is None and not any(self.scratch.iterdir()):
                self.assertLess(time.monotonic(), deadline, "cp has not begun to write")
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertIn(process.returncode, (FAILED, 128 + signal.SIGINT, -signal.SIGINT), errors)
        self.assertNotIn(b"panicked", errors)
        self.assertEqual(list(self.scratch.iterdir()), [])

    # Remote

    def nginx(self):
        """The URL of an nginx that serves the test's folder."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        paths = " ".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in TEMPORARY)
        configuration = self.folder / "nginx.conf"
        configuration.write_text(
            f"daemon off; worker_processes 2; pid {self.folder}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port}; root {self.folder}; }} }}\n"
        )
        # Daemons are not on the path of everybody.
        path = os.environ["PATH"] + ":/usr/sbin"
        command = [shutil.which("nginx", path=path) or "nginx", "-p", self.folder, "-c", configuration, "-e", "stderr"]
        if os.geteuid() == 0:
            # Its workers would be somebody else, whom the folder is closed to.
            command += ["-g", "user root;"]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                self.assertLess(time.monotonic(), deadline, "nginx does not listen")
                self.assertIsNone(server.poll(), "nginx ended")
                time.sleep(0.01)

    def test_an_http_url_is_read_and_copied(self):
        file = self.file("file", 9 * MIB + 3)
        url = self.nginx() + "/file"
        result = self.json("read", url, "--checksum")
        self.assertEqual(result["bytes"], 9 * MIB + 3)
        self.assertEqual(result["crc32c"], crc32c(file.read_bytes()))
        self.assertEqual(result["paths"], {"remote": 9 * MIB + 3})
        copy = self.folder / "copy"
        self.json("cp", url, copy, "--verify")
        self.assertEqual(copy.read_bytes(), file.read_bytes())
        self.assertIn("404", self.error("read", url + "-missing"))

    # Errors

    def test_missing_source_is_named(self):
        missing = self.folder / "missing"
        self.assertIn(str(missing), self.error("read", missing))
        self.assertIn(str(missing), self.error("read", missing, "--json"))

    def test_a_directory_is_no_source(self):
        self.assertIn(str(self.folder), self.error("read", self.folder))

    def test_a_device_that_is_not_there_is_not_replaced_by_the_host(self):
        self.assertIn("cuda:99", self.error("read", README, "--device", "cuda:99"))

    def test_a_bad_setting_is_named(self):
        done = subprocess.run(
            [PROGRAM, "read", str(README)],
            env=environment(self.scratch, WARPIO_TASK_SIZE="8Mibble"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertIn(done.returncode, (FAILED, WRONG_USAGE))
        self.assertIn("WARPIO_TASK_SIZE", done.stderr)

    def test_wrong_usage(self):
        for arguments in (
            [],
            ["no-such-command"],
            ["read"],
            ["read", README, "--no-such-option"],
            ["read", README, "--device", "potato"],
            ["cp", README],
            ["bench", "seq", "--size", "8Mibble"],
        ):
            with self.subTest(arguments=arguments):
                done = self.warpio(*arguments, expect=WRONG_USAGE)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")

    def test_help_and_version(self):
        self.assertIn("bench", self.warpio("--help").stdout)
        self.assertRegex(self.warpio("--version").stdout, r"^warpio \d+\.\d+\.\d+")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: smoke.py PROGRAM")
    PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is not built")
    unittest.main(verbosity=2)
