"""The recording of agent mode in the documentation is whole, says what it promises, and names no real machine.

Usage: recording_test.py RECORDINGS [unittest arguments]     docs/recordings/record.py makes it anew.
"""
import json
import pathlib
import re
import sys
import unittest

FOLDER = pathlib.Path()


class Recording(unittest.TestCase):
    def setUp(self):
        lines = (FOLDER / "agent-mode.cast").read_text().splitlines()
        self.header, *self.events = [json.loads(line) for line in lines]
        self.text = "".join(event[2] for event in self.events).replace("\r\n", "\n")

    def test_a_player_can_play_it(self):
        self.assertEqual(self.header["version"], 2)
        self.assertTrue(self.header["width"] > 0 and self.header["height"] > 0)
        times = [at for at, kind, text in self.events if kind == "o" and isinstance(text, str) and text]
        self.assertEqual(len(times), len(self.events))
        self.assertEqual(times, sorted(times))

    def test_its_text_for_readers_is_the_same(self):
        self.assertEqual((FOLDER / "agent-mode.txt").read_text(), self.text.removesuffix("~/proj$ "))

    def test_it_shows_questions_answers_a_grant_refusals_and_an_intact_log_in_this_order(self):
        at = 0
        for words in ('"decision":"deny","branch":"mandatory_denial"', "exit code 3",
                      "The agent robot asks for:\n  write  /srv/", "Your answer: o\n", '"reason":"allowed_once"', "exit code 0",
                      "Your answer: a\n", '"reason":"granted"', "nobody is asked", '"branch":"permanent_grant"',
                      "Your answer: x\n", '"reason":"refused"', '"reason":"refused_before"', "exit code 3",
                      "sandboxkit grant list\n", "  active  write ", "box --live", "'/home/ada/.ssh': No such file",
                      "cannot create .git/hooks/pre-commit", "changed src/b.c", "box --staged", "made src/c.c",
                      "sandboxkit audit show", '"kind":"answer"', "sandboxkit audit verify", " chains, intact\n", "exit code 0\n"):
            found = self.text.find(words, at)
            self.assertGreaterEqual(found, 0, f"`{words}` does not follow\n{self.text[at - 200:at]}")
            at = found + len(words)

    def test_each_answer_is_one_question_and_a_grant_asks_no_more(self):
        self.assertEqual(re.findall(r"^Your answer: (.*)$", self.text, re.M), ["o", "a", "x"])
        granted = self.text[self.text.index("# 4."):self.text.index("# 5.")]
        self.assertNotIn("a question of the permission gate", granted)

    def test_it_names_no_place_of_the_machine_that_made_it(self):
        homes = set(re.findall(r"/(?:home|Users)/(\w+)", self.text))
        self.assertEqual(homes, {"ada"})
        self.assertEqual(re.findall(r"(?:^|[\s\"'`=])(/(?:root|tmp|work|build|mnt)\b[^\s\"'`]*)", self.text), [])
        self.assertEqual(set(re.findall(r"tty:[^\s\"]+", self.text)), {"tty:ada@laptop"})


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
