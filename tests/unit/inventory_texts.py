"""Inventory files as hypothesis makes them up: what people write, what they mistype, what editors do to it.

Three of four files are tame: whole, though seldom plain. The fourth has anything in it.
"""

from __future__ import annotations

from hypothesis import strategies as st

Lines = st.SearchStrategy[list[str]]


def _one_of(words: str) -> st.SearchStrategy[str]:
    """Draw one of the words of a text."""
    return st.sampled_from(words.split())


NAMES = ["a", "b", "c", "d", "e", "lab-x", "n.lab"]
GROUPS = st.sampled_from([*NAMES, "all", "ungrouped"])
STEM = _one_of("h gpu x-1 n.lab. 10.0.0. b é localhost h_2")
GOOD_RANGE = _one_of("[1:3] [01:03] [08:11] [a:c] [1:9:4] [:2] [a:e:2] [098:101]")
WITH_BEGIN = GOOD_RANGE.filter(lambda span: not span.startswith("[:"))
WHOLE = _one_of(
    """h gpu x-1 n.lab 10.0.0.1 b é localhost h:22 gpu:2222 10.0.0.1:22 [h]:22 [10.0.0.1]:22 10.0.0.[1:3]:22
    ::1 [::1]:22 2001:db8::1 [2001:db8::7]:2222 2001:DB8::a 2001:db8::[1:3] [2001:db8::[1:3]]:22
    ::ffff:10.0.0.1 1:2:3:4:5:6:7:8 [1:2].x 'h' "gpu[1:2]" h#x"""
) | st.sampled_from(["h:22 ansible_port=23", "h ansible_port=23"])
TAME_HOST = st.one_of(
    WHOLE,
    WHOLE,
    st.builds("".join, st.tuples(STEM, GOOD_RANGE)),
    st.builds("".join, st.tuples(STEM, GOOD_RANGE, GOOD_RANGE)),
    st.builds("".join, st.tuples(STEM, WITH_BEGIN, st.sampled_from([":22", ":2222"]))),
)

NUMBER = st.just("") | _one_of("0 1 2 3 01 03 10 a c B 007 -1 f ab ١")
STEP = st.sampled_from(["", "", "", ":1", ":2", ":0", ":-1", ":x", ":", ":1:1"])
RANGE = st.builds(lambda begin, end, step: f"[{begin}:{end}{step}]", NUMBER, NUMBER, STEP)
PORT = _one_of(":22 :2222 :0 :70000 : :x :022 :22:22")
ODD_HOST = _one_of(
    """gpu[0-3] h[1] h[1,2] h[1:3 h1:3] h[[1:2]] h[1:2]] h[1:[2:3]] h[] h\\ x h;x h,x h=x h' --- all a a: -h
    h|x $h {{h}} h/x ana@h ana@h:22 h-:22 h.:22 h* !h .. '' [::1] :: [2001:db8::7] [2001:db8::7]:
    fe80::1%eth0 1:2:3:4:5:6:7:8:9 [h:1]:22"""
)
WILD_HOST = st.one_of(
    TAME_HOST,
    st.builds("".join, st.lists(st.one_of(STEM, GOOD_RANGE), min_size=1, max_size=3)),
    st.builds("".join, st.tuples(STEM, RANGE)),
    st.builds("".join, st.tuples(STEM, PORT)),
    st.builds("".join, st.tuples(STEM, GOOD_RANGE, PORT)),
    ODD_HOST,
)

KEY = _one_of("k k2 some_key k3 K k-2 ansible_host ansible_user k.x")
VALUE = (
    # One dict, not two: those that a variable gets one after the other, Ansible merges, and orch reads none.
    _one_of(
        """1 010 1.50 yes True None a=b {'a':1} {1,2} 'a''b' x#y ... 1j 1_000 0x10 1e3 it's \\d '\\n' 1,2
        (1) ('x') '''x''' b'x' u'x' r'\\n' Rb'x' f'x' 'x'.y ['x' ['x','y'] \\ '\\x41' $HOME é '' "" ' " #"""
    )
    | st.sampled_from(
        ["'x y'", '"x # y"', "[1, 2]", "x # y", "1 # y", "'x' # y", "x ; y", "{{ x }}", "!vault x", "x\ty",
         "", "x,y = z", "' x '", "yes ", "# x", "'a' 'b'"]
    )
    | st.text("ab1 '\"#=\\,[]{};:()\t", max_size=8)
)  # fmt: skip
QUOTED = st.builds(lambda v: v.replace("'", "").join("''"), VALUE)
DOUBLY = st.builds(lambda v: v.replace('"', "").replace("\\", "").join('""'), VALUE)
PLAIN = st.sampled_from(["a\\ b", ""]) | _one_of("""1 x yes a=b x#y x,y x'y'z é "'x'" """)
PRIORITY = _one_of("1 2 10 -1 '5' 0 +3 1_0 1.5 True 0x10")
NO_PRIORITY = st.sampled_from(["x", "", "None", "5 # x", "5 x", "[1]"])
COMMENT = st.sampled_from(["", "", "", "", " # note", " #", "\t", " # it's"])
BLANK = st.sampled_from([" ", " ", " ", "  ", "\t", " \t "])
EQUALS = st.sampled_from(["=", " = ", "= ", "\t=\t", " ="])


