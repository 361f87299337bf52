#!/usr/bin/env python3
"""Records agent mode at a terminal: agent-mode.cast (asciicast v2) and agent-mode.txt, beside this file.

Usage: docs/recordings/record.py BUILD        BUILD is a build folder with the command and the egress proxy

Everything that is shown is what real programs wrote at a real terminal; only the keys are scripted. The
machine is made for it, in a mount and host name namespace of its own, so no path or name of the real one
is seen and nothing is replaced in the output: /home, /srv and /usr/local are empty file systems in memory,
the user is `ada` (12345, with no right of root), the host `laptop`, the terminal the first one. Root's
start uses its own rights for that, another user's a user namespace.

Times are no measurement: keys and answers come at fixed steps (KEY, ANSWER, READ). What differs between
two runs is what the programs made: dates, identifiers, digests, process ids.
"""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import termios
import time

USER, NAME, HOST, HOME = 12345, "ada", "laptop", "/home/ada"
COLUMNS, ROWS = 110, 36
KEY, ANSWER, READ = 0.04, 0.3, 2.0  # Seconds in the recording: between keys, before output, to read it.
PATIENCE = 60  # Real seconds that output may take.
PROMPT, QUESTION = "\n~/proj$ ", "Your answer: "
INSIDE = "--inside"
GATE = "~/.local/state/sandboxkit/gate"

# What the agent of this recording asks for.
SUMMARY = {"cwd": f"{HOME}/proj", "items": [{"op": "write", "path": "/srv/reports/week-48.md"}],
           "why": "to save the summary"}
SALARIES = {"cwd": f"{HOME}/proj", "items": [{"op": "read", "path": "/srv/payroll/salaries.csv"}],
            "why": "to find a bug"}
HOOK = {"cwd": f"{HOME}/proj", "items": [{"op": "write", "path": ".git/hooks/pre-commit"}]}
FILES = {"proj/src/a.c": "int main(void) { return 0; }\n", ".ssh/id_ed25519": "a key\n",
         "hook.json": json.dumps(HOOK) + "\n", "summary.json": json.dumps(SUMMARY) + "\n",
         "salaries-twice.jsonl": 2 * (json.dumps(SALARIES) + "\n"),
         ".local/state/sandboxkit/gate/policy.json": '{"version": 1}\n'}

ASK = "sandboxkit gate ask --policy $G/policy.json --tree . --agent robot --request"
SAY = 'echo "exit code $?"'
BOX = "sh -c 'ls ~/.ssh; echo evil > .git/hooks/pre-commit; echo \"int b;\" >> src/%s'"
# What is typed at the shell, and what is answered to each question that comes.
STEPS = [
    ("# 1. The gate alone. No grant lifts the denial of git's hooks.", []),
    (f"G={GATE}", []),
    ("cat ~/hook.json", []),
    (f"sandboxkit gate check --policy $G/policy.json --tree . --request ~/hook.json; {SAY}", []),
    ("# 2. What no rule settles is asked. First: once.", []),
    ("cat ~/summary.json", []),
    (f"{ASK} ~/summary.json; {SAY}", ["o"]),
    ("# 3. The same again, as once is over. Now: always exactly this.", []),
    (f"{ASK} ~/summary.json; {SAY}", ["a"]),
    ("# 4. The same again: the permanent grant answers, and nobody is asked.", []),
    (f"{ASK} ~/summary.json; {SAY}", []),
    ("# 5. Two equal requests of one session: no, and not again. The second is refused without a question.", []),
    (f"{ASK} - < ~/salaries-twice.jsonl; {SAY}", ["x"]),
    ("# 6. What was given for good.", []),
    ("sandboxkit grant list", []),
    ("# 7. A box: ~/.ssh is not there, the hooks cannot be written, the tree changes at once.", []),
    (f"sandboxkit box --live -- {BOX % 'b.c'}; {SAY}", []),
    ("# 8. Staged: changes are kept aside until the command ended.", []),
    (f"sandboxkit box --staged -- {BOX % 'c.c'}; {SAY}", []),
    ("ls -A ~/.ssh .git/hooks src", []),
    ("# 9. What was decided, asked and answered, and whether somebody changed the log since.", []),
    ("sandboxkit audit show --dir $G/audit --kind ask", []),
    ("sandboxkit audit show --dir $G/audit --kind answer", []),
    ("sandboxkit audit show --dir $G/audit --kind answer --lines 1 --json", []),
    ("sandboxkit audit show --dir $G/audit --kind grant", []),
    ("sandboxkit audit show --dir $G/audit --kind decision", []),
    ("sandboxkit audit show --dir $G/audit --decision deny --lines 1 --json", []),
    (f"sandboxkit audit verify --dir $G/audit --key-file $G/grants.key; {SAY}", []),
]


def run(*words, **more):
    subprocess.run(words, check=True, **more)


def in_own_machine(build):
    """Starts this file again where mounts and the host's name are ours alone; returns its code."""
    rights = [] if os.geteuid() == 0 else ["--user", f"--map-user={USER}", f"--map-group={USER}", "--keep-caps"]
    return subprocess.run(["unshare", *rights, "--mount", "--uts", "--propagation", "private", sys.executable,
                           __file__, INSIDE, build], check=False).returncode


