"""Both ends of a link prove that they know the run's token, without sending it."""

import binascii
import hashlib
import hmac
import os


def nonce():
    return binascii.hexlify(os.urandom(16)).decode("ascii")


def proof(token, who, rank, *nonces):
    """Return what only one who knows the token can say for these nonces; `who` is member or chief."""
    text = "|".join([who, str(rank)] + [str(n) for n in nonces])
    return hmac.new(token, _bytes(text), hashlib.sha256).hexdigest()


def proven(said, *facts):
    """Whether `said` is the proof of these facts."""
    return hmac.compare_digest(_bytes(str(said)), proof(*facts).encode("ascii"))


def _bytes(text):
    return text.encode("utf-8", "backslashreplace")  # a stranger may say half a surrogate