def _host_line(host: st.SearchStrategy[str], value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    words = st.lists(st.builds(lambda key, value: f"{key}={value}", KEY, value), max_size=3)
    return st.builds(lambda h, w, blank, comment: blank.join([h, *w]) + comment, host, words, BLANK, COMMENT)


def _variable(priority: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    plain = st.builds("".join, st.tuples(KEY, EQUALS, VALUE))
    return st.one_of(plain, plain, plain, priority.map("ansible_group_priority={}".format))


def _children(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("".join, st.tuples(names, COMMENT))


NOISE = _one_of(
    "=x [a x] [a]x [] [:vars] [a:] [a:vars [a:hosts] [a:vars:x] [a:Vars] [[a]] [a]#c] a:b 'a' a=b a,b"
) | st.sampled_from(
    ["[a b]", "nonsense here", "[a] ; c", "h ; c", "[a] [b]", "h k = 1", "h\u00a0k=1", "h\u3000k=1",
     "k\u00a0= 1", "k=\u201cx\u201d", "h k=\0", "k = x\0", "\0", "\u00a0[a]", "h\x0ck=1", "h\u2028k=1",
     "k=x\x85y", "k=a\x1cb", "h\ufeff", "[a\u200b]", "k\u200b=1", "h k=\x1b[0m"]
)  # fmt: skip
QUIET = st.sampled_from(["", "# c", " ; c", "\t# [a]", "#h", "\u00a0", "\u00a0# c", "\u2003", "\x0c", ";"])
INDENT = st.sampled_from(["", "", "", "", "", " ", "\t", "   ", "\u00a0"])
TRAIL = st.sampled_from(["", "", "", "", " ", "\t", " # c", "# c", "  #"])


def _some(line: st.SearchStrategy[str], odd: st.SearchStrategy[str], every: int) -> Lines:
    """Return up to three lines, of which one in so many is odd."""
    mixed = st.integers(1, every).flatmap(lambda n: odd if n == 1 else line)
    return st.lists(st.builds("".join, st.tuples(INDENT, mixed)), max_size=3)


def _section(name: str, kind: str, trail: str, body: Lines) -> Lines:
    return body.map(lambda lines: [f"[{name}{kind}]{trail}", *lines])


TAME_HOSTS = _some(_host_line(TAME_HOST, st.one_of(QUOTED, DOUBLY, PLAIN)), QUIET, 8)
TAME_KIND = st.sampled_from(["", "", ":children", ":children", ":vars"])


@st.composite
def _tame(draw: st.DrawFn) -> list[str]:
    """Draw a file without circles, in which every group is declared somewhere."""
    parts = [draw(TAME_HOSTS)]
    for name, kind, trail in draw(st.lists(st.tuples(GROUPS, TAME_KIND, TRAIL), max_size=8)):
        below = NAMES[NAMES.index(name) + 1 :] if name in NAMES else NAMES
        if kind == ":vars":
            part = _section(name, kind, trail, _some(_variable(PRIORITY), QUIET, 8))
        elif kind and below and name != "ungrouped":
            part = _section(name, kind, trail, _some(_children(st.sampled_from(below)), QUIET, 8))
        else:
            part = _section(name, "", trail, TAME_HOSTS)
        parts.append(draw(part))
    for name in draw(st.permutations(NAMES)):
        parts.insert(draw(st.integers(1, len(parts))), [f"[{name}]"])
    return [line for part in parts for line in part]


BODIES = {
    "": _some(_host_line(WILD_HOST, st.one_of(QUOTED, QUOTED, VALUE)), st.one_of(NOISE, QUIET), 20),
    ":children": _some(_children(st.one_of(GROUPS, st.sampled_from(NAMES))), st.one_of(NOISE, QUIET), 20),
    ":vars": _some(_variable(st.one_of(PRIORITY, NO_PRIORITY)), st.one_of(NOISE, QUIET), 20),
}
WILD_SECTION = st.tuples(GROUPS, st.sampled_from(sorted(BODIES)), TRAIL).flatmap(
    lambda head: _section(*head, BODIES[head[1]])
)
WILD = st.builds(
    lambda top, sections: [*top, *(line for section in sections for line in section)],
    BODIES[""],
    st.lists(WILD_SECTION, max_size=5),
)

END = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
LATIN = st.sampled_from([b"", b"", b"", b"", b"", b"", b"", b"# caf\xe9\n", b"h k=caf\xe9\n"])


def _bytes(lines: list[str], end: str, closed: bool, latin: bytes = b"") -> bytes:
    return latin + (end.join(lines) + end * closed).encode()


TAME = st.builds(_bytes, _tame(), END, st.booleans())
INVENTORY = st.integers(1, 4).flatmap(
    lambda n: st.builds(_bytes, WILD, END, st.booleans(), LATIN) if n == 1 else TAME
)
"""The bytes of a file."""
