"""`sandboxkit gate check` as an owner runs it in CI: real files, JSON lines, exit codes.

Usage: gate_test.py SANDBOXKIT [unittest arguments]     Numbers are cases of the gate's design, section 5.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

BINARY = ""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.home = self.root / "home/u"
        self.tree = self.home / "proj"
        self.data = self.root / "srv/data"
        for path in ("src", ".git/hooks", ".git/objects", ".git/refs", "sub/.git/hooks"):
            (self.tree / path).mkdir(parents=True)
        for path in ("src/a.c", ".git/config", ".git/HEAD", ".env", ".env.example", "sub/.git/config"):
            (self.tree / path).write_text("x")
        (self.home / ".ssh").mkdir()
        for path in (".ssh/id_rsa", ".ssh/known_hosts", ".bashrc"):
            (self.home / path).write_text("x")
        self.data.mkdir(parents=True)
        (self.data / "x.csv").write_text("x")
        self.policy = self.write("policy.json", {"version": 1})

    def write(self, name, value):
        path = self.root / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def run_it(self, *options, text=""):
        return subprocess.run(
            [BINARY, "gate", "check", "--policy", self.policy, "--tree", self.tree, "--home", self.home,
             "--request", "-", *options], input=text, capture_output=True, text=True, timeout=60,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)})

    def request(self, *items):
        return json.dumps({"cwd": str(self.tree), "items": list(items)})

    def ask(self, *items, options=(), warning=""):
        done = self.run_it(*options, text=self.request(*items))
        self.assertIn(warning, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1 if warning else 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if answer["decision"] == "allow" else 3)
        return answer

    def check(self, expected, *items, options=(), warning=""):
        answer = self.ask(*items, options=options, warning=warning)
        self.assertEqual((answer["decision"], answer["branch"]), expected, answer)
        return answer


ALLOWED = ("allow", "work_tree")
DENIED = ("deny", "mandatory_denial")
LOCKED = ("deny", "hardlock")
ASKED = ("ask", "ask")


class Paths(Case):
    def test_the_tree_is_a_matter_of_course_and_nothing_beside_it(self):
        for number, op, path, expected in (
                (1, "read", "src/a.c", ALLOWED), (3, "create", "new/dir/f", ALLOWED), (5, "delete", ".", DENIED),
                (6, "read", "../proj/src/a.c", ALLOWED), (7, "write", "../other/f", ASKED),
                (8, "write", f"{self.tree}-evil/f", ASKED), (9, "read", "../.ssh/id_rsa", DENIED),
                (16, "read", f"/proc/self/root{self.home}/.ssh/id_rsa", LOCKED),
                (17, "read", "/proc/1/environ", LOCKED), (18, "write", ".git/hooks/pre-commit", DENIED),
                (21, "write", ".git/objects/ab", ALLOWED), (25, "create", "a/b/c/d/e/.git/hooks/x", DENIED),
                (34, "create", ".VSCode", DENIED), (35, "create", ".g\u200cit/hooks/x", DENIED),
                (39, "read", ".env", DENIED), (41, "read", ".env.example", ALLOWED),
                (42, "write", ".github/workflows/ci.yml", ASKED), (45, "read", "/usr/bin/env", ALLOWED),
                (46, "read", "/etc/shadow", DENIED), (87, "read", "a\0b", LOCKED), (87, "read", "a" * 5000, LOCKED),
                (87, "frob", "x", LOCKED)):
            with self.subTest(number=number, path=path):
                self.check(expected, {"op": op, "path": path})
        self.check(LOCKED, {"op": "write", "path": f"{self.home}/.local/state/sandboxkit/gate/grants.json"})

    def test_links_hard_links_and_what_directories_hold(self):
        (self.tree / "link").symlink_to(self.home / ".ssh/id_rsa")
        (self.tree / "linkdir").symlink_to(self.data)
        (self.tree / "in").symlink_to("src/a.c")
        os.link(self.home / ".bashrc", self.tree / "hl")
        os.link(self.home / ".ssh/id_rsa", self.tree / "notes")
        os.link(self.tree / ".git/config", self.tree / "innocent")
        os.link(self.tree / "src/a.c", self.tree / "twice")
        answer = self.check(DENIED, {"op": "read", "path": "link"})
        self.assertEqual(answer["items"][0]["via"][0], str(self.tree / "link"))
        self.assertEqual(answer["items"][0]["canonical"], str(self.home / ".ssh/id_rsa"))
        self.check(ASKED, {"op": "write", "path": "linkdir/f"})
        self.check(ALLOWED, {"op": "write", "path": "in"})
        self.check(ALLOWED, {"op": "delete", "path": "link"})
        for number, path in ((36, "hl"), (36, "innocent")):
            self.check(DENIED, {"op": "write", "path": path})
        self.check(DENIED, {"op": "read", "path": "notes"})
        self.check(ALLOWED, {"op": "write", "path": "twice"})
        for number, path, to in ((20, ".env.example", ".git/config"), (22, ".git", ".g2"), (23, "sub", "s2")):
            self.check(DENIED, {"op": "rename", "path": path, "to": to})
        self.check(DENIED, {"op": "symlink", "path": ".mcp.json", "to": "x"})
        self.check(DENIED, {"op": "link", "path": str(self.home / ".bashrc"), "to": "x"})

    def test_the_strictest_item_decides(self):
        answer = self.check(DENIED, {"op": "read", "path": "src/a.c"}, {"op": "read", "path": "/srv/none"},
                            {"op": "write", "path": ".git/config"})
        self.assertEqual([item["decision"] for item in answer["items"]], ["allow", "ask", "deny"])
        self.assertEqual(answer["source"], "shipped")


class Others(Case):
    def test_commands(self):
        for number, text, expected in (
                (56, "ls -l", ALLOWED), (64, "LD_PRELOAD=/tmp/x.so ls", LOCKED), (65, "timeout 5 sudo ls", LOCKED),
                (69, "cat ~/.ssh/id_rsa", DENIED), (70, "python3 -c \"open('/home/u/.ssh/id_rsa')\"", ALLOWED),
                (71, "docker ps", LOCKED), (62, "ls > ~/.bashrc", DENIED)):
            with self.subTest(number=number):
                self.check(expected, {"op": "exec", "command": text})
        self.check(ASKED, {"op": "exec", "argv": ["ls"]}, options=["--box", "off"])
        self.check(("deny", "ask"), {"op": "exec", "argv": ["ls"]}, options=["--box", "off", "--mode", "strict"])

    def test_variables_addresses_and_sockets(self):
        path = self.root / "agent.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            self.check(ASKED, {"op": "unix", "path": str(path)})
        self.check(LOCKED, {"op": "connect", "host": "169.254.169.254", "port": 80})
        self.check(ASKED, {"op": "connect", "host": "x.com", "port": 443})
        self.check(ALLOWED, {"op": "listen", "host": "127.0.0.1", "port": 3000})
        self.check(DENIED, {"op": "env", "name": "AWS_SECRET_ACCESS_KEY"})
        self.check(ALLOWED, {"op": "env", "name": "LANG"})
        self.policy = self.write("p.json", {"version": 1, "egress": {"allowed_domains": ["api.example.com"]}})
        self.check(("allow", "permanent_grant"), {"op": "connect", "host": "api.example.com", "port": 443})

    def test_modes(self):
        self.check(("deny", "ask"), {"op": "write", "path": "/srv/y"}, options=["--mode", "strict"])
        answer = self.ask({"op": "write", "path": f"{self.home}/.bashrc"}, options=["--mode", "off"])
        self.assertEqual((answer["decision"], answer["reason"]), ("allow", "mode_off"))

    def test_an_exception_lifts_a_denial_and_no_more(self):
        self.policy = self.write("p.json", {"version": 1, "except": [
            {"op": ["read"], "target": "~/.ssh/known_hosts"}, {"op": ["read"], "target": "${tree}/.env"}]})
        self.check(ASKED, {"op": "read", "path": "../.ssh/known_hosts"})
        self.check(DENIED, {"op": "read", "path": "../.ssh/id_rsa"})
        self.check(ALLOWED, {"op": "read", "path": ".env"})


class Grants(Case):
    def grants(self, **changes):
        status = self.tree.stat()
        grant = {"id": "g_1", "op": ["read"], "target": f"{self.data}/**", "box": "any",
                 "scope": {"tree": str(self.tree), "dev": status.st_dev, "ino": status.st_ino, "agent": "claude"},
                 "created": "2026-11-01T00:00:00Z", "expires": "2026-12-01T00:00:00Z", **changes}
        return self.write("grants.json", {"version": 1, "generation": 1, "grants": [grant], "mac": "hmac-sha256:0"})

    def options(self, agent="claude", now="2026-11-30T00:00:00Z"):
        return ["--grants", self.root / "grants.json", "--agent", agent, "--now", now]

    def test_a_grant_is_for_its_operation_tree_agent_and_time(self):
        read = {"op": "read", "path": f"{self.data}/x.csv"}
        self.grants()
        answer = self.check(("allow", "permanent_grant"), read, options=self.options())
        self.assertEqual(answer["rule"], "g_1")
        self.check(ASKED, {**read, "op": "write"}, options=self.options())
        self.check(ASKED, read, options=self.options(agent="other"))
        self.check(ASKED, read, options=self.options(now="2026-12-02T00:00:00Z"))
        self.check(ASKED, read)
        scope = {"tree": str(self.tree), "dev": 1, "ino": 2, "agent": "claude"}
        self.grants(scope=scope)
        self.assertEqual(self.check(ASKED, read, options=self.options())["reason"], "grant_stale")

    def test_a_forged_grant_beats_no_denial(self):
        self.grants(target=f"{self.home}/.ssh/**")
        self.check(DENIED, {"op": "read", "path": "../.ssh/id_rsa"}, options=self.options())

    def test_a_command_is_granted_word_by_word(self):
        self.grants(op=["exec"], target="", argv=["ls", "-l"])
        options = [*self.options(), "--box", "off"]
        self.check(("allow", "permanent_grant"), {"op": "exec", "command": "sh -c 'ls -l'"}, options=options)
        self.check(ASKED, {"op": "exec", "command": "ls -l && rm x"}, options=options)
        self.check(ASKED, {"op": "exec", "command": "ls"}, options=options)

    def test_grants_that_cannot_be_read_grant_nothing_and_that_is_said(self):
        for text in ("{", '{"version": 1, "grants": [{"id": "g"}]}'):
            self.write("grants.json", text)
            done = self.run_it(*self.options(), text=self.request({"op": "read", "path": f"{self.data}/x.csv"}))
            self.assertEqual(done.returncode, 3)
            self.assertIn("grants are ignored", done.stderr)


class Input(Case):
    def test_one_request_a_line_and_one_answer_each(self):
        lines = [self.request({"op": "read", "path": "src/a.c"}), "", self.request({"op": "read", "path": ".env"})]
        done = self.run_it(text="\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([json.loads(line)["decision"] for line in done.stdout.splitlines()], ["allow", "deny"])

    def test_names_are_escaped_on_their_line(self):
        done = self.run_it(text=self.request({"op": "read", "path": "src/a\n\x1b[2J\u202e.c"}))
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertNotIn("\x1b", done.stdout)
        self.assertNotIn("\u202e", done.stdout)
        self.assertIn("\u202e", json.loads(done.stdout)["items"][0]["requested"])

    def test_a_bad_policy_or_request_ends_with_2_and_says_where(self):
        good = self.policy
        for text, words in (("{", "byte"), ('{"version": 2}', "version"),
                            ('{"version": 1, "deny": [{"op": ["frob"], "target": "/x"}]}', "deny[0].op[0]"),
                            ('{"version": 1, "roots": [{"path": "/", "access": "rw"}]}', "roots[0]")):
            self.policy = self.write("bad.json", text)
            done = self.run_it(text=self.request({"op": "read", "path": "src/a.c"}))
            self.assertEqual((done.returncode, done.stdout), (2, ""), text)
            self.assertIn(words, done.stderr)
        self.policy = good
        for text in ("", "nonsense", '{"items": 1}'):
            self.assertEqual(self.run_it(text=text).returncode, 2)
        self.assertEqual(self.run_it("--now", "today", text="{}").returncode, 2)
        self.assertEqual(self.run_it("--mode", "lax", text="{}").returncode, 2)

    def test_a_policy_in_the_tree_is_nobodys_and_that_is_said(self):
        # case 54, B21
        (self.tree / ".sandboxkit").mkdir()
        (self.tree / ".sandboxkit/policy.json").write_text('{"version": 1, "except": [{"op": ["all"], "target": "~/.ssh"}]}')
        warning = "policy.json` is ignored"
        self.check(DENIED, {"op": "read", "path": "../.ssh/id_rsa"}, warning=warning)
        self.check(DENIED, {"op": "write", "path": ".sandboxkit/policy.json"}, warning=warning)

    def test_a_pointer_out_of_the_tree_allows_nothing_and_that_is_said(self):
        # case 28, B12
        shutil.rmtree(self.tree / ".git")
        (self.tree / ".git").write_text("gitdir: ../.ssh\n")
        warning = f"points to `{self.home}/.ssh`"
        self.check(DENIED, {"op": "read", "path": "../.ssh/id_rsa"}, warning=warning)
        self.check(DENIED, {"op": "write", "path": ".git"}, warning=warning)
        (self.home / "elsewhere").mkdir()
        (self.tree / ".git").write_text("gitdir: ../elsewhere\n")
        self.check(ASKED, {"op": "write", "path": "../elsewhere/x"}, warning="/elsewhere`")

    def test_a_tree_that_holds_the_home_is_refused(self):
        self.tree = self.home
        done = self.run_it(text=self.request({"op": "read", "path": "x"}))
        self.assertEqual(done.returncode, 2)
        self.assertIn("covers the home", done.stderr)


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    # As doctest prints it, so that the cases are counted.
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed")
    sys.exit(bad != 0)
