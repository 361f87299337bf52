"""`sandboxkit gate ask` at a terminal: what is asked, what an answer does, what the audit log holds.

Usage: gate_ask_test.py SANDBOXKIT [unittest arguments]     Numbers are cases of the gate's design, section 5.
"""
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import unittest

BINARY = ""
QUESTION = b"Your answer: "
SECONDS = 60  # Only a test that fails waits for so long.


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.home, self.data = self.root / "home/u", self.root / "srv/data"
        self.tree, self.state = self.home / "proj", self.root / "state"
        self.tree.mkdir(parents=True)
        self.data.mkdir(parents=True)
        (self.data / "x.csv").write_text("x")
        self.policy = self.root / "policy.json"
        self.policy.write_text('{"version": 1}')
        self.requests = self.root / "requests.jsonl"
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}

    def command(self, *options):
        return [BINARY, "gate", "ask", "--policy", str(self.policy), "--tree", str(self.tree), "--state-dir",
                str(self.state), "--request", str(self.requests), *options]

    def ask_for(self, *items):
        self.requests.write_text("".join(
            json.dumps({"cwd": str(self.tree), "why": "because", "items": [item]}) + "\n" for item in items))

    def at_terminal(self, answers, *options):
        """Runs it on a terminal and types one answer a question; returns status, decisions, what was seen."""
        decisions = self.root / "decisions"
        child, terminal = pty.fork()
        if child == 0:
            out = os.open(decisions, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(out, 1)
            os.execve(BINARY, self.command(*options), self.env)
        seen, asked = b"", 0
        while True:
            if not select.select([terminal], [], [], SECONDS)[0]:
                os.kill(child, 9)
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # The other end is closed.
                break
            while seen.count(QUESTION) > asked and asked < len(answers):
                os.write(terminal, answers[asked])
                asked += 1
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.assertEqual(asked, len(answers), seen)
        return status, [json.loads(line) for line in decisions.read_text().splitlines()], seen.decode()

    def log(self):
        done = subprocess.run([BINARY, "audit", "show", "--dir", str(self.state / "audit"), "--json"],
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def kinds(self):
        return [line["kind"] for line in self.log() if line["kind"] not in ("open", "seal")]

    def verify(self):
        done = subprocess.run([BINARY, "audit", "verify", "--dir", str(self.state / "audit"), "--key-file",
                               str(self.state / "grants.key")], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Asking(Case):
    def test_a_person_allows_once_and_the_log_says_so(self):
        self.ask_for({"op": "write", "path": str(self.data / "x.csv")})
        status, decisions, seen = self.at_terminal([b"o\n"])
        self.assertEqual((status, decisions[0]["decision"], decisions[0]["reason"]), (0, "allow", "allowed_once"))
        self.assertIn(f"write  {self.data}/x.csv", seen)
        self.assertIn("may lie: because", seen)
        self.assertEqual(self.kinds(), ["policy.load", "mode", "ask", "answer", "decision"])
        answer = next(line for line in self.log() if line["kind"] == "answer")
        self.assertEqual((answer["reason"], answer["decision"]), ("once", "allow"))
        self.assertTrue(re.fullmatch(r"tty:\S+@\S+", answer["by"]), answer)
        self.verify()

    def test_case_85_and_83_once_is_once_and_no_for_good_is_asked_no_more(self):
        item = {"op": "write", "path": str(self.data / "y")}
        self.ask_for(item, item, item)
        status, decisions, _ = self.at_terminal([b"o\n", b"x\n"])
        self.assertEqual(status, 3)
        self.assertEqual([one["reason"] for one in decisions], ["allowed_once", "refused", "refused_before"])

    def test_an_always_is_a_grant_that_the_owner_can_list(self):
        self.ask_for({"op": "read", "path": str(self.data / "x.csv")})
        self.assertEqual(self.at_terminal([b"f\n"])[0], 0)
        status, decisions, _ = self.at_terminal([])
        self.assertEqual((status, decisions[0]["branch"]), (0, "permanent_grant"))
        kept = json.loads((self.state / "grants.json").read_text())["grants"]
        self.assertEqual([(one["op"], one["target"]) for one in kept], [(["read"], str(self.data))])
        self.assertEqual(self.kinds().count("grant"), 1)

    def test_case_82_nobody_answers_in_time(self):
        self.ask_for({"op": "write", "path": str(self.data / "y")})
        status, decisions, seen = self.at_terminal([], "--timeout", "1")
        self.assertEqual((status, decisions[0]["reason"]), (3, "timeout"))
        self.assertIn("Nobody answered in time", seen)

    def test_case_99_a_name_cannot_paint_on_the_terminal(self):
        self.ask_for({"op": "write", "path": f"{self.data}/\u001b[2J\u202ea\nb"})
        _, _, seen = self.at_terminal([b"n\n"])
        self.assertNotIn("\x1b", seen)
        self.assertIn(r"\x1b[2J\u{202e}a\x0ab", seen)


class Alone(Case):
    def run_it(self, *options):
        return subprocess.run(self.command(*options), capture_output=True, text=True, timeout=SECONDS, env=self.env,
                              start_new_session=True, stdin=subprocess.DEVNULL)

    def test_case_81_without_a_terminal_it_is_denied(self):
        self.ask_for({"op": "write", "path": str(self.data / "y")})
        done = self.run_it()
        self.assertEqual((done.returncode, json.loads(done.stdout)["reason"]), (3, "no_handler"))

    def test_case_94_mode_off_is_one_line(self):
        self.ask_for({"op": "write", "path": str(self.home / ".bashrc")})
        self.assertEqual(self.run_it("--mode", "off").returncode, 0)
        self.assertEqual(self.kinds(), ["mode"])

    def test_bad_input_ends_with_2_and_writes_nothing(self):
        self.ask_for({"op": "read", "path": "x"})
        self.policy.write_text('{"version": 2}')
        self.assertEqual(self.run_it().returncode, 2)
        self.policy.write_text('{"version": 1}')
        self.assertEqual(self.run_it("--mode", "strict", "--box", "off").returncode, 2)
        self.assertEqual(self.run_it("--state-dir", str(self.tree / "state")).returncode, 2)
        self.requests.write_text("no request")
        self.assertEqual(self.run_it().returncode, 2)
        self.assertFalse(self.state.exists())


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
