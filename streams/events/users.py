"""The name of a user in samples: a hash, so that users can be counted without being named."""

from hashlib import blake2b


def user_hash(user_id: str) -> int:
    """Return 64 bits of a user's hash, the same in every process and release; 0 for no user.

    It is no secret: who knows the user ids can compute it.

    >>> user_hash("u-17"), user_hash("")
    (17699964692880525796, 0)
    """
    if not user_id:
        return 0
    digest = blake2b(user_id.encode(), digest_size=8, person=b"glimpse-user").digest()
    return int.from_bytes(digest, "little") or 1
