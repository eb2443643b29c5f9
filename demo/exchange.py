"""The second part: policies, and exchanges between the folders of one machine."""

from demo.tour import Tour, place_names, program, quote

EVIDENCE = """\
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), ActiveMember(V).
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'member').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'ding'), \
AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).
ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).
"""


def set_rules(tour: Tour) -> None:
    """A policy, and why a record stays."""
    tour.step(
        "Who may have what",
        "A policy is a text of rules that say which records an exchange is about; a record moves only where both "
        "sides' policies allow it. The lab wants to give away the results of ward 3 that it has signed itself:",
    )
    lab = tour.quietly("key", "show", "lab.lace").out.strip()
    built = tour.run(f"bobbin policy build --group ward/3 --signer {lab}")
    (tour.folder / "ward.policy").write_text(built.out, encoding="utf-8")
    tour.say("Saved as ward.policy. Mistakes would be listed with their place and the way to mend them:")
    wrong = 'SelectHave(P) :- Have(P), Field(P,"Group",_,"ward/3").\n'
    mistaken = tour.run(f"echo '{wrong.strip()}' | bobbin policy check -", stdin=wrong)
    tour.claim(
        "a mistake is named with its place, and ends with 7", mistaken.code == 7 and "stdin:1:35" in mistaken.out
    )
    checked = tour.run("bobbin policy check ward.policy")
    name = tour.run("bobbin policy id ward.policy").out.strip()
    tour.claim(
        "the policy is valid, and both commands give it the same name", checked.code == 0 and name in checked.out
    )
    text = (tour.folder / "ward.policy").read_text(encoding="utf-8")
    other = (
        "# The same with a comment, the rules the other way round.\n" + "\n".join(reversed(text.splitlines())) + "\n"
    )
    tour.claim(
        "comments and the order of rules do not change it",
        tour.quietly("policy", "id", "-", stdin=other).out.strip() == name,
    )
    tour.say("What do its rules choose of what the lab holds?")
    chosen = tour.run("bobbin policy eval lab.lace ward.policy --predicate SelectHave").out.splitlines()
    listed = [row["hash"] for row in tour.quietly("list", "lab.lace", "//ward/3//", "--json").rows]
    tour.claim(
        "both values of ward 3 and nothing else", sorted(chosen) == sorted(f"SelectHave('{text}')" for text in listed)
    )
    tour.say("The unsigned record of the beginning stays. Why?")
    reason = tour.run(
        "bobbin policy explain lab.lace --policy ward.policy --peer source:hospital //u//ding//links/1", lines_max=24
    )
    tour.claim(
        "it is withheld, because it is of another group",
        "withheld" in reason.out and "is 'u', not 'ward/3'" in reason.out,
    )
    tour.say(
        "The hospital would take the results of ward 4 from the lab, with a policy of its own. But one of them it has "
        "removed:"
    )
    wide = tour.quietly("policy", "build", "--group", "ward/4").out
    (tour.folder / "ward-4.policy").write_text(wide, encoding="utf-8")
    removed = tour.quietly("refusals", "hospital.lace", "--json").rows[0]["hash"]
    refused = tour.run(
        f"bobbin policy explain hospital.lace --policy ward-4.policy --peer {lab} --peer-lace lab.lace {removed}"
    )
    tour.claim(
        "the policies allow it, and it is refused all the same, with the reason that was given",
        f"from {lab[:10]}…: refused" in refused.out and "wrong patient" in refused.out,
    )


def follow(tour: Tour) -> None:
    """An exchange: everything under one path, and nothing else."""
    tour.step(
        "First follow",
        "Until now records travelled in files. An exchange brings two laces together: each side says which records it "
        "is about, and a record moves only where both policies select it. An app follows a server: the links of the "
        "group u.",
    )
    for lace in ("server.lace", "app.lace"):
        tour.quietly("init", lace)
        tour.quietly("key", "new", lace)
    program(
        tour,
        'with bobbin.Lace.open("server.lace") as lace:\n'
        "    for n in range(60):\n"
        '        lace.put(b"link %d" % n, group="u", app="ding", name=f"links/{n}")\n'
        '    lace.put(b"not for the app", group="u", app="ding", name="drafts/1")\n',
    )
    built = tour.run("bobbin policy build --group u --app ding --name-prefix links/")
    (tour.folder / "links.policy").write_text(built.out, encoding="utf-8")
    tour.say("Saved as links.policy. First a rehearsal between copies of both laces:")
    rehearsed = tour.run("bobbin sync app.lace server.lace --policy links.policy --dry-run")
    tour.claim(
        "60 records would come, and nothing has changed yet",
        "60 records" in rehearsed.out and not place_names(tour, "app.lace", "//u//"),
    )
    explained = "--explain //u//ding//drafts/1"
    synced = tour.run(f"bobbin sync app.lace server.lace --policy links.policy {explained}", lines_max=30)
    names = place_names(tour, "app.lace", "//u//")
    tour.claim(
        "all 60 links came, and nothing else",
        synced.code == 0 and len(names) == 60 and all(name.startswith("links/") for name in names),
    )
    tour.claim("why the draft stayed is said", "fails at StartsWith" in synced.out)
    again = tour.quietly("sync", "app.lace", "server.lace", "--policy", "links.policy", "--json").rows[0]
    tour.claim("the next exchange finds nothing to do", again["received"] == [] and again["iterations"] == 1)


