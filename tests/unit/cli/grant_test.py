"""`sandboxkit grant` as a person gives grants on the host: the real files, exit codes, what it refuses.

Usage: grant_test.py SANDBOXKIT [unittest arguments]     Numbers are cases of the gate's design, section 5.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = ""
AGENT = ("--agent", "claude")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.home = self.root / "home/u"
        self.tree = self.home / "proj"
        self.data = self.root / "srv/data"
        self.data.mkdir(parents=True)
        self.tree.mkdir(parents=True)
        (self.data / "x.csv").write_text("x")
        self.gate = self.home / ".local/state/sandboxkit/gate"
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}

    def run_it(self, *words, cwd=None, command="grant", text=""):
        return subprocess.run([BINARY, command, *map(str, words)], capture_output=True, text=True, timeout=60,
                              env=self.env, cwd=cwd or self.tree, input=text)

    def good(self, *words, **more):
        done = self.run_it(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout.strip()

    def refused(self, code, words, *options):
        done = self.run_it(*options)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(words, done.stderr)

    def read_of_data(self, *options):
        return self.run_it("why", *AGENT, "--op", "read", self.data / "x.csv", *options)

    def add(self, *options):
        return self.good("add", *AGENT, "--op", "read", *options, f"{self.data}/**")

    def listed(self, *options):
        return json.loads(self.good("list", "--json", *options))["grants"]


class Giving(Case):
    def test_a_grant_counts_for_its_tree_agent_and_operation(self):
        # case 47, case 48, case 49
        self.assertEqual(self.read_of_data().returncode, 3)
        grant = self.add("--note", "the numbers")
        done = self.read_of_data()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"by permanent_grant `{grant}`", done.stdout)
        self.assertIn("the numbers", done.stdout)
        self.assertIn("given by `cli:", done.stdout)
        answer = json.loads(self.good("why", *AGENT, "--op", "read", "--json", self.data / "x.csv"))
        self.assertEqual((answer["grant"]["id"], answer["decision"]["decision"]), (grant, "allow"))
        self.assertEqual(self.run_it("why", *AGENT, "--op", "write", self.data / "x.csv").returncode, 3)
        self.assertEqual(self.run_it("why", "--agent", "aider", "--op", "read", self.data / "x.csv").returncode, 3)
        other = self.home / "other"
        other.mkdir()
        self.assertEqual(self.read_of_data("--tree", other).returncode, 3)

    def test_a_command_is_granted_by_its_words(self):
        self.good("add", *AGENT, "--", "ls", "-l")
        self.good("why", *AGENT, "--box", "off", "--", "ls", "-l")
        self.assertEqual(self.run_it("why", *AGENT, "--box", "off", "--", "ls").returncode, 3)
        self.good("add", *AGENT, "--prefix", "--", "git", "log")
        self.assertEqual([grant["match"] for grant in self.listed()], ["exact", "prefix"])

    def test_a_grant_that_could_never_count_is_refused(self):
        # case 11, case 66
        self.refused(3, "is denied", "add", *AGENT, "--op", "read", f"{self.home}/.ssh/config")
        self.refused(3, "covers the parent", "add", *AGENT, "--op", "read", f"{self.home}/**")
        self.refused(3, "runs whatever", "add", *AGENT, "--prefix", "--", "find")
        self.assertEqual(self.listed(), [])

    def test_wrong_options_end_with_2(self):
        target = f"{self.data}/**"
        for options in (["add", *AGENT, "--op", "frob", target], ["add", *AGENT, "--op", "exec", target],
                        ["add", *AGENT, "--op", "read", target, "more"], ["add", "--op", "read", target],
                        ["add", *AGENT, "--op", "read", "--for", "90s", target],
                        ["add", *AGENT, "--op", "read", "--for", "soon", target],
                        ["add", *AGENT, "--op", "read", "x"], ["rm"], ["rm", "g_1", "--all"],
                        ["rm", "--all", "--expired"], ["why", *AGENT, "--op", "read", "--op", "list", target]):
            done = self.run_it(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (options, done.stderr))

    def test_its_life_is_30_days_unless_a_person_says_otherwise(self):
        self.add()
        self.good("add", *AGENT, "--op", "list", "--for", "never", "--needs-box", f"{self.data}/**")
        first, second = self.listed()
        self.assertEqual((second["expires"], second["box"]), ("never", "required"))
        self.assertNotEqual(first["expires"], "never")
        self.assertIn("in 30d", self.good("list"))
        self.assertIn("never", self.good("list"))


class Keeping(Case):
    def test_lists_say_which_count_no_more_and_rm_takes_them_back(self):
        # case 50, B41
        first = self.add()
        shutil.move(self.tree, self.home / "moved")
        self.tree.mkdir()
        self.assertEqual([grant["state"] for grant in self.listed()], ["stale"])
        self.assertIn("grant_stale", self.read_of_data().stdout)
        second = self.add()
        self.assertEqual([grant["state"] for grant in self.listed("--tree", self.tree)], ["stale", "active"])
        self.assertEqual(self.listed("--agent", "aider"), [])
        self.good("rm", "--expired")
        self.assertEqual([grant["id"] for grant in self.listed()], [second])
        self.refused(4, "there is no grant", "rm", second, first)
        self.assertEqual(len(self.listed()), 1)
        self.good("rm", second)
        self.assertEqual(self.read_of_data().returncode, 3)
        self.assertEqual(self.run_it("list").stderr, "sandboxkit: there are no grants\n")

    def test_a_file_that_somebody_touched_is_ignored_loudly_until_a_person_begins_anew(self):
        # case 52, case 53, B22
        self.add()
        grants = self.gate / "grants.json"
        good = grants.read_bytes()
        for change in (lambda: grants.chmod(0o644), lambda: grants.write_bytes(good.replace(b"read", b"list")),
                       lambda: grants.write_text("{"), grants.unlink):
            grants.write_bytes(good)
            grants.chmod(0o600)
            change()
            done = self.read_of_data()
            self.assertEqual(done.returncode, 3)
            self.assertIn("grants-ignored: ", done.stderr)
            self.assertEqual(self.run_it("list").returncode, 1)
            self.refused(3, "grants-ignored: ", "add", *AGENT, "--op", "read", f"{self.data}/**")
        self.good("rm", "--all")
        self.add()
        self.assertEqual(self.read_of_data().returncode, 0)

    def test_what_is_given_and_taken_back_is_in_the_audit_log(self):
        grant = self.add()
        self.good("rm", grant)
        lines = self.good("show", "--dir", self.gate / "audit", "--json", command="audit").splitlines()
        changes = [line for line in map(json.loads, lines) if line["kind"] in ("grant", "revoke")]
        self.assertEqual([(line["kind"], line["gen"], line["grant"]) for line in changes],
                         [("grant", 1, grant), ("revoke", 2, grant)])
        self.assertEqual(changes[0]["items"], [{"op": "read", "requested": f"{self.data}/**"}])
        done = self.run_it("verify", "--dir", self.gate / "audit", "--key-file", self.gate / "grants.key", command="audit")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_gate_check_reads_the_same_file(self):
        grant = self.add()
        policy = self.root / "policy.json"
        policy.write_text('{"version": 1}')
        request = json.dumps({"cwd": str(self.tree), "items": [{"op": "read", "path": str(self.data / "x.csv")}]})
        answer = json.loads(self.good("check", "--policy", policy, "--tree", self.tree, "--grants",
                                      self.gate / "grants.json", *AGENT, "--request", "-", command="gate", text=request))
        self.assertEqual(answer["rule"], grant)

    def test_state_lies_where_xdg_says_and_never_in_a_tree(self):
        self.env["XDG_STATE_HOME"] = str(self.root / "state")
        self.add()
        self.assertTrue((self.root / "state/sandboxkit/gate/grants.json").exists())
        self.env["XDG_STATE_HOME"] = str(self.tree / "state")
        self.refused(2, "covers the gate's own state", "add", *AGENT, "--op", "read", f"{self.data}/**")
        self.assertFalse((self.tree / "state").exists())

    def test_the_owners_policy_in_the_folder_counts_and_one_in_the_tree_does_not(self):
        # case 54, B21
        allowing = json.dumps({"version": 1, "except": [{"op": ["read"], "target": "~/.ssh/config"}]})
        config = self.home / ".ssh/config"
        (self.tree / ".sandboxkit").mkdir()
        (self.tree / ".sandboxkit/policy.json").write_text(allowing)
        done = self.run_it("add", *AGENT, "--op", "read", config)
        self.assertEqual(done.returncode, 3)
        self.assertIn("is ignored", done.stderr)
        shutil.rmtree(self.tree / ".sandboxkit")
        self.good("list", "--json")
        (self.gate / "policy.json").write_text(allowing)
        self.good("add", *AGENT, "--op", "read", config)

    def test_inside_of_a_box_nothing_is_given_listed_or_taken_back(self):
        self.env["SANDBOXKIT_BOX"] = "b_1"
        for words in (["add", *AGENT, "--op", "read", f"{self.data}/**"], ["list"], ["rm", "--all"],
                      ["why", *AGENT, "--op", "read", self.data / "x.csv"]):
            self.refused(3, "inside of a box", *words)
        self.assertFalse(self.gate.exists())


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    # As doctest prints it, so that the cases are counted.
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed")
    sys.exit(bad != 0)
