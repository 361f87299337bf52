#!/usr/bin/env python3
"""The `box` command, as an ordinary user: what it shows, keeps, lets out and tells.

Usage: box_test.py SANDBOXKIT SANDBOXKIT_EGRESS PROFILES
"""
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EGRESS, PROFILES = sys.argv[1:4]
ORDINARY = 12345


class BoxTest(unittest.TestCase):
    def setUp(self):
        # On the disk that the build is on: boxes hide /tmp.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="box-cli-", dir=os.environ["BOX_BASE"]))
        self.home = self.root / "home"
        self.tree = self.home / "proj"
        for name in (".ssh/id_rsa", ".bashrc", "proj/src/a.c", "proj/.env", "proj/.git/config",
                     "proj/.git/hooks/pre-commit"):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("of the host\n")
        self.state = self.home / ".local/state/sandboxkit/gate"

    def tearDown(self):
        subprocess.run(["chmod", "-R", "u+rwX", self.root], check=False)
        shutil.rmtree(self.root)

    def environment(self):
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
                "AWS_SECRET_ACCESS_KEY": "s", "ANTHROPIC_API_KEY": "a", "XDG_CONFIG_HOME": str(self.root / "config")}

    def box(self, *words, options=(), **more):
        command = [PROGRAM, "box", "--egress-binary", EGRESS, *options, "--", *words]
        return subprocess.run(command, cwd=self.tree, env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **more)

    def test_the_command_sees_its_tree_and_no_secret_and_its_code_is_ours(self):
        # B31.
        ran = self.box("sh", "-c", "cat src/a.c; cat .env ~/.ssh/id_rsa ~/.bashrc; env; pwd; exit 7")
        self.assertEqual(ran.returncode, 7, ran.stderr)
        self.assertTrue(ran.stdout.startswith("of the host\n"))
        self.assertEqual(ran.stdout.count("of the host"), 1)
        self.assertNotIn("AWS_SECRET_ACCESS_KEY", ran.stdout)
        self.assertNotIn("ANTHROPIC_API_KEY", ran.stdout)
        self.assertIn("SANDBOXKIT_BOX=1", ran.stdout)
        self.assertIn(f"HOME={self.home}", ran.stdout)
        self.assertIn(f"\n{self.tree}\n", ran.stdout)

    def test_a_live_run_changes_the_tree_and_what_nobody_may_make_is_set_apart(self):
        # Case 92, and B11.
        ran = self.box("sh", "-c", "echo new > src/a.c; echo x > .git/config; mkdir -p n/.git/hooks; "
                                   "echo evil > n/.git/hooks/x; echo y > n/.envrc; echo z > n/ok")
        self.assertIn("Read-only", ran.stderr)
        self.assertEqual((self.tree / "src/a.c").read_text(), "new\n")
        self.assertEqual((self.tree / ".git/config").read_text(), "of the host\n")
        self.assertFalse((self.tree / "n/.git/hooks").exists())
        self.assertTrue((self.tree / "n/.git/hooks.sandboxkit-quarantine/x").exists())
        self.assertTrue((self.tree / "n/.envrc.sandboxkit-quarantine").exists())
        self.assertTrue((self.tree / "n/ok").exists())
        self.assertIn("set apart", ran.stderr)
        self.assertIn("changed src/a.c", ran.stderr)
        self.assertEqual([p.name for p in self.tree.iterdir() if p.name == ".mcp.json"], [])

    def test_a_staged_run_makes_what_is_allowed_and_keeps_the_rest_aside(self):
        # Case 93.
        ran = self.box("sh", "-c", "echo new > src/a.c; mkdir -p n/.git/hooks; echo evil > n/.git/hooks/x; "
                                   "cat src/a.c; cat " + str(self.tree / "n/.git/hooks/x"),
                       options=["--staged"])
        self.assertEqual(ran.stdout, "new\nevil\n", ran.stderr)
        self.assertEqual((self.tree / "src/a.c").read_text(), "new\n")
        self.assertFalse((self.tree / "n/.git/hooks").exists())
        self.assertIn("refused", ran.stderr)
        kept = list((self.state / "box").glob("run-*/o0/upper/n/.git/hooks/x"))
        self.assertEqual(len(kept), 1, ran.stderr)
        quiet = self.box("sh", "-c", "echo more >> src/a.c", options=["--staged"])
        self.assertIn("1 made", quiet.stderr)
        self.assertEqual(len(list((self.state / "box").glob("run-*"))), 1)

    def test_a_review_without_a_person_makes_nothing(self):
        ran = self.box("sh", "-c", "echo new > src/a.c", options=["--review"], start_new_session=True)
        self.assertIn("nothing was made", ran.stderr)
        self.assertEqual((self.tree / "src/a.c").read_text(), "of the host\n")

    def test_the_way_out_is_the_proxy_and_it_says_what_it_refused(self):
        # The proxy dials nothing of its own machine, so an allowed name that leads here tells both:
        # the name was let through, and the address was not.
        ran = self.box("sh", "-c", "for u in allowed.example other.example; do "
                                   "curl -sS -o /dev/null -w '%{http_code} ' http://$u/; done; "
                                   "curl -sS --noproxy '*' --max-time 5 http://203.0.113.1/ || echo no other way",
                       options=["--allow", "allowed.example", "--host", "allowed.example=127.0.0.1"])
        self.assertEqual(ran.stdout, "403 403 no other way\n", ran.stderr)
        self.assertIn("refused allowed.example:80 (resolved_address_denied), 1 times", ran.stderr)
        self.assertIn("refused other.example:80 (not_in_allow_list), 1 times", ran.stderr)
        self.assertEqual(list((self.state / "box").glob("proxy-*")), [])

    def test_a_profile_brings_its_home_its_variables_and_its_places(self):
        (self.home / ".local/bin").mkdir(parents=True)
        (self.home / ".local/bin/tool").write_text("#!/bin/sh\necho tool $ANTHROPIC_API_KEY\n")
        (self.home / ".local/bin/tool").chmod(0o755)
        (self.home / ".claude").mkdir()
        (self.home / ".claude/CLAUDE.md").write_text("be kind\n")
        options = ["--profile", str(pathlib.Path(PROFILES) / "claude.json")]
        ran = self.box("sh", "-c", "~/.local/bin/tool; cat ~/.claude/CLAUDE.md; echo kept > ~/note; "
                                   "echo x > ~/.local/bin/tool", options=options)
        self.assertTrue(ran.stdout.startswith("tool a\nbe kind\n"), ran.stdout + ran.stderr)
        self.assertFalse((self.home / "note").exists())
        again = self.box("sh", "-c", "cat ~/note; ls -A ~", options=options)
        self.assertIn("kept\n", again.stdout)
        self.assertNotIn(".ssh", again.stdout)
        fresh = self.box("ls", "-A", str(self.home), options=[*options, "--fresh-home"])
        self.assertNotIn("note", fresh.stdout)

    def test_profiles_that_ship_can_be_read_and_a_wrong_one_says_where(self):
        for profile in sorted(pathlib.Path(PROFILES).glob("*.json")):
            with self.subTest(profile.name):
                ran = self.box("true", options=["--profile", str(profile)])
                self.assertEqual(ran.returncode, 0, ran.stderr)
        wrong = self.root / "wrong.json"
        wrong.write_text('{"version": 1, "places": [{"path": "x", "access": "ro"}]}')
        ran = self.box("true", options=["--profile", str(wrong)])
        self.assertEqual(ran.returncode, 2)
        self.assertIn("places[0].path", ran.stderr)
        self.assertEqual(self.box("true", options=["--profile", "nobodys"]).returncode, 4)
        wrong.write_text('{"version": 1, "seeds": ["~/.ssh/id_rsa"]}')
        ran = self.box("true", options=["--profile", str(wrong)])
        self.assertEqual(ran.returncode, 3, ran.stderr)

    def test_a_terminal_works_and_the_window_is_the_boxes(self):
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.tree)
            os.execve(PROGRAM, [PROGRAM, "box", "--", "sh", "-c", "tty; read x; echo got $x; exit 5"], self.environment())
        out = b""
        while b"/dev/pts/0" not in out:
            out += os.read(master, 4096)
        os.write(master, b"word\n")
        try:
            while True:
                piece = os.read(master, 4096)
                if not piece:
                    break
                out += piece
        except OSError:
            pass  # The end of a terminal.
        self.assertIn(b"got word", out)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)

    def test_a_signal_reaches_the_command(self):
        command = [PROGRAM, "box", "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"]
        with subprocess.Popen(command, cwd=self.tree, env=self.environment(), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            running.send_signal(signal.SIGTERM)
            self.assertEqual(running.wait(30), 9)

    def test_names_that_are_held_are_nothing_to_git(self):
        shutil.rmtree(self.tree / ".git")
        subprocess.run(["git", "init", "-q", "."], cwd=self.tree, env=self.environment(), check=True)
        for mode in ("--live", "--staged"):
            with self.subTest(mode):
                ran = self.box("sh", "-c", "test -e .mcp.json && git add -A && git diff --cached --name-only",
                               options=[mode])
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual(ran.stdout, "src/a.c\n", ran.stderr)

    def test_wrong_words_are_told(self):
        self.assertEqual(self.box("no-such-program").returncode, 127)
        self.assertEqual(self.box("true", options=["--live", "--staged"]).returncode, 2)
        self.assertEqual(self.box(options=[]).returncode, 2)
        probe = subprocess.run([PROGRAM, "box", "--probe"], text=True, capture_output=True, check=True)
        self.assertIn("strength: ", probe.stdout)


def main():
    base = tempfile.mkdtemp(prefix="box-cli-", dir=os.getcwd())
    os.environ["BOX_BASE"] = base
    if os.geteuid() == 0:
        os.chown(base, ORDINARY, ORDINARY)
        pid = os.fork()
        if pid != 0:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            shutil.rmtree(base)
            sys.exit(code)
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
    if subprocess.run([PROGRAM, "box", "--probe"], capture_output=True, check=False).returncode != 0 and \
            "box" not in os.environ.get("SANDBOXKIT_MUST_RUN", ""):
        os._exit(77)
    result = unittest.main(argv=[sys.argv[0]], exit=False).result
    os._exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
