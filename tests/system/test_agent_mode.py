"""Agent mode: a sandbox is a box on an ordinary user's machine, in that user's own work tree."""
import fcntl
import os
import select
import shutil
import subprocess
import termios
import threading

import pytest

from agent_house import AgentHouse
from house import Daemon, binary, wait_for


@pytest.fixture(scope="module")
def agents(upstream):
    built = AgentHouse(upstream.address, worker_options=["--ask-timeout-ms", "20000"])
    yield built
    left = built.close()
    assert left == [], f"left behind after the whole run: {left}"


@pytest.fixture
def boxed(agents):
    """The sandbox of most tests: one works in the tree at a time."""
    running = agents.sandboxes()
    return running[0]["id"] if running else agents.sandbox(egress={"allowed_domains": ["packages.test"]})


@pytest.fixture
def no_box(agents):
    for sandbox in agents.sandboxes():
        agents.delete(sandbox["id"])
    wait_for(lambda: not agents.sandboxes(), 20, "no sandbox")


class Asked:
    """A call that waits for a person, on a thread of its own."""

    def __init__(self, call):
        self.result = None
        self.thread = threading.Thread(target=lambda: setattr(self, "result", call()))
        self.thread.start()

    def told(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.result


def test_an_agent_works_in_the_users_tree_as_that_user(agents, boxed):
    assert f"uid={agents.user}" in agents.run(boxed, "id")
    assert agents.run(boxed, "pwd").strip() == str(agents.tree)
    agents.run(boxed, "sh", "-c", "mkdir made && echo new > made/b.c")
    assert (agents.tree / "made" / "b.c").read_text() == "new\n"
    agents.run(boxed, "sh", "-c", "git add made/b.c && git -c user.name=a -c user.email=a@b commit -qm one")
    log = subprocess.run(["git", "-c", f"safe.directory={agents.tree}", "-C", str(agents.tree), "log", "--oneline"],
                         capture_output=True, text=True, check=True)
    assert log.stdout.endswith("one\n")


def test_files_are_read_and_written_in_the_tree(agents, boxed):
    assert agents.put(boxed, "made/c.bin", bytes(range(256)) * 1000) == 200
    assert agents.get(boxed, f"{agents.tree}/made/c.bin") == (200, bytes(range(256)) * 1000)


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/config", ".mcp.json", ".vscode/tasks.json", ".envrc"])
def test_what_would_run_later_with_the_users_rights_is_not_written(agents, boxed, path):
    before = (agents.tree / path).read_bytes() if (agents.tree / path).is_file() else b""
    assert agents.put(boxed, path, b"evil") == 403
    # The same where no gate reads what a program does: the kernel says no.
    script = f"import os; os.makedirs(os.path.dirname('{path}') or '.', exist_ok=True); open('{path}', 'w').write('evil')"
    assert "Error" in agents.run(boxed, "python3", "-c", script)
    after = (agents.tree / path).read_bytes() if (agents.tree / path).is_file() else b""
    assert after == before


def test_keys_are_neither_there_for_the_file_calls_nor_for_programs(agents, boxed):
    key = agents.home / ".ssh" / "id_rsa"
    assert agents.get(boxed, key)[0] == 404
    assert agents.put(boxed, key, b"evil") == 403
    script = "import glob, os; print(glob.glob(os.path.expanduser('~') + '/.s*'), sorted(set(os.listdir(os.path.expanduser('~'))) - {'proj'}))"
    assert agents.run(boxed, "python3", "-c", script).strip() == "[] []"
    status, answer = agents.exec(boxed, ["cat", str(key)], key=agents.agent_key)
    assert (status, answer["error"]) == (403, "gate_denied")
    assert key.read_text() == "the key\n"


def test_privileges_are_no_way_out(agents, boxed):
    status, answer = agents.exec(boxed, ["sudo", "id"], key=agents.agent_key)
    assert (status, answer["error"]) == (403, "gate_denied")
    assert "Seccomp:\t2" in agents.run(boxed, "cat", "/proc/self/status")
    assert "NoNewPrivs:\t1" in agents.run(boxed, "cat", "/proc/self/status")


def test_the_only_way_out_is_the_proxy_with_its_allow_list(agents, boxed):
    assert agents.run(boxed, "curl", "-sS", "http://packages.test/") == "hello from upstream\n"
    assert "not on this sandbox's allow-list" in agents.run(boxed, "curl", "-sS", "http://other.test/")
    direct = agents.run(boxed, "curl", "-sS", "--noproxy", "*", "-m", "5", f"http://{agents.upstream_address}/")
    assert "hello" not in direct and "curl:" in direct
    status, denied = agents.api("GET", f"/v1/sandboxes/{boxed}/egress/denied")
    assert status == 200 and [line["host"] for line in denied["denied"]] == ["other.test"]


def test_a_question_waits_for_the_owner_and_once_is_once(agents, boxed):
    path = agents.outside / "once"
    asked = Asked(lambda: agents.put(boxed, path, b"first"))
    question = agents.question()
    assert question["sandbox"] == boxed and question["asks"][0] == {"op": "write", "text": str(path)}
    # Not the agent's own key, and nobody below an owner.
    status, refused = agents.answer(question, "once", key=agents.agent_key)
    assert (status, refused["error"]) == (403, "owner_required")
    assert agents.api("GET", "/v1/approvals", key=agents.agent_key)[0] == 403
    # And no answer for something else than was shown.
    changed = agents.answer({**question, "digest": "sha256:" + "0" * 64}, "once")
    assert (changed[0], changed[1]["error"]) == (409, "approval_changed")
    assert agents.answer(question, "once")[0] == 200
    assert asked.told() == 200 and path.read_text() == "first"
    again = Asked(lambda: agents.put(boxed, path, b"second"))
    assert agents.answer(agents.question(), "no")[0] == 200
    assert again.told() == 403 and path.read_text() == "first"


def test_the_command_shows_questions_and_answers_them(agents, boxed):
    asked = Asked(lambda: agents.put(boxed, agents.outside / "by-command", b"x"))
    listed = agents.cli("approvals", "--wait", "30")
    assert listed.returncode == 0 and b"by-command" in listed.stdout and b"no_for_session" in listed.stdout
    question = listed.stdout.decode().splitlines()[1].split()[0]
    assert agents.cli("approvals", "answer", question, "always_folder_and_more").returncode != 0
    assert agents.cli("approvals", "answer", question, "once").returncode == 0
    assert asked.told() == 200
    assert b"nobody asks anything" in agents.cli("approvals").stderr


def test_the_card_says_that_it_is_a_box_in_the_users_tree(agents, boxed):
    status, card = agents.api("GET", f"/v1/sandboxes/{boxed}/isolation")
    assert status == 200, card
    text = " ".join(line["statement"] for line in card["lines"])
    assert "It is a box on a person's machine" in text and "own work tree" in text
    assert "container" not in text and "user 1000" not in text


def test_a_session_grant_holds_for_the_session(agents, boxed):
    path = agents.outside / "session"
    asked = Asked(lambda: agents.put(boxed, path, b"one"))
    assert agents.answer(agents.question(), "session")[0] == 200
    assert asked.told() == 200
    assert agents.put(boxed, path, b"two") == 200  # Nobody is asked.
    assert path.read_text() == "two"


def test_a_refusal_for_the_session_is_not_asked_again(agents, boxed):
    path = agents.outside / "refused"
    asked = Asked(lambda: agents.put(boxed, path, b"one"))
    question = agents.question()
    assert agents.answer(question, "no_for_session")[0] == 200
    assert asked.told() == 403
    assert agents.put(boxed, path, b"two") == 403
    status, left = agents.answer(question, "once")
    assert (status, left["error"]) == (404, "approval_not_found")
    assert not path.exists()


def test_the_key_that_made_a_sandbox_does_not_answer_for_it(agents, no_box):
    status, made = agents.create(key=agents.owner_key)
    assert status == 201, made
    asked = Asked(lambda: agents.put(made["id"], agents.outside / "own", b"x"))
    question = agents.question()
    status, refused = agents.answer(question, "once")
    assert (status, refused["error"]) == (403, "own_request")
    status, other = agents.api("POST", "/v1/keys", {"role": "owner", "name": "the person's"})
    assert status == 201
    assert agents.answer(question, "no", key=other["key"])[0] == 200
    assert asked.told() == 403
    agents.delete(made["id"])


def test_another_workspace_sees_no_question_and_answers_none(agents, boxed):
    stranger = agents.make_workspace("strangers")
    asked = Asked(lambda: agents.put(boxed, agents.outside / "foreign", b"x"))
    question = agents.question()
    assert agents.api("GET", "/v1/approvals", key=stranger) == (200, {"approvals": []})
    assert agents.answer(question, "once", key=stranger)[0] == 404
    assert agents.answer(question, "no")[0] == 200
    assert asked.told() == 403


def test_what_a_box_cannot_keep_is_refused(agents, no_box):
    for body, error in (({"egress": None}, "worker_capability_unavailable"),
                        ({"image": "sandboxkit/base"}, "image_not_found"),
                        ({"profile": "sudo"}, "worker_capability_unavailable")):
        status, refused = agents.create(**body)
        assert status == 409 and refused["error"] in (error, "sandbox_not_running"), refused
        assert error in str(refused), refused


def test_every_decision_is_in_the_audit_log_and_the_log_holds(agents, boxed):
    checked = subprocess.run([binary("sandboxkit"), "audit", "verify", "--dir", str(agents.gate / "audit"), "--key-file",
                              str(agents.gate / "grants.key")], capture_output=True, text=True, check=False, user=agents.user)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = "".join(path.read_text() for path in (agents.gate / "audit").glob("*.jsonl"))
    assert f'"session":"{boxed}"' in lines and '"kind":"answer"' in lines and '"by":"key:' in lines


def test_a_sandbox_that_is_deleted_leaves_no_process_and_no_file(agents, no_box):
    before = set(agents.processes())
    made = agents.sandbox()
    agents.run(made, "sh", "-c", "sleep 1000 & echo started")
    assert set(agents.processes()) > before
    agents.delete(made)
    wait_for(lambda: set(agents.processes()) <= before, 20, "the end of the box")
    assert not (agents.worker_folder / "sandboxes" / made).exists()


def test_what_a_program_made_under_a_forbidden_name_is_set_apart_and_written_down(agents, no_box):
    made = agents.sandbox()
    hooks = "new/.git/hooks"
    agents.run(made, "python3", "-c", f"import os; os.makedirs('{hooks}'); open('{hooks}/post-checkout', 'w').write('x')")
    agents.delete(made)
    wait_for(lambda: not agents.sandboxes(), 20, "its end")
    left = sorted(str(path.relative_to(agents.tree)) for path in (agents.tree / "new").rglob("*"))
    assert left and all("sandboxkit-quarantine" in path for path in left if "hooks" in path), left
    lines = "".join(path.read_text() for path in (agents.gate / "audit").glob("*.jsonl"))
    assert '"kind":"violation"' in lines and '"kind":"box.start"' in lines and '"kind":"box.exit"' in lines
    shutil.rmtree(agents.tree / "new")


def test_boxes_end_with_a_worker_that_was_killed(agents, no_box):
    made = agents.sandbox()
    agents.kill("worker")
    wait_for(lambda: not agents.processes(), 20, "the end of all boxes")
    agents.start_worker()
    row = wait_for(lambda: (r := agents.api("GET", f"/v1/sandboxes/{made}")[1])["state"] != "running" and r, 60, "its end")
    assert row["state"] in ("stopped", "lost", "error"), row
    again = agents.sandbox()
    assert agents.run(again, "cat", "a.c") == "int a;\n"
    agents.delete(again)


def test_strict_asks_nobody(upstream):
    strict = AgentHouse(upstream.address, mode="strict")
    made = strict.sandbox()
    assert strict.put(made, strict.outside / "x", b"x") == 403
    assert strict.api("GET", "/v1/approvals") == (200, {"approvals": []})
    assert strict.run(made, "cat", "a.c") == "int a;\n"
    assert strict.close() == []


def test_agent_mode_does_not_run_as_root_and_needs_a_tree(agents):
    refused = subprocess.run(agents.worker_argv(), capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode != 0 and "--allow-root" in refused.stderr, refused.stderr
    words = [word for word in agents.worker_argv() if word not in ("--work-tree", str(agents.tree))]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False, user=agents.user)
    assert refused.returncode != 0 and "--work-tree" in refused.stderr, refused.stderr


def test_one_box_works_in_a_tree_at_a_time(agents, boxed):
    status, refused = agents.create()
    assert (status, refused["error"]) == (503, "no_capacity"), refused


def test_what_git_sees_in_a_box_is_what_the_user_has(agents, boxed):
    assert agents.run(boxed, "git", "status", "--porcelain", "--ignored=no").replace("?? made/\n", "") in (
        "", "?? a.c\n", "?? a.c\n?? made/c.bin\n", "?? made/c.bin\n")


class TerminalHouse(AgentHouse):
    """Its worker was started on a terminal, of which the test has the other end."""

    def spawn_worker(self, *token, env=None):
        self.terminal, line = os.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(line, termios.TIOCSCTTY, 0)

        words = ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups",
                 *self.worker_argv(*token), "--ask-on", "terminal"]
        os.fchown(line, self.user, -1)
        self.worker = Daemon(words, self.folder / "worker.log", {"HOME": str(self.home)}, preexec=take_terminal)
        os.close(line)

    def shown(self, words):
        """What the terminal shows, until it shows these words."""
        text = b""
        while words not in text:
            assert select.select([self.terminal], [], [], 30)[0], text
            text += os.read(self.terminal, 65536)
        return text


def test_a_worker_on_a_terminal_asks_there(upstream):
    house = TerminalHouse(upstream.address)
    made = house.sandbox()
    path = house.outside / "typed"
    asked = Asked(lambda: house.put(made, path, b"x"))
    assert str(path).encode() in house.shown(b"Your answer:")
    assert house.api("GET", "/v1/approvals") == (200, {"approvals": []})
    os.write(house.terminal, b"o\n")
    assert asked.told() == 200 and path.read_text() == "x"
    assert house.close() == []
    os.close(house.terminal)
