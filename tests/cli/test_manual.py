"""The manual pages against the tables of options, in both directions."""

import re
import shutil
import subprocess
import unittest

from support import BIN, ROOT

PAGES = ROOT / "docs" / "man"
VERBS = ("run", "acquire", "renew", "release", "status", "list", "unlock",
         "sem", "latch", "server", "help")
COMMON = "Options of all verbs"
CONNECTION = "Options of the verbs that use a server"


def help_of(verb):
    return subprocess.run([BIN, "help", verb], capture_output=True, text=True,
                          check=True).stdout


def options_of_help(verb):
    """Sets of spellings, one for each option: {("-n", "--nonblock"), ...}."""
    found = set()
    for line in help_of(verb).splitlines():
        match = re.fullmatch(r"  ((?:-\w, )?--[\w-]+(?:, --[\w-]+)*)( [A-Z]+)?",
                             line)
        if match:
            found.add((tuple(match[1].split(", ")), bool(match[2])))
    return found


def options_of_page(text):
    """The same of the `.It Fl` lines of a part of a page."""
    found = set()
    for line in re.findall(r"(?m)^\.It (Fl .*)$", text):
        names, _, argument = line.partition(" Ar ")
        names = tuple("-" + name.strip() for name in names.split("Fl ")[1:])
        names = tuple(name.rstrip(" ,") for name in names)
        found.add((names, bool(argument)))
    return found


def section(page, title):
    """A part of a page, from .Ss to the next one."""
    text = (PAGES / page).read_text()
    match = re.search(rf"(?ms)^\.Ss {re.escape(title)}$(.*?)(?=^\.S[sh] )",
                      text)
    if not match:
        raise AssertionError(f"{page} has no part {title!r}")
    return match[1]


class Options(unittest.TestCase):
    def test_run(self):
        page = (PAGES / "holdfast-run.1").read_text()
        self.assertEqual(options_of_page(page), options_of_help("run"))

    def test_other_verbs(self):
        common = options_of_page(section("holdfast.1", COMMON))
        connection = options_of_page(section("holdfast.1", CONNECTION))
        for verb in VERBS[1:]:
            wanted = options_of_page(section("holdfast.1", f"holdfast {verb}"))
            wanted |= common
            if verb not in ("server", "help"):
                wanted |= connection
            self.assertEqual(options_of_help(verb), wanted, verb)

    def test_there_are_some(self):
        self.assertGreater(len(options_of_help("run")), 10)
        self.assertIn((("-E", "--conflict-exit-code"), True),
                      options_of_help("run"))

    def test_defaults_and_codes_agree(self):
        header = (ROOT / "cli" / "exit_codes.h").read_text()
        codes = set(re.findall(r"CLI_\w+ = (\d+)", header)) - {"128"}
        page = (PAGES / "holdfast.1").read_text()
        part = page[page.index(".Sh EXIT STATUS"):page.index(".Sh EXAMPLES")]
        documented = set()
        for line in re.findall(r"(?m)^\.It (\d.*)$", part):
            documented |= set(re.findall(r"\b(\d+)\b(?!\+)", line))
        self.assertEqual(documented, codes)


class Pages(unittest.TestCase):
    def test_lint(self):
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc")
        result = subprocess.run(
            ["mandoc", "-Tlint", "-Wwarning", *sorted(PAGES.glob("*.1"))],
            capture_output=True, text=True, check=False)
        self.assertEqual(result.stdout, "")

    def test_verbs_of_the_help_are_in_the_synopsis(self):
        text = subprocess.run([BIN, "help"], capture_output=True, text=True,
                              check=True).stdout
        verbs = re.findall(r"(?m)^  (\w+)  ", text)
        self.assertEqual(tuple(verbs), VERBS)
        page = (PAGES / "holdfast.1").read_text()
        synopsis = page[:page.index(".Sh DESCRIPTION")]
        self.assertEqual(tuple(re.findall(r"(?m)^\.Nm\n\.Cm (\w+)$",
                                          synopsis)), VERBS)


if __name__ == "__main__":
    unittest.main()
