"""How the daemons take their configuration: as processes, by what they print and how they end.

Usage: process_test.py CONTROLLER WORKER [unittest arguments]
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CONTROLLER = ""
WORKER = ""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.state = self.folder / "state"
        self.env = {"PATH": os.environ["PATH"]}

    def run_it(self, *args, **env):
        return subprocess.run([*args], env=self.env | env, capture_output=True, timeout=30, text=True)

    def file(self, text, mode=0o600):
        path = self.folder / "c.yaml"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def effective(self, *args, **env):
        done = self.run_it(*args, "--check-config", **env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split(" = ", 1) for line in done.stdout.splitlines())


class Refusals(Case):
    def refused(self, *args, **env):
        """A start and a check say the same, and neither leaves anything."""
        done = self.run_it(*args, **env)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        check = self.run_it(*args, "--check-config", **env)
        self.assertEqual((check.returncode, check.stderr, check.stdout), (2, done.stderr, ""))
        self.assertFalse(self.state.exists())
        return done.stderr

    def test_an_unknown_key_is_refused_with_its_place_and_a_suggestion(self):
        path = self.file(f"state_dir: {self.state}\nmax_conections: 5\n")
        self.assertEqual(self.refused(CONTROLLER, "--config", path),
                         f"sandboxkit-controller: {path}:2: unknown key `max_conections`; did you mean `max_connections`?\n")
        path = self.file(f"controller: http://127.0.0.1:1\nstate_dir: {self.state}\nlog:\n  levl: info\n")
        self.assertEqual(self.refused(WORKER, "--config", path),
                         f"sandboxkit-worker: {path}:4: unknown key `log.levl`; did you mean `log.level`?\n")

    def test_all_problems_of_all_sources_are_told_at_once(self):
        path = self.file("listen: 7070\nlisten: x:1\napi: {threads: 0}\n")
        said = self.refused(CONTROLLER, "--config", path, "--max-connections", "1_000", "--lisen", "a:1",
                            SANDBOXKIT_CONTROLLER_LOG_LEVL="info").splitlines()
        for place in (f"{path}:1: ", f"{path}:2: ", f"{path}:3: ", "--max-connections: ", "--lisen: ",
                      "env SANDBOXKIT_CONTROLLER_LOG_LEVL: ", "`state_dir` is required"):
            self.assertEqual(sum(line.startswith("sandboxkit-controller: " + place) for line in said), 1, (place, said))
        self.assertEqual(len(said), 7, said)

    def test_an_option_given_twice_is_refused(self):
        for args in (["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"], ["--listen=127.0.0.1:0", "--listen=x:1"]):
            said = self.refused(CONTROLLER, "--state-dir", str(self.state), *args)
            self.assertEqual(said, "sandboxkit-controller: --listen: `listen` is given more than once\n")

    def test_two_join_tokens_of_one_kind_are_refused(self):
        said = self.refused(WORKER, "--state-dir", str(self.state), "--controller", "http://127.0.0.1:1",
                            "--join-token", "jn_hidden", "--join-token-file", self.file("jn_x\n"))
        self.assertIn("`join_token` and `join_token_file` say the same", said)
        self.assertNotIn("jn_", said)

    def test_a_token_file_that_cannot_be_read_is_refused_at_its_place(self):
        path = self.file(f"controller: http://127.0.0.1:1\nstate_dir: {self.state}\njoin_token_file: /none\n")
        self.assertEqual(self.refused(WORKER, "--config", path),
                         f"sandboxkit-worker: {path}:3: no token can be read from `/none`\n")

    def test_a_secret_in_a_file_that_others_can_read_is_refused(self):
        text = f"controller: http://127.0.0.1:1\nstate_dir: {self.state}\njoin_token: jn_hidden\n"
        for mode in (0o604, 0o640, 0o620):
            path = self.file(text, mode)
            said = self.refused(WORKER, "--config", path)
            self.assertTrue(said.startswith(f"sandboxkit-worker: {path}:3: `join_token` is a secret"), said)
            self.assertIn(f"chmod 600 {path}", said)
            self.assertNotIn("jn_hidden", said)
        path = self.file(text)
        self.assertEqual(self.effective(WORKER, "--config", path)["join_token"], f"(set)  # {path}:3")

    def test_a_file_that_cannot_be_read_is_refused(self):
        for path in ("/none", str(self.folder)):
            said = self.refused(CONTROLLER, "--config", path)
            self.assertTrue(said.startswith(f"sandboxkit-controller: {path}: cannot be read: "), said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_a_file_of_another_kind_is_refused_in_time(self):
        for text in ("[" * 1_000_000, "a: " * 300_000, "x" * 2_000_000, "a: &a [*a]\n", "\0" * 100):
            self.refused(CONTROLLER, "--state-dir", str(self.state), "--config", self.file(text))


class Strength(Case):
    def test_environment_beats_flag_beats_file_beats_default(self):
        path = self.file(f"state_dir: {self.state}\nmax_connections: 2\n")
        flag = ["--max-connections", "3"]
        variable = {"SANDBOXKIT_CONTROLLER_MAX_CONNECTIONS": "4"}
        for args, env, line in (
                (["--state-dir", "/x"], {}, "20000  # default"),
                (["--config", path], {}, f"2  # {path}:2"),
                (["--config", path, *flag], {}, f"3  # --max-connections (over {path}:2)"),
                (["--config", path, *flag], variable,
                 f"4  # env SANDBOXKIT_CONTROLLER_MAX_CONNECTIONS (over --max-connections, {path}:2)")):
            self.assertEqual(self.effective(CONTROLLER, *args, **env)["max_connections"], line)

    def test_the_file_itself_may_come_from_the_environment(self):
        path = self.file(f"state_dir: {self.state}\n")
        said = self.effective(CONTROLLER, "--config", "/none", SANDBOXKIT_CONTROLLER_CONFIG=path)
        self.assertEqual(said["config"], f'"{path}"  # env SANDBOXKIT_CONTROLLER_CONFIG (over --config)')
        self.assertEqual(said["state_dir"], f'"{self.state}"  # {path}:1')

    def test_an_empty_file_is_good(self):
        self.effective(CONTROLLER, "--state-dir", "/x", "--config", self.file(""))

    def test_two_join_tokens_of_two_kinds_leave_the_stronger(self):
        args = ["--controller", "http://127.0.0.1:1", "--state-dir", "/x"]
        path = self.file("join_token: jn_weak\n")
        said = self.effective(WORKER, *args, "--config", path, SANDBOXKIT_JOIN_TOKEN="jn_strong")
        self.assertEqual(said["join_token"], f"(set)  # env SANDBOXKIT_JOIN_TOKEN (over {path}:1)")
        path = self.file("join_token_file: /none\n")
        said = self.effective(WORKER, *args, "--config", path, SANDBOXKIT_JOIN_TOKEN="jn_strong")
        self.assertEqual(said["join_token_file"], f'""  # {path}:1, unused: env SANDBOXKIT_JOIN_TOKEN is stronger')

    def test_a_token_file_is_the_source_and_its_token_is_not_shown(self):
        said = self.effective(WORKER, "--controller", "http://127.0.0.1:1", "--state-dir", "/x",
                              "--join-token-file", self.file("jn_hidden\n"))
        self.assertEqual(said["join_token_file"], f'"{self.folder}/c.yaml"  # --join-token-file')
        self.assertEqual(said["join_token"], "(not set)  # default")

    def test_a_worker_takes_maps_and_lists_from_each_source(self):
        args = ["--controller", "http://127.0.0.1:1", "--state-dir", "/x"]
        path = self.file("labels: {zone: eu, disk: ssd}\ndns: [10.0.0.1]\n")
        said = self.effective(WORKER, *args, "--config", path, "--dns", "a", "--dns", "b",
                              SANDBOXKIT_WORKER_EGRESS_HOSTS="x.test=10.0.0.2,y.test=10.0.0.3")
        self.assertEqual(said["labels"], f"[disk=ssd, zone=eu]  # {path}:1")
        self.assertEqual(said["dns"], f"[a, b]  # --dns (over {path}:2)")
        self.assertEqual(said["egress_hosts"],
                         "[x.test=10.0.0.2, y.test=10.0.0.3]  # env SANDBOXKIT_WORKER_EGRESS_HOSTS")


class Page(Case):
    def test_the_example_of_the_documentation_says_what_the_daemon_says(self):
        page = (pathlib.Path(__file__).parents[3] / "docs/configuration.md").read_text()
        path = self.file(page.split("```yaml\n")[1].split("```")[0])
        shown = page.split("```console\n")[1].split("```")[0].splitlines()
        said = self.effective(CONTROLLER, "--config", path, "--listen", "127.0.0.1:0", SANDBOXKIT_CONTROLLER_LOG_LEVEL="debug")
        for line in shown[1:]:
            if line != "...":
                name, value = line.replace("/etc/sandboxkit/controller.yaml", path).split(" = ", 1)
                self.assertEqual(said[name], value)


class Run(Case):
    def test_a_controller_runs_from_its_file_and_logs_as_the_file_says(self):
        port_file = self.folder / "port"
        path = self.file(f"state_dir: {self.state}\nlisten: '127.0.0.1:0'\nport_file: {port_file}\nlog: {{format: json}}\n")
        process = subprocess.Popen([CONTROLLER, "--config", path], env=self.env, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 20
        while not port_file.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with socket.create_connection(("127.0.0.1", int(port_file.read_text())), timeout=10):
            pass
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)
        self.assertTrue((self.state / "operator.key").exists())

    def test_a_check_opens_no_port_and_makes_nothing(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            self.effective(CONTROLLER, "--state-dir", str(self.state), "--listen", listen,
                           "--port-file", str(self.folder / "port"))
            # Nobody called: a worker's check does not look whether its controller is there.
            self.effective(WORKER, "--state-dir", str(self.state), "--controller", f"http://{listen}",
                           "--join-token", "jn_x")
            taken.setblocking(False)
            self.assertRaises(BlockingIOError, taken.accept)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_help_names_each_option_with_its_variable(self):
        for binary, variable in ((CONTROLLER, "SANDBOXKIT_CONTROLLER_LISTEN"), (WORKER, "SANDBOXKIT_JOIN_TOKEN")):
            done = self.run_it(binary, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn(variable, done.stdout)
            self.assertIn("--check-config", done.stdout)


if __name__ == "__main__":
    CONTROLLER = os.path.abspath(sys.argv.pop(1))
    WORKER = os.path.abspath(sys.argv.pop(1))
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    # As doctest prints it, so that the cases are counted.
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed")
    sys.exit(bad != 0)
