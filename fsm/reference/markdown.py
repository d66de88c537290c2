"""Generates `dialects.md`, `hazards.md`, `clauses.md` (the meaning of numbers) and `clients.md` (supported logs)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from fsm.logs import all_facts
from fsm.reference.clauses import CLAUSES, Clauses
from fsm.reference.dialects import Part, parts
from fsm.reference.entries import SECTIONS, WEAK_SPOTS, Section
from fsm.reference.findings import ELSEWHERE, FOUND, GROUPED, SAME, SCENES
from fsm.reference.reports import CAUSES, KINDS, REPORTS, SHORTEST, Report
from fsm.render.tables.markdown import escape, grid

DIALECTS, HAZARDS, RULES, CLIENTS = "dialects.md", "hazards.md", "clauses.md", "clients.md"


def pages() -> dict[str, bytes]:
    """File name -> content."""
    dialects = [line for part in parts() for line in _part(part)]
    hazards = [line for section in SECTIONS for line in (*_section(section), *_format_reports(section))]
    return {
        DIALECTS: _page(
            "Dialects",
            "The rules in which releases, design documents and our own fixes differ. A dialect is a set of these "
            "rules; `fsm dialects NAME` lists those of one. Numbers such as F18 are cited in code and tests.",
            dialects,
        ),
        HAZARDS: _page(
            "Hazards, weak spots and invariants",
            "The meaning of the numbers in code and tests. `to 4.4.0, open` means that the latest release still has "
            "it. Numbers with an F are in [dialects.md](dialects.md).",
            hazards,
        ),
        RULES: _page(
            "Clauses",
            "The meaning of the clauses in the coordinator's tables, and the place of each rule in Kafka. Words "
            "after a number, as in `5.3 Leave`, name a part of the rule. A method without a class is one of "
            "`GroupMetadataManager`.",
            [line for clauses in CLAUSES for line in _clauses(clauses)],
        ),
        CLIENTS: _page(
            "Clients",
            "The clients whose logs `fsm audit` reads, how the logs show who owned what, and what they do not show. "
            "Each has a module in `fsm/logs`.",
            [*_clients(), ""],
        ),
    }


def _page(title: str, intro: str, lines: Sequence[str]) -> bytes:
    return "\n".join([f"# {title}", "", "Written by `fsm draw`; do not edit.", "", intro, "", *lines]).encode()


def _clients() -> Iterator[str]:
    rows = (
        (facts.title or facts.name, facts.supported_protocols, facts.ownership_lines, facts.not_logged)
        for facts in all_facts()
    )
    return grid(("Client", "Protocols", "Who owned what", "What its log does not show"), rows)


def _part(part: Part) -> Iterator[str]:
    yield from (f"## {part.name[0].upper()}{part.name[1:]}", "", f"Dialects: {', '.join(part.dialects)}.", "")
    heads = ("Rule", "With it", "Without it", "Since", "Until", "Ticket", "Hazards", "Dialects", "Shown by")
    rows, seen = [], set[str]()
    for flag in part.flags:
        name = flag.name.removeprefix(f"{flag.number} ")
        anchor = flag.number.lower() if flag.number and flag.number not in seen else name.lower()
        seen.add(flag.number)
        rule = f'<a id="{anchor}"></a>{flag.number} `{name}`'.replace("</a> ", "</a>")
        ticket = "" if flag.hazards and flag.ticket == " ".join(flag.hazards) else flag.ticket
        has = "" if flag.since and flag.since[0][0].isdigit() and not flag.until else ", ".join(flag.dialects)
        hazards = ", ".join(_link(h) for h in flag.hazards)
        since = ", ".join(flag.since)
        rules = (_link(flag.rule), _link(flag.older))
        rows.append((rule, *rules, since, flag.until, ticket, hazards, has, _tests(flag.tests)))
    yield from (*grid(heads, rows), "")


def _section(section: Section) -> Iterator[str]:
    yield from (f"## {section.title}", "", _link(section.intro), "")
    if section.tests:
        yield from (f"Shown by {_tests(section.tests)}.", "")
    is_hazard = section.remark != "Except"
    heads = ("Number", "What", section.remark, "Releases", "Ticket", "Shown by")
    rows = (
        (
            f'<a id="{section.anchor(entry)}"></a>{entry.number}',
            _link(entry.what),
            _link(entry.consequence),
            entry.releases if is_hazard else "",
            entry.ticket,
            _tests(entry.tests),
        )
        for entry in section.entries
    )
    yield from (*grid(heads, rows), "")


def _format_reports(section: Section) -> Iterator[str]:
    """The reports of what the checker found, below the section of weak spots."""
    if section is not WEAK_SPOTS:
        return
    yield from ("### Findings of the checker, as bug reports", "")
    for report in REPORTS:
        yield from _report(report)
    yield from ("### Shortest paths to a violation", "")
    yield (
        "Two members, one topic of two partitions, one disturbance of the kind in the column. The numbers are steps: "
        "until a member in good standing uses a partition that the coordinator does not record as held by it, until "
        "two members use a partition, until the group cannot settle. The command is `fsm check consumer-group "
        "--client M --coordinator C --disturb KIND --every`. An empty cell means that the checker proved that there "
        f"is no violation. {_link(CAUSES)}"
    )
    heads = ("Members", "Coordinator", *KINDS)
    rows = ((*pair, *(found.get(kind, "") for kind in KINDS)) for pair, found in SHORTEST.items())
    yield from ("", *grid(heads, rows), "")
    yield from _other_scenes()


def _other_scenes() -> Iterator[str]:
    """The checker's other findings with one disturbance, or with none."""
    yield (
        "The same for other disturbances and options: `fsm check consumer-group --client M --coordinator C --every` "
        "with the options in the first column. `book`, `users` and `settles` are as above; `owner`: a commit of an "
        "owner is refused; `ended`: an error terminates an application. An empty cell again means no violation. The "
        "same holds for scenes without a row: a callback that raises, hangs or is interrupted, an application that "
        "closes, leaves or drops a topic, a process that is killed, a coordinator that fails over, also with a "
        "compacted log, and an assignment interval. Groups of "
        f"{', and groups of '.join(f'{one} behave like those of {other}' for one, other in SAME.items())}. Under the "
        "coordinator of 4.4.0, members of the releases in between behave like 4.0.0 (before 4.3.0) or 4.4.0 (since "
        "then). Members of `document` have no poll timer, so if a callback never returns, their group cannot settle "
        "(`--client document --disturb hanging`, 5 steps)."
    )
    found = {scene: [FOUND[pair].get(scene, "") for pair in FOUND] for scene, one in SCENES.items() if one.behind}
    heads = ("Scene", *(" with ".join(pair) for pair in FOUND), "Cause")
    rows = ((f"`{SCENES[scene].command}`", *cells, _link(SCENES[scene].behind)) for scene, cells in found.items())
    yield from ("", *grid(heads, rows), "")
    yield (
        "In groups of other kinds and in Connect clusters, by the release of the coordinator (`--coordinator R`) and "
        "of KIP-848 members (`--client R`). Connect workers have the same rules in all releases. If a command names no "
        "protocol, eager and cooperative groups take the same number of steps; if it names one, the other has no "
        "violation unless it has its own row. Mixed groups also have the violations above of the same members and "
        "coordinator. An empty cell means: proven, no violation."
    )
    elsewhere = (
        (f"`{one.command()}`", *(str(one.steps.get(release, "")) for release in GROUPED), _link(one.behind))
        for one in ELSEWHERE
    )
    yield from ("", *grid(("Command", *map(", ".join, GROUPED.values()), "Cause"), elsewhere), "")