def hand_over(tour: Tour) -> None:
    """One record to a server, by the server's own policy."""
    tour.step(
        "Handing records over",
        "The app hands two records of its own over, and nothing else. There is no command for that in the protocol: "
        "it is an exchange whose policy selects exactly these, and the server takes what its own policy selects.",
    )
    shown = program(
        tour,
        'with bobbin.Lace.open("app.lace") as app, bobbin.Lace.open("server.lace") as server:\n'
        '    mine = app.put(b"mine", group="u", app="ding", name="links/mine", sign=True)\n'
        '    other = app.put(b"other", group="diary", app="ding", name="links/other")\n'
        '    rules = open("links.policy").read()\n'
        "    placed = app.store_to(server, [mine, other], peer_policy=rules)\n"
        '    print(f"stored {len(placed.stored)}, not taken {len(placed.not_taken)}")\n',
    )
    tour.claim("the link was taken, the diary was not", shown == "stored 1, not taken 1\n")
    got = tour.run("bobbin get server.lace //u//ding//links/mine")
    tour.claim("the server has it", got.out.strip() == "mine")


def trust_evidence(tour: Tour) -> None:
    """Who is a member is known from records, and they come first."""
    tour.step(
        "Evidence first",
        "Rules may rest on evidence: a letter counts if its signer is a member, and a member is whoever a stored "
        "record says so of. Such records are exchanged like all others, so the first loop brings the members and the "
        "next one what they have signed. What a peer merely claims is no evidence.",
    )
    (tour.folder / "members.policy").write_text(EVIDENCE, encoding="utf-8")
    quote(EVIDENCE.splitlines())
    program(
        tour,
        'with bobbin.Lace.open("server.lace") as lace:\n'
        '    alice, eve = lace.new_key("alice"), lace.new_key("eve")\n'
        '    lace.put(b"", group="u", app="member", name=alice.verifier, sign=True)\n'
        "    for n in range(3):\n"
        '        lace.put(b"letter %d" % n, group="u", app="ding", name=f"letters/alice/{n}", sign="alice")\n'
        '        lace.put(b"letter %d" % n, group="u", app="ding", name=f"letters/eve/{n}", sign="eve")\n',
    )
    tour.quietly("init", "reader.lace")
    tour.quietly("key", "new", "reader.lace")
    synced = tour.run("bobbin sync reader.lace server.lace --policy members.policy --record members.recording")
    letters = place_names(tour, "reader.lace", "//u//ding//")
    tour.claim("the letters of the member came", letters == [f"letters/alice/{n}" for n in range(3)])
    tour.claim("it took a loop for the evidence, one for the letters, one to be sure", "(3 iterations)" in synced.out)
    replayed = tour.run("bobbin replay members.recording")
    tour.claim("the recorded exchange replays bit for bit", replayed.code == 0 and "equal" in replayed.out)


def attest(tour: Tour) -> None:
    """A statement that can be checked."""
    tour.step(
        "Saying so, and checking it",
        "After an exchange that has converged, a side may seal a statement about it: under which plan it ran, and how "
        "much each side offered. Whoever has the policies and the records can compute whether it holds.",
    )
    tour.run("bobbin sync reader.lace server.lace --policy members.policy --statement --ledger", lines_max=24)
    (row,) = tour.quietly("list", "reader.lace", "//lace//statement//", "--json").rows
    checked = tour.run(f"bobbin statement check reader.lace {row['hash']} --policy members.policy")
    tour.claim("the statement holds", checked.code == 0)
    (letter, *_) = tour.quietly("list", "reader.lace", "//u//ding//", "--json").rows
    tour.run(f"bobbin remove reader.lace {letter['hash']} --reason 'to see what happens'")
    broken = tour.run(f"bobbin statement check reader.lace {row['hash']} --policy members.policy")
    tour.claim("without one of the records it does not, and says so", broken.code == 1 and "1 fewer" in broken.out)
