"""The manual as linked pages for a browser, with an index by task and the examples.

web_pages.py FOLDER TASKS STYLE ALIAS=PAGE... -- PAGE... EXAMPLE...: writes FOLDER/index.html, FOLDER/PAGE.html and
FOLDER/EXAMPLE.html. mandoc makes the pages. This program corrects their references: those to a function go to its place
in the page that it shares with others, and those to pages that are not of this manual become plain text.
"""
import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

TITLE = "gpurun"
LEAD = "Message passing between GPU processes, ordered with their streams."
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1.0">
  <link rel="stylesheet" href="manual.css" type="text/css">
  <title>{title}</title>
</head>
<body>
{body}
</body>
</html>
"""
NAVIGATION = '<nav><a href="index.html">gpurun: all pages</a></nav>\n'


def first_sentence(words):
    """Without its full stop. One in a word, as that of a file's name, ends no sentence."""
    return words.partition(". ")[0].strip().removesuffix(".")


class Manual:
    def __init__(self, pages, aliases, examples):
        self.pages = {page.name: page for page in pages}
        self.examples = {example.name: example for example in examples}
        # Where a function is described: its own page, or a place in another's.
        self.places = {page.stem: f"{page.name}.html" for page in pages}
        self.places |= {name: f"{page}.3.html#{name}" for name, page in aliases.items()}

    def names(self, page):
        """The names that a page describes, and in how many words."""
        text = self.pages[page].read_text(encoding="utf-8")
        names = re.findall(r"^\.Nm (\S+)", text.partition(".Sh NAME\n")[2].partition("\n.Nd")[0], re.M)
        return names, re.search(r"^\.Nd (.*)$", text, re.M)[1]

    def lead(self, reference):
        """A reference that mandoc made, as a link to where it leads, or its text alone."""
        name, section = reference["page"].rsplit(".", 1)
        if f"{name}.{section}" in self.pages:
            return reference[0]
        if section == "3" and name in self.places:
            return f'<a class="Xr" href="{self.places[name]}">{reference["text"]}</a>'
        return f'<span class="Xr">{reference["text"]}</span>'

    def manual_page(self, page):
        text = subprocess.run(["mandoc", "-T", "html", "-O", "style=manual.css,man=%N.%S.html", self.pages[page]],
                              capture_output=True, text=True, check=True).stdout
        text = re.sub(r'<a class="Xr" href="(?P<page>[^"#]+)\.html">(?P<text>[^<]*)</a>', self.lead, text)
        # A function that is not named where it is described is found in the synopsis.
        for name in self.names(page)[0]:
            if page.endswith(".3") and f'id="{name}"' not in text:
                text = text.replace(f'<code class="Fn">{name}</code>', f'<code class="Fn" id="{name}">{name}</code>', 1)
        return text.replace("<html>", '<html lang="en">').replace("<body>\n", f"<body>\n{NAVIGATION}", 1)

    def example_page(self, example):
        def linked(found):
            place = self.places.get(found[0])
            return f'<a href="{place}">{found[0]}</a>' if place else found[0]
        code = re.sub(r"\bgpurun_\w+(?=\()", linked, html.escape(self.examples[example].read_text(encoding="utf-8")))
        body = f"{NAVIGATION}<h1>{example}</h1>\n<pre>{code}</pre>"
        return PAGE.format(title=f"{example}: an example of {TITLE}", body=body)

    def entry(self, name):
        """What the index says of a page or an example."""
        if name.startswith("examples/"):
            name = name.partition("/")[2]
            first = self.examples[name].read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
            words = " ".join(line.lstrip("/ ") for line in first if line.startswith("//")).partition(": ")[2]
            return f'<li><a href="{name}.html">{name}</a>, an example: {html.escape(first_sentence(words))}</li>'
        names, words = self.names(name)
        section = name.rsplit(".", 1)[1]
        links = [f'<a href="{self.places[each] if section == "3" else name + ".html"}">{each}</a>' for each in names]
        return f'<li>{", ".join(links)}({section}) — {html.escape(words)}</li>'

    def index(self, tasks):
        parts = [f"<h1>{TITLE}</h1>", f"<p>{LEAD}</p>"]
        listed = {name for _, names in tasks for name in names}
        others = sorted(self.pages.keys() - listed)
        for task, names in [*tasks, ("More", others)] if others else tasks:
            parts += [f"<h2>{html.escape(task)}</h2>", '<ul class="pages">', *map(self.entry, names), "</ul>"]
        parts += ["<h2>All functions</h2>", '<ul class="functions">']
        parts += [f'<li><a href="{place}">{name}</a></li>' for name, place in sorted(self.places.items())
                  if ".3.html" in place]
        return PAGE.format(title=f"{TITLE}: the manual", body="\n".join([*parts, "</ul>"]))


def read_tasks(path):
    """[(task, [page or example])]: a task is a line, and its pages and examples are the indented lines below it."""
    tasks = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            tasks[-1][1].append(line.strip())
        elif line:
            tasks.append((line, []))
    return tasks


def main(folder, tasks, style, *rest):
    aliases = dict(word.split("=") for word in rest[:rest.index("--")])
    files = [Path(name) for name in rest[rest.index("--") + 1:]]
    manual = Manual([file for file in files if file.suffix != ".c"], aliases,
                    [file for file in files if file.suffix == ".c"])
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    texts = {"index.html": manual.index(read_tasks(Path(tasks)))}
    texts |= {f"{page}.html": manual.manual_page(page) for page in manual.pages}
    texts |= {f"{example}.html": manual.example_page(example) for example in manual.examples}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(style, folder / "manual.css")


if __name__ == "__main__":
    main(*sys.argv[1:])
