"""The command as its users meet it: a process, its exit code, and what it prints where.

Usage: process_test.py SANDBOXKIT [unittest arguments]
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fake_controller import FakeController  # noqa: E402

BINARY = ""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = {"PATH": os.environ["PATH"], "HOME": folder.name}

    def run_it(self, *args, **more):
        return subprocess.run([BINARY, *args], env=self.env, capture_output=True, timeout=60, **more)

    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)


class Usage(Case):
    def test_every_command_has_help(self):
        for command in ("create run ls rm show isolation renew exec shell cp workers token key workspace egress gate grant audit "
                        "place login completion version").split():
            done = self.run_it(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)
            self.assertIn(b"Usage: sandboxkit " + command.encode(), done.stdout)

    def test_help_has_the_exit_codes_and_examples(self):
        self.assertIn(b"Exit codes:", self.run_it().stdout)
        for command in ("create", "run", "exec", "cp", "place", "login"):
            self.assertIn(b"Examples:", self.run_it(command, "--help").stdout, command)

    def test_wrong_arguments_end_with_2_and_say_where_help_is(self):
        for args in (["bogus"], ["exec"], ["run", "--bogus"], ["cp", "a"], ["token"], ["place"],
                     ["create", "--cpu", "x"], ["egress", "check", "--policy", "x"]):
            done = self.run_it(*args)
            self.assertEqual((done.returncode, done.stdout), (2, b""), args)
            self.assertTrue(done.stderr.startswith(b"sandboxkit: "), done.stderr)
            self.assertIn(b"--help`", done.stderr)

    def test_without_a_controller_it_says_how_to_name_one(self):
        done = self.run_it("ls")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"SANDBOXKIT_URL", done.stderr)

    def test_a_controller_that_is_away_is_5(self):
        self.env |= {"SANDBOXKIT_URL": "http://127.0.0.1:1", "SANDBOXKIT_KEY": "sk_test"}
        done = self.run_it("ls")
        self.assertEqual(done.returncode, 5)
        self.assertIn(b"is it running?", done.stderr)

    def test_the_completion_script_is_bash_and_knows_the_commands(self):
        script = self.run_it("completion", "bash").stdout
        probe = (b'sandboxkit() { echo box; }\n' + script +
                 b'COMP_WORDS=(sandboxkit "$@"); COMP_CWORD=$(($# ))\n'
                 b'compopt() { :; }\n_sandboxkit; echo "${COMPREPLY[*]}"\n')
        path = self.write("probe.sh", probe.decode())
        ask = lambda *words: subprocess.run(["bash", path, *words], capture_output=True, check=True,
                                            text=True).stdout.split()
        self.assertEqual(ask("wor"), ["workers", "workspace"])
        self.assertEqual(ask("token", ""), ["create", "ls", "rm", "--help"])
        self.assertEqual(ask("run", "--allow"), ["--allow", "--allow-network"])
        self.assertIn("box", ask("exec", "b"))

    def test_version_is_one_line(self):
        self.assertRegex(self.run_it("version").stdout.decode(), r"^sandboxkit \d+\.\d+\.\d+\n$")


class Offline(Case):
    def test_egress_check_prints_one_line_a_target(self):
        policy = self.write("p.json", {"allowed_domains": ["*.example.org"]})
        done = self.run_it("egress", "check", "--policy", policy, "https://api.example.org/", "evil.test:443")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], [
            {"target": "https://api.example.org/", "decision": "allow", "rule": "*.example.org", "reason": "allowed"},
            {"target": "evil.test:443", "decision": "deny", "rule": None, "reason": "not_in_allow_list"}])
        self.assertEqual(self.run_it("egress", "check", "--policy", policy, "a.example.org:443").returncode, 0)

    def test_egress_check_judges_address_and_server_name(self):
        policy = self.write("p.json", {"allowed_domains": ["*.example.org"]})
        for more in (["--resolved", "169.254.169.254"], ["--resolved", "0x7f.1"], ["--sni", "other.example.org"]):
            done = self.run_it("egress", "check", "--policy", policy, *more, "a.example.org:443")
            self.assertEqual(done.returncode, 3, more)

    def test_a_bad_policy_is_2(self):
        for text in ("", "[]", '{"allowed_domain": []}', '{"allowed_domains": ["*"]}', '{"allowed_domains": "x"}'):
            done = self.run_it("egress", "check", "--policy", self.write("p.json", text), "a.b:443")
            self.assertEqual((done.returncode, done.stdout), (2, b""), text)
        self.assertEqual(self.run_it("egress", "check", "--policy", "/none", "a.b:443").returncode, 2)

    def test_place_says_where_or_why_not(self):
        fleet = self.write("f.json", {"workers": [{"id": "w-1", "workspace": "acme"}]})
        done = self.run_it("place", "--fleet", fleet, "--create", self.write("c.json", {"tenant": "acme"}), "--json")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["placement"], {"worker": "w-1"})
        walled = self.write("c.json", {"tenant": "acme", "egress": {"allowed_domains": []}})
        done = self.run_it("place", "--fleet", fleet, "--create", walled, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout), {"refusal": {
            "error": "worker_capability_unavailable", "code": 409, "counts": {"capability": 1}, "retry_after": None}})
        done = self.run_it("place", "--fleet", fleet, "--create", walled)
        self.assertIn(b"offers `egress`", done.stdout)

    def test_place_repeats_on_what_is_left(self):
        fleet = self.write("f.json", {"workers": [{"id": "w-1", "workspace": "", "memory_mb": 1024}]})
        create = self.write("c.json", {"tenant": "acme"})
        done = self.run_it("place", "--fleet", fleet, "--create", create, "--json", "--repeat", "3")
        self.assertEqual(done.returncode, 3)
        kinds = [next(iter(json.loads(line))) for line in done.stdout.splitlines()]
        self.assertEqual(kinds, ["placement", "placement", "refusal"])

    def test_place_refuses_bad_input_with_its_path(self):
        create = self.write("c.json", {"tenant": "acme"})
        for fleet, path in (({"workers": [{"id": "w-1"}]}, b"workers[0].workspace"), ({"worker": []}, b"workers"),
                            ({"workers": [], "x": 1}, b"`x`")):
            done = self.run_it("place", "--fleet", self.write("f.json", fleet), "--create", create, "--json")
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(path, done.stderr)


class Online(Case):
    def setUp(self):
        super().setUp()
        self.fake = FakeController()
        self.addCleanup(self.fake.close)
        self.env |= {"SANDBOXKIT_URL": self.fake.url, "SANDBOXKIT_KEY": "sk_test"}

    def sandbox(self):
        return self.run_it("create", "--deny-all").stdout.decode().strip()

    def start(self, *args, **more):
        process = subprocess.Popen([BINARY, *args], env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process


class Sandboxes(Online):
    def test_create_prints_the_id_or_all(self):
        done = self.run_it("create", "--allow", "a.test", "--allow", "b.test:8443", "--name", "build")
        self.assertEqual((done.returncode, done.stdout), (0, b"i00000000000000000000\n"))
        self.assertEqual(self.fake.sandboxes["i00000000000000000000"]["egress"],
                         {"allowed_domains": ["a.test", "b.test:8443"]})
        self.assertEqual(json.loads(self.run_it("create", "--json").stdout)["egress"], {"allowed_domains": []})

    def test_a_refusal_is_3_with_its_message(self):
        self.fake.refusal = (409, "worker_capability_unavailable", "no worker can build a wall")
        done = self.run_it("create")
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertEqual(done.stderr.splitlines()[0], b"sandboxkit: no worker can build a wall")

    def test_a_key_that_does_not_count_is_6(self):
        self.env["SANDBOXKIT_KEY"] = "sk_other"
        self.assertEqual(self.run_it("ls").returncode, 6)

    def test_ls_follows_pages_and_prints_a_table_json_or_ids(self):
        ids = [self.sandbox() for _ in range(5)]
        self.assertEqual(self.run_it("ls", "-q").stdout.decode().split(), ids)
        self.assertEqual([s["id"] for s in json.loads(self.run_it("ls", "--json").stdout)["sandboxes"]], ids)
        lines = self.run_it("ls").stdout.decode().splitlines()
        self.assertEqual(lines[0].split()[:3], ["ID", "NAME", "STATE"])
        self.assertEqual([line.split()[0] for line in lines[1:]], ids)

    def test_rm_takes_several_and_goes_on_after_one_that_is_not_there(self):
        first, second = self.sandbox(), self.sandbox()
        done = self.run_it("rm", first, "gone", second)
        self.assertEqual((done.returncode, done.stdout.decode().split()), (4, [first, second]))
        self.assertEqual(self.fake.sandboxes, {})
        self.assertEqual(self.run_it("rm", "--force", "gone").returncode, 0)
        self.assertEqual(self.run_it("rm").returncode, 2)

    def test_what_the_sandbox_chose_cannot_paint_on_the_terminal(self):
        done = self.run_it("egress", "denied", self.sandbox())
        self.assertIn(b"evil\\x1b[2J.test", done.stdout)

    def test_the_isolation_card_is_for_people_or_as_it_came(self):
        sandbox = self.sandbox()
        lines = self.run_it("isolation", sandbox).stdout.decode().splitlines()
        self.assertEqual(lines[0], f"{sandbox}, running, on w-1")
        self.assertEqual(lines[1].split(maxsplit=2), ["root", "declared", "Not root."])
        self.assertIn("It stands\\x1b[2J. (told ", lines[2])
        card = json.loads(self.run_it("isolation", sandbox, "--json").stdout)
        self.assertEqual([line["known"] for line in card["lines"]], ["declared", "structural"])
        self.assertEqual(self.run_it("isolation", "none").returncode, 4)

    def test_a_token_is_printed_alone(self):
        done = self.run_it("token", "create", "--unscoped", "--ttl", "1h", "--uses", "3")
        self.assertEqual((done.returncode, done.stdout), (0, b"jn_secret\n"))
        self.assertEqual(json.loads(self.fake.calls[-1][2]), {"max_uses": 3, "ttl_seconds": 3600, "workspace": ""})

    def test_a_tokens_and_a_keys_bounds_are_sent(self):
        self.run_it("token", "create", "--network", "10.0.0.0/8", "--network", "fd00::/8", "--capability", "egress")
        self.assertEqual(json.loads(self.fake.calls[-1][2]),
                         {"capabilities": ["egress"], "networks": ["10.0.0.0/8", "fd00::/8"]})
        done = self.run_it("key", "create", "--max-sandboxes", "2", "--max-cpu-cores", "1.5", "--max-memory-mb", "64",
                           "--ttl", "1m")
        self.assertEqual((done.returncode, done.stdout), (0, b"sk_secret\n"))
        self.assertEqual(json.loads(self.fake.calls[-1][2]),
                         {"role": "member", "max_sandboxes": 2, "max_cpu_cores": 1.5, "max_memory_mb": 64,
                          "ttl_seconds": 60})

    def test_a_key_for_one_sandbox_is_asked_for_at_the_sandbox(self):
        self.run_it("key", "create", "--sandbox", "build", "--name", "agent")
        self.assertEqual(self.fake.calls[-1][:2], ("POST", "/v1/sandboxes/build/tokens"))
        self.assertEqual(json.loads(self.fake.calls[-1][2]), {"name": "agent"})
        self.run_it("key", "ls", "--sandbox", "build")
        self.assertEqual(self.fake.calls[-1][:2], ("GET", "/v1/sandboxes/build/tokens"))
        self.run_it("key", "rm", "abc", "--sandbox", "build")
        self.assertEqual(self.fake.calls[-1][:2], ("DELETE", "/v1/sandboxes/build/tokens/abc"))

    def test_workers_are_listed_for_people_and_programs(self):
        self.assertIn(b"every workspace", self.run_it("workers").stdout)
        self.assertRegex(self.run_it("workers", "--json").stdout, rb'"connected": *true')

    def test_login_keeps_url_and_key_for_later_calls(self):
        env = self.env
        self.env = {"PATH": env["PATH"], "HOME": env["HOME"]}
        self.assertEqual(self.run_it("login", "--url", self.fake.url, input=b"wrong\n").returncode, 6)
        self.assertEqual(self.run_it("login", "--url", self.fake.url, input=b"sk_test\n").returncode, 0)
        self.assertEqual(self.run_it("workers").returncode, 0)
        self.assertEqual((self.folder / ".config/sandboxkit/config.json").stat().st_mode & 0o777, 0o600)


class Commands(Online):
    def test_exec_keeps_streams_apart_and_passes_the_exit_code(self):
        done = self.run_it("exec", self.sandbox(), "--", "exit", "42")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (42, b"out\n", b"err\n"))

    def test_exec_sends_environment_directory_user_and_deadline(self):
        self.run_it("exec", "--env", "A=1", "--cwd", "/srv", "--user", "root", "--timeout", "2m", self.sandbox(),
                    "--", "ls", "--", "-la")
        self.assertEqual(json.loads(self.fake.calls[-1][2]), {
            "command": ["ls", "--", "-la"], "stream": True, "env": {"A": "1"}, "cwd": "/srv", "user": "root",
            "timeout_seconds": 120})

    def test_a_command_that_is_not_there_is_127(self):
        done = self.run_it("exec", self.sandbox(), "--", "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn(b"no-such-command", done.stderr)

    def test_a_deadline_is_124_and_a_broken_stream_5(self):
        self.assertEqual(self.run_it("exec", self.sandbox(), "--", "late").returncode, 124)
        self.assertEqual(self.run_it("exec", self.sandbox(), "--", "break").returncode, 5)

    def test_a_sandbox_that_is_not_there_is_4(self):
        self.assertEqual(self.run_it("exec", "gone", "--", "ls").returncode, 4)

    def test_standard_input_reaches_the_command(self):
        done = self.run_it("exec", "-i", self.sandbox(), "--", "cat", input=b"x" * 100_000)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, b"x" * 100_000, b""))

    def test_run_makes_uses_and_removes_a_sandbox(self):
        done = self.run_it("run", "--allow", "a.test", "--", "exit", "7")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, b"out\n", b"err\n"))
        self.assertEqual([call[:2] for call in self.fake.calls], [
            ("POST", "/v1/sandboxes"), ("POST", "/v1/sandboxes/i00000000000000000000/exec"),
            ("DELETE", "/v1/sandboxes/i00000000000000000000")])

    def test_run_keeps_what_it_is_told_to_keep(self):
        done = self.run_it("run", "--keep", "--", "exit", "0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(self.fake.sandboxes), 1)
        self.assertIn(b"kept as i000", done.stderr)

    def test_run_removes_its_sandbox_when_the_command_cannot_start(self):
        self.assertEqual(self.run_it("run", "--", "no-such-command").returncode, 127)
        self.assertEqual(self.fake.sandboxes, {})

    def test_ctrl_c_removes_the_sandbox_of_a_run(self):
        process = self.start("run", "--", "hang")
        self.assertEqual(process.stdout.readline(), b"started\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertEqual(self.fake.sandboxes, {})
        self.assertEqual(process.stderr.read(), b"")

    def test_ctrl_c_undoes_a_create_whose_answer_has_not_come(self):
        self.fake.hold_create = True
        process = self.start("run", "--", "hang")
        self.assertTrue(self.fake.create_started.wait(20))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 143)
        self.assertEqual(self.fake.sandboxes, {})
        self.assertEqual(len(self.fake.by_request_key), 1)

    def test_a_reader_that_goes_away_ends_a_run_and_removes_its_sandbox(self):
        process = self.start("run", "--", "flood")
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.wait(30), 141)
        self.assertEqual(self.fake.sandboxes, {})

    def test_a_shell_needs_a_terminal(self):
        done = self.run_it("shell", self.sandbox(), stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"exec -i", done.stderr)

    def test_progress_is_for_terminals_only(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(BINARY, [BINARY, "create"], self.env)
        seen = b""
        try:
            while piece := os.read(terminal, 4096):
                seen += piece
        except OSError:
            pass
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertIn(b"creating the sandbox...", seen)
        self.assertEqual(self.run_it("create").stderr, b"")


class Copies(Online):
    def test_a_file_goes_up_and_down(self):
        box, data = self.sandbox(), os.urandom(300_000)
        source, back = self.folder / "src.bin", self.folder / "back.bin"
        source.write_bytes(data)
        self.assertEqual(self.run_it("cp", str(source), f"{box}:/data/x").returncode, 0)
        self.assertEqual(self.fake.files["/data/x"], data)
        self.assertEqual(self.run_it("cp", f"{box}:/data/x", str(back)).returncode, 0)
        self.assertEqual(back.read_bytes(), data)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["back.bin", "src.bin"])

    def test_a_copy_into_a_directory_keeps_the_name(self):
        box = self.sandbox()
        source = self.write("name.txt", "hello")
        for target in ("/tmp", "/tmp/"):
            self.fake.files.clear()
            self.assertEqual(self.run_it("cp", source, f"{box}:{target}").returncode, 0)
            self.assertEqual(self.fake.files, {"/tmp/name.txt": b"hello"})
        (self.folder / "down").mkdir()
        self.assertEqual(self.run_it("cp", f"{box}:/tmp/name.txt", str(self.folder / "down")).returncode, 0)
        self.assertEqual((self.folder / "down/name.txt").read_text(), "hello")

    def test_a_dash_is_standard_input_and_output(self):
        box = self.sandbox()
        self.assertEqual(self.run_it("cp", "-", f"{box}:/x", input=b"piped").returncode, 0)
        done = self.run_it("cp", f"{box}:/x", "-")
        self.assertEqual((done.returncode, done.stdout), (0, b"piped"))

    def test_what_is_not_there_is_4_and_leaves_nothing(self):
        box = self.sandbox()
        self.assertEqual(self.run_it("cp", "/none", f"{box}:/x").returncode, 4)
        self.assertEqual(self.run_it("cp", f"{box}:/none", str(self.folder / "x")).returncode, 4)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_exactly_one_side_is_a_sandbox(self):
        self.assertEqual(self.run_it("cp", "a", "b").returncode, 2)
        self.assertEqual(self.run_it("cp", "a:x", "b:y").returncode, 2)


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    # As doctest prints it, so that the cases are counted.
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed")
    sys.exit(bad != 0)
