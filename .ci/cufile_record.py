#!/usr/bin/env python3
"""Puts what was seen into the table of docs/cufile.md: `… --test cufile_real -- --nocapture | .ci/cufile_record.py`.

Reads lines `COLUMN | SCENARIO | OUTCOME`, as the tests print them, and changes those cells. Scenarios that are new are
added at the end, and are to be put where the tests have them."""
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/cufile.md"
COLUMNS = ["mock", "real", "gpu"]
HEAD = "| scenario |"
SAME = "same"

lines = PAGE.read_text().splitlines()
first = next(at for at, line in enumerate(lines) if line.startswith(HEAD)) + 2
last = next((at for at in range(first, len(lines)) if not lines[at].startswith("|")), len(lines))
table = {}
for line in lines[first:last]:
    name, mock, *others = (cell.strip() for cell in line.strip("|").split("|"))
    table[name] = [mock] + [mock if cell == SAME else cell for cell in others]

for line in sys.stdin:
    # The test harness writes the name of a test before the first line that the test prints.
    cells = [cell.strip() for cell in line.split(" | ")]
    column = cells[0].rsplit(" ", 1)[-1]
    if len(cells) == 3 and column in COLUMNS:
        table.setdefault(cells[1], ["not run"] * len(COLUMNS))[COLUMNS.index(column)] = cells[2]


def row(name, outcomes):
    mock, *others = outcomes
    return f"| {name} | {mock} | " + " | ".join(SAME if other == mock else other for other in others) + " |"


lines[first:last] = [row(name, outcomes) for name, outcomes in table.items()]
PAGE.write_text("\n".join(lines) + "\n")
