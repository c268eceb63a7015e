"""Prints constraints for pip, so that what is installed can't break the TensorFlow that is there.

They are TensorFlow's own requirements, and those of what it requires, rather than the versions that are
there: a pin of, say, typing-extensions would keep out much that works. Python 3.6 to 3.13.
"""

import re
import sys

KNOWN = (
    # (TensorFlow below, constraints that its metadata does not say)
    ((2, 12), ("numpy<1.24", "protobuf<3.20", "transformers<5")),
    ((2, 18), ("numpy<2", "transformers<5")),
)
NAMES = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly")


def requirements_of():
    """Return a function from a distribution's name to its version and requirements."""
    try:
        from importlib.metadata import PackageNotFoundError, distribution
    except ImportError:  # Python 3.7 and older
        import pkg_resources

        def look(name):
            try:
                found = pkg_resources.get_distribution(name)
            except pkg_resources.DistributionNotFound:
                return None
            return found.version, [str(r) for r in found.requires()]

        return look

    def look(name):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            return None
        return found.version, [r for r in found.requires or () if "extra ==" not in r]

    return look


def constraint(requirement):
    """Return name and constraint of a requirement's text: `keras (<2.10,>=2.9)` is `keras<2.10,>=2.9`."""
    text, _, marker = requirement.partition(";")
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^)@]*)\)?", text)
    name, versions = match.group(1), match.group(2).replace(" ", "")
    if not versions:
        return name, None
    return name, name + versions + (" ;" + marker if marker else "")


def main():
    look = requirements_of()
    for tensorflow in NAMES:
        if look(tensorflow):
            break
    else:
        return
    version, _ = look(tensorflow)
    lines = ["%s==%s" % (tensorflow, version.partition("+")[0])]
    parts = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    for below, known in KNOWN:
        if parts < below:
            lines.extend(known)
            break
    seen, todo = set(), [tensorflow]
    while todo:
        found = look(todo.pop())
        for requirement in found[1] if found else ():
            name, line = constraint(requirement)
            if line:
                lines.append(line)
            if name.lower() not in seen:
                seen.add(name.lower())
                todo.append(name)
    sys.stdout.write("\n".join(dict.fromkeys(lines)) + "\n")


main()
