"""Runs test cases of Python's own suites and prints the outcome of each, with the reason of a failure.

Usage: unit_tests.py MODULE[.CLASS[.METHOD]]...   a word that starts with - leaves out what holds the rest of it
"""
import io
import os
import sys
import unittest


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = {}

    def note(self, test, outcome, error=None):
        text = outcome
        if error is not None:
            text += " " + self._exc_info_to_string(error, test).strip().splitlines()[-1]
        self.lines.setdefault(test.id(), []).append(text)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addError(self, test, error):
        self.note(test, "ERROR", error)

    def addFailure(self, test, error):
        self.note(test, "FAIL", error)

    def addSkip(self, test, reason):
        self.note(test, "skipped " + reason)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(subtest, "FAIL", error)


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


words = sys.argv[1:]
without = [word[1:] for word in words if word.startswith("-")]
tests = unittest.defaultTestLoader.loadTestsFromNames([word for word in words if not word.startswith("-")])
outcomes = Outcomes()
# Tests print as they like; the outcomes have the output for themselves.
output = os.fdopen(os.dup(1), "w")
devnull = os.open(os.devnull, os.O_WRONLY)
os.dup2(devnull, 1)
os.dup2(devnull, 2)
os.close(devnull)
unittest.TestSuite(test for test in cases(tests) if not any(word in test.id() for word in without)).run(outcomes)
for name, lines in sorted(outcomes.lines.items()):
    output.write(f"{name}: {'; '.join(lines)}\n")
output.flush()
os._exit(0)
