"""English-like prose from a seed: text of a given length that compresses as real prose does.

Half of the words are the commonest of English, by their real frequency; the other half is drawn from a vocabulary of
made-up ones, the first of them more often. In pieces of 2,000 characters zlib leaves 49 % of it (measured; 45 % of
this repository's LICENSE, 54 % of dense technical prose).
"""

from collections.abc import Iterator
from itertools import accumulate
from random import Random

# The commonest words of English and how often each occurs in 1,000 words.
COMMON = (
    ("the", 60), ("of", 30), ("and", 28), ("to", 27), ("a", 23), ("in", 21), ("is", 12), ("that", 11), ("it", 10),
    ("for", 10), ("as", 8), ("was", 8), ("with", 8), ("on", 8), ("be", 7), ("are", 7), ("by", 6), ("this", 6),
    ("at", 5), ("you", 5), ("have", 5), ("not", 5), ("or", 5), ("from", 5), ("can", 5), ("which", 4), ("an", 4),
    ("will", 4), ("they", 4), ("one", 4), ("would", 3), ("there", 3), ("their", 3), ("we", 3), ("all", 3),
    ("has", 3), ("if", 3), ("more", 3), ("when", 3), ("so", 3), ("some", 2), ("each", 2), ("about", 2),
    ("other", 2), ("how", 2), ("into", 2), ("than", 2), ("then", 2), ("only", 2), ("also", 2), ("while", 1),
)  # fmt: skip
STARTS = ("b", "br", "c", "ch", "d", "f", "g", "h", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "tr", "v", "w")
MIDDLES = ("a", "e", "i", "o", "u", "ea", "io", "ou")
ENDS = ("", "l", "n", "nd", "r", "s", "st", "t", "ct", "ment", "tion", "ing", "ed", "er", "ly")
MADE_UP = 2_000
SENTENCE_WORDS = 14


def prose(seed: int, characters: int) -> str:
    """Return that many characters of prose, always the same for a seed."""
    random = Random(seed)
    words = _words(random, 16 + characters // 4)
    sentences: list[str] = []
    length = 0
    while length < characters:
        sentence = " ".join(next(words) for _ in range(random.randint(SENTENCE_WORDS // 2, SENTENCE_WORDS * 3 // 2)))
        sentences.append(sentence.capitalize() + ".")
        length += len(sentences[-1]) + 1
    return " ".join(sentences)[:characters]


def _words(random: Random, at_once: int) -> Iterator[str]:
    while True:
        yield from random.choices(VOCABULARY, cum_weights=CUMULATED, k=at_once)


def _made_up(random: Random) -> str:
    syllables = random.choices((1, 2, 3), (3, 5, 2))[0]
    stem = "".join(random.choice(STARTS) + random.choice(MIDDLES) for _ in range(syllables))
    return stem + random.choice(ENDS)


def _vocabulary() -> tuple[list[str], list[float]]:
    random = Random(1)
    made_up = list(dict.fromkeys(_made_up(random) for _ in range(MADE_UP)))
    ranks = range(30, 30 + len(made_up))
    share = sum(often for _, often in COMMON) / sum(1 / rank for rank in ranks)
    weights = [float(often) for _, often in COMMON] + [share / rank for rank in ranks]
    return [*(word for word, _ in COMMON), *made_up], list(accumulate(weights))


VOCABULARY, CUMULATED = _vocabulary()
