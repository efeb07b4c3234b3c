"""The manual as it is installed for a browser: its index leads to all pages, and every link leads somewhere."""
import sys
import unittest
from html.parser import HTMLParser

from staged import Staged

EMPTY = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Page(HTMLParser):
    """Its links, its places, its text, and whether its elements are closed in turn."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places, self.problems, self.open, self.text = [], [], [], [], ""
        self.feed(text)
        self.problems += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.places += [facts["id"]] if "id" in facts else []
        self.links += [facts["href"]] if "href" in facts else []
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in EMPTY:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"line {self.getpos()[0]}: </{tag}> closes something else")

    def handle_data(self, data):
        self.text += data


class Manual(Staged):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.prefix / "share/doc/gpurun/html"
        if not cls.folder.exists():
            print("skipped: built without mandoc: there is no manual in HTML")
            sys.exit(77)
        cls.pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in cls.folder.glob("*.html")}

    def test_every_link_leads_somewhere(self):
        for name, page in self.pages.items():
            for link in page.links:
                if link.startswith("https://"):
                    continue
                file, _, place = link.partition("#")
                with self.subTest(f"{name}: {link}"):
                    self.assertTrue((self.folder / (file or name)).is_file())
                    if place:
                        self.assertIn(place, self.pages[file or name].places)

    def test_every_page_is_reached_from_the_index(self):
        reached, waiting = set(), ["index.html"]
        while waiting:
            name = waiting.pop()
            if name in self.pages and name not in reached:
                reached.add(name)
                waiting += [link.partition("#")[0] for link in self.pages[name].links]
        self.assertEqual(reached, set(self.pages))
        for name, page in self.pages.items():
            self.assertTrue(name == "index.html" or "index.html" in page.links, name)

    def test_every_page_of_the_manual_and_every_example_is_there(self):
        shared = self.prefix / "share"
        manual = {f"{path.name}.html" for path in shared.glob("man/man?/*")
                  if not path.read_text(encoding="utf-8").startswith(".so ")}
        examples = {f"{path.name}.html" for path in shared.glob("doc/gpurun/examples/*.c")}
        self.assertEqual(set(self.pages), manual | examples | {"index.html"})

    def test_every_function_is_in_the_index_and_leads_to_its_place(self):
        functions = {path.stem for path in (self.prefix / "share/man/man3").iterdir()}
        index = self.pages["index.html"]
        for function in functions:
            places = [link for link in index.links if link in (f"{function}.3.html",) or link.endswith(f"#{function}")]
            self.assertTrue(places, function)

    def test_elements_are_closed_and_names_of_places_are_used_once(self):
        for name, page in self.pages.items():
            self.assertEqual(page.problems, [], name)
            self.assertEqual(len(page.places), len(set(page.places)), name)

    def test_nothing_of_mdoc_is_left_in_the_text(self):
        for name, page in self.pages.items():
            if not name.endswith(".c.html"):
                self.assertNotRegex(page.text, r"(?m)^\.[A-Z][a-z] ", name)
                self.assertNotIn("\\&", page.text, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