def make_machine(build):
    programs = [(build / "daemons" / name).read_bytes() for name in ("cli/sandboxkit", "egress/sandboxkit-egress")]
    for place in ("/home", "/srv", "/usr/local"):
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    run("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", "/dev/pts")
    run("hostname", HOST)
    for path, data in zip(("/usr/local/bin/sandboxkit", "/usr/local/libexec/sandboxkit/sandboxkit-egress"), programs):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(data)
        os.chmod(path, 0o755)
    for name, line in (("passwd", f"{NAME}:x:{USER}:{USER}::{HOME}:/bin/bash\n"), ("group", f"{NAME}:x:{USER}:\n")):
        names = pathlib.Path("/usr/local/etc", name)
        names.parent.mkdir(exist_ok=True)
        names.write_text(line)
        run("mount", "--bind", str(names), f"/etc/{name}")
    for name, data in FILES.items():
        path = pathlib.Path(HOME, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data)
    for name in ("reports", "payroll"):
        pathlib.Path("/srv", name).mkdir()
    pathlib.Path("/srv/payroll/salaries.csv").write_text("ada,1\n")
    os.chmod(os.path.expanduser(GATE.replace("~", HOME)), 0o700)
    run("git", "init", "-q", "--template=", f"{HOME}/proj", stderr=subprocess.DEVNULL)
    pathlib.Path(HOME, "proj/.git/hooks").mkdir()
    run("chown", "-R", f"{USER}:{USER}", HOME, "/srv")


class Terminal:
    """A shell of the user at a terminal, and what came of it at the recording's own times."""

    def __init__(self):
        self.events, self.now, self.seen = [], 0.0, ""
        self.terminal, other = os.openpty()
        termios.tcsetwinsize(other, (ROWS, COLUMNS))
        self.shell = os.fork()
        if self.shell == 0:
            self.become_terminal(other)
            os.chdir(f"{HOME}/proj")
            ids = ["--reuid", str(USER), "--regid", str(USER), "--clear-groups"] if os.geteuid() == 0 else []
            os.execve(shutil.which("setpriv"),
                      ["setpriv", *ids, "--inh-caps=-all", "--ambient-caps=-all", "bash", "--norc", "--noprofile",
                       "--noediting", "-i"],
                      {"HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm",
                       "PS1": r"\w$ ", "USER": NAME, "HISTFILE": ""})
        os.close(other)

    def become_terminal(self, other):
        os.setsid()
        for number in (0, 1, 2):
            os.dup2(other, number)
        os.close(os.open(os.ttyname(0), os.O_RDWR))  # A session's first terminal becomes its own.

    def read_until(self, is_there):
        """What the terminal shows until `is_there` says so of it."""
        text, end = b"", time.monotonic() + PATIENCE
        while not is_there(text.decode(errors="replace").replace("\r\n", "\n")):
            if not select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit(f"this was not followed by what was waited for: {text.decode(errors='replace')!r}")
            text += os.read(self.terminal, 65536)
        return text.decode()

    def show(self, text, after):
        self.now += after
        self.events.append([round(self.now, 2), "o", text])
        self.seen += text

    def type(self, text):
        self.now += READ / 2
        for letter in text:
            os.write(self.terminal, letter.encode())
            self.show(self.read_until(lambda echo: echo == letter), KEY)

    def step(self, line, answers):
        self.type(line)
        for answer in answers:
            os.write(self.terminal, b"\n")
            self.show(self.read_until(lambda text: text.endswith(QUESTION)), ANSWER)
            self.now += READ
            self.type(answer)
        os.write(self.terminal, b"\n")
        text = self.read_until(lambda text: text.endswith(PROMPT))
        if QUESTION in text:
            sys.exit(f"`{line}` asked more than was expected")
        self.show(text, ANSWER)
        self.now += 0 if line.startswith("#") else READ

    def end(self):
        os.close(self.terminal)
        os.kill(self.shell, signal.SIGHUP)
        os.waitpid(self.shell, 0)


def record():
    terminal = Terminal()
    terminal.show(terminal.read_until(lambda text: text.endswith(PROMPT[1:])), 0)
    for line, answers in STEPS:
        terminal.step(line, answers)
    terminal.end()
    return terminal


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") and sys.argv[1] != INSIDE:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[-1]).resolve()
    if sys.argv[1] != INSIDE:
        sys.exit(in_own_machine(str(build)))
    folder = pathlib.Path(__file__).resolve().parent
    make_machine(build)
    made = record()
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "sandboxkit: agent mode",
              "env": {"TERM": "xterm", "SHELL": "/bin/bash"}}
    lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in [header, *made.events]]
    (folder / "agent-mode.cast").write_text("".join(lines))
    (folder / "agent-mode.txt").write_text(made.seen.replace("\r\n", "\n").rstrip().removesuffix(PROMPT.strip()))


if __name__ == "__main__":
    main()
