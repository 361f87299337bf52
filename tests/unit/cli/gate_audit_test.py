"""`sandboxkit audit` on the log of a permission gate: a process, its exit code, and what it prints.

Usage: gate_audit_test.py SANDBOXKIT WRITE_LOG [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = WRITER = ""
DOCUMENT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "gate-audit.md"


class Log(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name) / "audit"
        self.key = pathlib.Path(folder.name) / "audit.key"
        self.env = {"PATH": os.environ["PATH"], "HOME": folder.name}

    def write(self, *lines):
        done = subprocess.run([WRITER, str(self.dir), str(self.key)], input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stdout.split(), ["done"] * len(lines), done.stderr)

    def run_it(self, command, *args):
        return subprocess.run([BINARY, "audit", command, "--dir", str(self.dir), *args], env=self.env,
                              capture_output=True, text=True, timeout=60)

    def verify(self, *args):
        return self.run_it("verify", "--key-file", str(self.key), *args)

    def segment(self):
        return sorted(self.dir.glob("*.jsonl"))[0]

    def edit(self, change):
        path = self.segment()
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


class Verify(Log):
    def test_an_intact_log_is_0(self):
        self.write("allow read /w/a", "deny read /home/u/.ssh/id_rsa")
        done = self.verify()
        self.assertEqual((done.returncode, done.stdout), (0, "4 records in 1 chain, intact\n"), done.stderr)
        without = self.run_it("verify")
        self.assertEqual(without.returncode, 0)
        self.assertIn("heads not checked against a key", without.stdout)
        view = json.loads(self.verify("--json").stdout)
        self.assertEqual((view["intact"], view["keyed"], view["broken_record"]), (True, True, None))
        self.assertEqual(view["heads"][0]["record"], 4)
        self.assertEqual(view["heads"][0]["hash"], json.loads(self.segment().read_text().splitlines()[-1])["h"])

    def test_a_broken_log_is_1_and_names_the_record(self):
        for change, record, how in [
            (lambda l: l[:3] + l[4:], 4, "is missing"),
            (lambda l: l[:2] + [l[2].replace(b"/w/1", b"/w/7")] + l[3:], 3, "does not fit"),
            (lambda l: l[:2] + [l[3], l[2]] + l[4:], 3, "is missing"),
            (lambda l: l[:3] + l[2:], 4, "stands in its place"),
            (lambda l: l[:-3], 5, "truncated at 4: the head names record 7"),
        ]:
            with self.subTest(how=how, record=record):
                shutil.rmtree(self.dir, ignore_errors=True)
                self.write(*[f"deny write /w/{i}" for i in range(5)])
                self.edit(change)
                done = self.verify()
                self.assertEqual(done.returncode, 1, done)
                self.assertRegex(done.stdout, rf"^chain [0-9a-z.-]+, record {record}: .*{how}")
                self.assertEqual(json.loads(self.verify("--json").stdout)["broken_record"], record)

    def test_what_cannot_be_told_is_2(self):
        self.assertEqual(self.run_it("verify").returncode, 2)
        self.write("deny read /x")
        self.key.chmod(0o644)
        done = self.verify()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("0600", done.stderr)
        for args in ([], ["--dir", "x", "--state-dir", "y"], ["--key-file", "x"]):
            done = subprocess.run([BINARY, "audit", "verify", *args], env=self.env, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)

    def test_a_folder_of_another_kind_is_2(self):
        self.dir.mkdir()
        (self.dir / "other.jsonl").write_text("{}\n")
        self.assertEqual(self.run_it("verify").returncode, 2)

    def test_the_document_tells_a_stranger_enough_to_verify_a_copy(self):
        self.write(*[f"deny write /w/{i}" for i in range(5)])
        self.write("deny read /other")
        program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S).group(1)
        self.assertLessEqual(len(program.splitlines()), 13)

        def judged():
            return subprocess.run([sys.executable, "-c", program], cwd=self.dir, capture_output=True, text=True)
        self.assertEqual(judged().returncode, 0, judged().stderr)
        whole = self.segment().read_bytes()
        for change in (lambda l: l[:2] + [l[2].replace(b"/w/1", b"/w/7")] + l[3:], lambda l: l[:-1],
                       lambda l: l[:2] + l[3:]):
            self.edit(change)
            self.assertNotEqual(judged().returncode, 0)
            self.segment().write_bytes(whole)
        head = next(self.dir.glob("*.head"))
        head.write_text(head.read_text().replace('"mac":"', '"mac":"0'))
        self.assertNotEqual(judged().returncode, 0)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a small file system")
    def test_a_file_system_that_is_full_refuses_and_recovers(self):
        script = """
            set -e; mount -t tmpfs -o size=128k none "$1"
            mkfifo "$1.in"; "$2" "$1/audit" "$3" < "$1.in" > "$1.out" & exec 9> "$1.in"
            echo 'deny read /first' >&9; until grep -q . "$1.out"; do :; done
            head -c 200000 /dev/zero > "$1/filler" || true
            echo "deny read /$(printf 'a%.0s' $(seq 6000))" >&9; until [ "$(wc -l < "$1.out")" = 2 ]; do :; done
            rm "$1/filler"
            echo 'deny read /last' >&9; until [ "$(wc -l < "$1.out")" = 3 ]; do :; done
            exec 9>&-; wait; cat "$1.out"; "$4" audit verify --dir "$1/audit" --key-file "$3"
            "$4" audit show --dir "$1/audit" --json --decision deny"""
        place = self.key.parent / "small"
        place.mkdir()
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(place), WRITER, str(self.key), BINARY],
                              capture_output=True, text=True, timeout=60)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:4], ["done", "audit_unavailable", "done", "4 records in 1 chain, intact"], done)
        self.assertEqual([json.loads(line).get("lost") for line in lines[4:]], [None, 1])


class Show(Log):
    def setUp(self):
        super().setUp()
        self.write("allow read /w/a", "deny read /home/u/.ssh/id_rsa", "allow exec git")
        self.write("deny write /w/.git/config")

    def test_all_chains_are_shown_in_the_order_of_time(self):
        done = self.run_it("show", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["kind"] for line in lines],
                         ["open"] + ["decision"] * 3 + ["seal", "open", "decision", "seal"])
        stored = b"".join(path.read_bytes() for path in self.dir.glob("*.jsonl")).decode().splitlines()
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(stored))
        table = self.run_it("show").stdout
        self.assertIn("WHAT", table.splitlines()[0])
        self.assertRegex(table, r"decision +deny +read /home/u/.ssh/id_rsa +work_tree +s1")

    def test_lines_are_chosen(self):
        for args, expected in ((["--decision", "deny"], 2), (["--kind", "seal"], 2), (["--session", "s1"], 4),
                               (["--session", "other"], 0), (["--lines", "3"], 3)):
            done = self.run_it("show", "--json", *args)
            self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, expected), args)
        last = self.run_it("tail", "--lines", "2", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["kind"] for line in last], ["decision", "seal"])

    def test_what_cannot_be_read_is_said_and_paints_nothing(self):
        self.edit(lambda l: [b"\x1b[31m\n", l[1].replace(b"/w/a", "/w/\u202e\u009b31m".encode()), *l[2:]])
        for command in ("show", "tail"):
            for more in ([], ["--json"]):
                done = self.run_it(command, *more)
                self.assertEqual(done.returncode, 0)
                self.assertIn("1 line cannot be read", done.stderr)
                self.assertNotRegex(done.stdout, "[\x1b\u202e\u009b]")

    def test_wrong_arguments_are_2_and_an_absent_folder_is_4(self):
        for args in (["show"], ["tail", "--dir", str(self.dir), "--lines", "0"]):
            done = subprocess.run([BINARY, "audit", *args], env=self.env, capture_output=True)
            self.assertEqual(done.returncode, 2, args)
        shutil.rmtree(self.dir)
        for command in ("show", "tail"):
            self.assertEqual(self.run_it(command).returncode, 4, command)

    def test_tail_follows_what_others_write(self):
        tail = subprocess.Popen([BINARY, "audit", "tail", "--dir", str(self.dir), "--follow", "--lines", "1",
                                 "--json", "--decision", "ask"], env=self.env, stdout=subprocess.PIPE, text=True)
        self.addCleanup(tail.stdout.close)
        self.addCleanup(tail.wait)
        self.addCleanup(tail.kill)
        self.write("ask read /later")
        line = json.loads(tail.stdout.readline())
        self.assertEqual(line["items"][0]["canonical"], "/later")


if __name__ == "__main__":
    BINARY, WRITER = (str(pathlib.Path(program).resolve()) for program in sys.argv[1:3])
    result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    # As doctest prints it, so that the cases are counted.
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed")
    sys.exit(bad != 0)