def _report(report: Report) -> Iterator[str]:
    yield from (f"**{_link(report.number)}: {report.title}.** `{report.command}`", "")
    yield from (f"{number}. {_link(step)}" for number, step in enumerate(report.steps, 1))
    parts = {
        "Versions": report.versions,
        "Consequence": report.consequence,
        "How likely": report.likelihood,
        "A client can": report.client,
        "A broker can": report.broker,
        "An operator can": report.operator,
        "The audit finds": report.audit,
    }
    yield from ("", *(f"* {name}: {_link(text)}" for name, text in parts.items() if text), "")


def _clauses(clauses: Clauses) -> Iterator[str]:
    yield from (f"## Of {', '.join(f'[{table}]({table}.md)' for table in clauses.tables)}", "")
    rows = ((clause.number, escape(clause.rule), clause.source) for clause in clauses.entries)
    yield from (*grid(("Clause", "Rule", "In Kafka"), rows), "")


@cache
def _anchors() -> dict[str, str]:
    """Number -> link target, for flags, hazards, facts of logs and weak spots."""
    found = {e.number: f"{HAZARDS}#{s.anchor(e)}" for s in SECTIONS[:3] for e in s.entries}
    return found | {f.number: f"{DIALECTS}#{f.number.lower()}" for part in parts() for f in part.flags if f.number}


def _link(text: str) -> str:
    """The text as Markdown: numbers outside of code become links."""

    def link(found: re.Match[str]) -> str:
        return f"[{found[0]}]({_anchors()[found[0]]})" if found[0] in _anchors() else found[0]

    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"\b[FHAW]\d+[a-d]?\b", link, _escape(piece)) for piece in pieces
    )


def _escape(piece: str) -> str:
    """Like `escape`, with leading and trailing spaces kept."""
    words = piece.strip()
    return piece.replace(words, escape(words)) if words else piece


def _tests(tests: Sequence[str]) -> str:
    nodes = (test.partition("::") for test in tests)
    return ", ".join(f"[{name}](../{path})" for path, _, name in nodes)
